"""Which test functions and items carry the mark, told fast: every collected function passes through here."""

from __future__ import annotations

import pytest

NAME = "quant"

RECORD_ATTRIBUTE = "quant_record"
"""Under this name the record of a check rides on its report."""


def is_marked(node: pytest.Item | pytest.Collector) -> bool:
    """Tell whether `node` or one of its parents carries the mark."""
    return node.get_closest_marker(NAME) is not None


def own_marks(obj: object, name: str = NAME) -> list[pytest.Mark]:
    """Return the marks of that `name` on a function, the closest first."""
    marks = getattr(obj, "pytestmark", None)
    if not isinstance(marks, list):
        return []
    return [mark for mark in marks if isinstance(mark, pytest.Mark) and mark.name == name]
