"""JSON Schemas of the documents that are written, generated from the types and docstrings of their dataclasses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from pytest_quant.record.codec import form_of, nested
from pytest_quant.record.record import LatencyFigures, Record
from pytest_quant.record.run import Run
from pytest_quant.result import AccuracyResult, Coverage, OpCoverage, OutputError, Resources, Verdict

_DRAFT = "https://json-schema.org/draft/2020-12/schema"

_FIRST: Mapping[type, Collection[str]] = {
    AccuracyResult: (
        *("metric", "unit", "better", "reference", "candidate", "drop", "drop_ci", "confidence", "p_value"),
        *("n_to_resolve", "agreement_pct", "kl", "worst_class", "sqnr_db", "cosine", "max_abs_error"),
        *("max_abs_error_sample", "identical", "simulated", "faults", "discordant"),
        *("reference_correct", "candidate_correct"),
    ),
    Coverage: ("float_nodes", "opaque_nodes"),
    LatencyFigures: ("percentile_bounds", "reasons", "notes", "round_p50_ms", "repeat"),
    OpCoverage: ("macs", "quantized_macs"),
    OutputError: ("sqnr_db", "cosine", "max_abs_error", "sample", "identical"),
    Record: ("accuracy", "latency", "coverage", "resources", "cache", "verdicts", "isa"),
    Resources: (
        *("size_mb", "reference_size_mb", "build_s", "calibration_s", "build_memory_mb", "run_memory_mb", "energy_mj"),
    ),
    Run: (),
    Verdict: (),
}
"""Fields with a default that the first documents of this version of the schema had already, so that all have them.

Every other field of these types that has a default came later, and an earlier document may lack it. What was not
measured is null, and never missing.
"""


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


def schema_of(document: type) -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of a dataclass as it is written.

    The first line of its docstring is the title, the rest describes it.
    """
    _, components = msgspec.json.schema_components([form_of(document)])
    described = {kind.__name__: kind for kind in _all(document)}
    parts = {name: _tidy(part, described.get(name)) for name, part in components.items()}
    title, *paragraphs = _paragraphs(document)
    whole = parts.pop(document.__name__)
    return {
        "$schema": _DRAFT,
        **whole,
        "title": f"pytest-quant: {title[0].lower()}{title[1:].rstrip('.')}",
        "description": " ".join(paragraphs),
        "$defs": parts,
    }


def _all(kind: type) -> set[type]:
    """Return a dataclass and all that it holds, at any depth."""
    inner = {one for one in nested(kind).values() if one is not kind}
    return {kind}.union(*map(_all, inner))


def _tidy(part: dict[str, Any], kind: type | None) -> dict[str, Any]:
    """Return the schema of one form with what its docstring says and what is required, without what says nothing."""
    tidy: dict[str, Any] = _plainer(part)
    if "description" in tidy:
        tidy["description"] = _joined(tidy["description"])
    if kind is None or not tidy.keys() & {"properties", "prefixItems"}:
        return tidy
    told, types = _descriptions(kind), get_type_hints(kind, include_extras=True)
    for name, field in (tidy.get("properties") or _titled(kind, tidy["prefixItems"])).items():
        _narrow(field, types[name])
        if name in told:
            field["description"] = told[name]
    later = _later(kind)
    summary, *_ = _paragraphs(kind)
    required = [name for name in tidy.get("properties", ()) if name not in later]
    return {**tidy, "description": summary} | ({"required": required} if "properties" in tidy else {})


def _titled(kind: type, items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the values of a list by the names of the fields, which are their titles: they have no names there."""
    found = {field.name: item for field, item in zip(fields(kind), items, strict=True)}
    for name, item in found.items():
        item["title"] = name
    return found


def _narrow(part: dict[str, Any], declared: Any) -> None:
    """Add what the annotations of a declared type say beyond the type itself, as words of JSON Schema."""
    choices = get_args(declared) if get_origin(declared) in (Union, UnionType) else (declared,)
    (one, *_) = [choice for choice in choices if choice is not NoneType]
    part = part["anyOf"][0] if "anyOf" in part else part
    kind, *said = get_args(one) if get_origin(one) is Annotated else (one,)
    for word, value in said:
        part[word] = list(value) if isinstance(value, tuple) else value
        if word == "enum":
            del part["type"]
            part[word] += [None] if NoneType in choices else []
    if get_origin(kind) is Mapping:
        _narrow(part["additionalProperties"], get_args(kind)[1])


def _later(kind: type) -> set[str]:
    """Return the fields of a dataclass that an earlier document may lack."""
    if kind not in _FIRST:
        return set()
    filled = (one for one in fields(kind) if one.default is not MISSING or one.default_factory is not MISSING)
    return {one.name for one in filled} - set(_FIRST[kind])


def _plainer(part: Any) -> Any:
    """Leave out bounds, which every number of JSON is within, and defaults; write a choice of types as one list."""
    if isinstance(part, list):
        return [_plainer(value) for value in part]
    if not isinstance(part, dict):
        return part
    kept = {key: _plainer(value) for key, value in part.items() if key not in ("minimum", "maximum", "default")}
    if "anyOf" not in kept:
        return kept
    # Null is last, whatever msgspec puts first.
    choices = kept["anyOf"] = sorted(kept["anyOf"], key=lambda choice: choice == {"type": "null"})
    if all(choice.keys() == {"type"} for choice in choices):
        return {"type": [choice["type"] for choice in choices]} | {k: v for k, v in kept.items() if k != "anyOf"}
    return kept


@cache
def _descriptions(kind: type) -> Mapping[str, str]:
    """Return what the section ``Attributes`` of a docstring says about each field."""
    _, _, section = (inspect.getdoc(kind) or "").partition("Attributes\n----------\n")
    found: dict[str, str] = {}
    for entry in re.findall(r"^\S.*(?:\n +.*)*", section, flags=re.MULTILINE):
        names, _, text = entry.partition(" : ")
        found |= dict.fromkeys(names.split(", "), _joined(text))
    return found


def _paragraphs(kind: type) -> list[str]:
    """Return what a docstring says before its sections."""
    text, _, _ = (inspect.getdoc(kind) or "").partition("\n\nAttributes\n")
    return [_joined(paragraph) for paragraph in text.split("\n\n")]


def _joined(text: str) -> str:
    """Return the words of a docstring on one line, as JSON calls things."""
    return " ".join(re.sub(r"``None``", "null", text).replace("`", "").split())
