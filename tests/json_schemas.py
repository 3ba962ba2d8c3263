"""Write the JSON Schemas that the package ships, from the types and docstrings of the documents.

Run ``python -m tests.json_schemas``.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest_quant
from pytest_quant.history.compare.comparison import Comparison, Word
from pytest_quant.record import Record, Run
from pytest_quant.result import Count, OpCoverage, OutputError

PACKAGE = Path(pytest_quant.__file__).parent


@dataclass(frozen=True, slots=True)
class RunDocument:
    """The records of one run.

    Written by --quant-json. Percentages are in points of a hundred, MB are 10^6 bytes. A figure that was not measured
    is null, and so is a section of a check that never came to be. More fields may be added.

    Attributes
    ----------
    schema : the version of this document; a field that is added leaves it as it is.
    run : when and where the tests ran, and on which commit.
    checks : one for each check; empty without any.
    """

    schema: Literal[1]
    run: Run
    checks: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class ComparisonDocument:
    """A comparison of two commits.

    Printed by pytest-quant compare --json. More fields may be added.

    Attributes
    ----------
    schema : the version of this document; a field that is added leaves it as it is.
    verdict : the result in one word, which fits the exit code under the options that were given.
    exit_code : of the command: 1 for a regression, and under --strict 3 for inconclusive and 4 without a baseline.
    confidence : level of each single interval, 0..1.
    """

    schema: Literal[1]
    verdict: Word
    exit_code: Count
    confidence: float


DOCUMENTS: Mapping[str, tuple[type, ...]] = {
    "record_schema.json": (RunDocument,),
    "comparison_schema.json": (ComparisonDocument, Comparison),
}
"""The file of the package that describes each document, and the types that have its fields."""

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {float: "number", int: "integer", str: "string", bool: "boolean"}
_KEYS: Mapping[type, str] = {OpCoverage: "op_type", OutputError: "name"}
"""Rows that are written as an object, by this field of theirs."""

_WIDTH = 120


def schema_of(document: type, *others: type) -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of a dataclass as it is written, with the fields of others.

    The first line of its docstring is the title, the rest describes it.
    """
    parts: dict[str, Any] = {}
    title, *paragraphs = _paragraphs(document)
    whole, *more = (_part(kind, parts) for kind in (document, *others))
    for part in more:
        whole["properties"] |= part["properties"]
        whole["required"] += part["required"]
    return {
        "$schema": _DRAFT,
        **whole,
        "title": f"pytest-quant: {title[0].lower()}{title[1:].rstrip('.')}",
        "description": " ".join(paragraphs),
        "$defs": parts,
    }


def _part(kind: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an enumeration, a named tuple or a dataclass; `parts` takes those of the types in it."""
    summary, *more = _paragraphs(kind)
    if issubclass(kind, Enum):
        words = sorted(word.value for word in kind)
        return {"title": kind.__name__, "description": " ".join([summary, *more]), "enum": words}
    types, texts = get_type_hints(kind, include_extras=True), _descriptions(kind)
    if issubclass(kind, tuple):
        items = [{"title": name, **_value(types[name], parts), "description": texts[name]} for name in types]
        bounds = {"minItems": len(items), "maxItems": len(items)}
        return {"title": kind.__name__, "type": "array", "prefixItems": items, **bounds, "description": summary}
    written = [field for field in fields(kind) if field.metadata.get("kept", True) and field.name != _KEYS.get(kind)]
    properties = {field.name: _value(types[field.name], parts) for field in written}
    for name in properties.keys() & texts.keys():
        properties[name]["description"] = texts[name]
    return {
        "title": kind.__name__,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "description": summary,
    }


def _value(declared: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a value of a declared type."""
    origin, inner = get_origin(declared), get_args(declared)
    if declared in _TYPES:
        return {"type": _TYPES[declared]}
    if origin is Annotated:
        # What these say beyond the type are words of JSON Schema.
        words = {word: list(value) if isinstance(value, tuple) else value for word, value in inner[1:]}
        return words if "enum" in words else {**_value(inner[0], parts), **words}
    if origin is Literal:
        return {"enum": sorted(inner)}
    if origin in (Union, UnionType):
        return _choice([kind for kind in inner if kind is not NoneType], NoneType in inner, parts)
    if origin is tuple and inner[0] not in _KEYS:
        return {"type": "array", "items": _value(inner[0], parts)}
    if origin in (tuple, Mapping):
        return {"type": "object", "additionalProperties": _value(inner[0 if origin is tuple else 1], parts)}
    name = declared.__name__
    if name not in parts:
        # The place first, because a type may hold itself.
        parts[name] = {}
        parts[name] = _part(declared, parts)
    return {"$ref": f"#/$defs/{name}"}


def _choice(kinds: list[Any], may_be_null: bool, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a value of one of several types; a choice of numbers and texts is one list of types."""
    choices = [_value(kind, parts) for kind in kinds]
    if all(choice.get("type") in _TYPES.values() for choice in choices):
        types = [choice["type"] for choice in choices] + ["null"] * may_be_null
        return {**choices[0], "type": types}
    if "enum" in choices[0] and get_origin(kinds[0]) is Annotated:
        return {"enum": [*choices[0]["enum"], None]}
    return {"anyOf": choices + [{"type": "null"}] * may_be_null}


@cache
def _descriptions(kind: type) -> Mapping[str, str]:
    """Return what the section ``Attributes`` of a docstring says about each field."""
    _, _, section = (inspect.getdoc(kind) or "").partition("Attributes\n----------\n")
    result: dict[str, str] = {}
    for entry in re.findall(r"^\S.*(?:\n +.*)*", section, flags=re.MULTILINE):
        names, _, text = entry.partition(" : ")
        result |= dict.fromkeys(names.split(", "), _joined(text))
    return result


def _paragraphs(kind: type) -> list[str]:
    """Return what a docstring says before its sections."""
    text, _, _ = (inspect.getdoc(kind) or "").partition("\n\nAttributes\n")
    return [_joined(paragraph) for paragraph in text.split("\n\n")]


def _joined(text: str) -> str:
    """Return the words of a docstring on one line, as JSON calls things."""
    return " ".join(re.sub(r"``None``", "null", text).replace("`", "").split())


def schema_text(*documents: type) -> str:
    """Return the text of a document's schema."""
    return _folded(schema_of(*documents)) + "\n"


def _folded(value: Any, indent: str = "", before: int = 0) -> str:
    """Return JSON that is broken into lines only where it is longer than one; `before` characters are on it already."""
    line = json.dumps(value)
    if len(indent) + before + len(line) < _WIDTH or not isinstance(value, (dict, list)):
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        names = [f"{json.dumps(name)}: " for name in value]
        parts = [name + _folded(item, deeper, len(name)) for name, item in zip(names, value.values(), strict=True)]
    else:
        parts = [_folded(item, deeper) for item in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n" + ",\n".join(deeper + part for part in parts) + f"\n{indent}{end}"


def main() -> None:
    """Write each file."""
    for name, documents in DOCUMENTS.items():
        (PACKAGE / name).write_text(schema_text(*documents), encoding="utf-8")


if __name__ == "__main__":
    main()
