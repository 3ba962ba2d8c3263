"""Write the JSON Schemas that the package ships, from the types of the documents: ``python -m tests.json_schemas``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest_quant
from pytest_quant.record.json_schema import RunDocument, schema_of
from pytest_quant.report.comparison_document import ComparisonDocument

PACKAGE = Path(pytest_quant.__file__).parent
DOCUMENTS: Mapping[str, type] = {"record_schema.json": RunDocument, "comparison_schema.json": ComparisonDocument}
"""The file of the package that describes each document."""

_WIDTH = 120


def schema_text(document: type) -> str:
    """Return the text of a document's schema."""
    return _folded(schema_of(document)) + "\n"


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
    for name, document in DOCUMENTS.items():
        (PACKAGE / name).write_text(schema_text(document), encoding="utf-8")


if __name__ == "__main__":
    main()
