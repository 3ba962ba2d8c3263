"""Which test functions and items carry the mark, told fast: every collected function passes through here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_quant.record import Encoded

NAME = "quant"

RECORD_ATTRIBUTE = "quant_record"
"""Under this name the JSON of a check's record rides on its report."""

ENCODED: pytest.StashKey[dict[int, Encoded]] = pytest.StashKey()
"""The records of this process by the identity of their JSON: what rides on a report of it is not decoded again."""


def is_marked(node: pytest.Item | pytest.Collector) -> bool:
    """Tell whether `node` or one of its parents carries the mark."""
    return node.get_closest_marker(NAME) is not None


def own_marks(obj: object, name: str = NAME) -> list[pytest.Mark]:
    """Return the marks of that `name` on a function, the closest first."""
    marks = getattr(obj, "pytestmark", None)
    if not isinstance(marks, list):
        return []
    return [mark for mark in marks if isinstance(mark, pytest.Mark) and mark.name == name]
