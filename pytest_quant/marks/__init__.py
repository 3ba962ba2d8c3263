"""From ``@pytest.mark.quant(...)`` to a check; here, which test functions and items carry the mark.

It must be fast, because every collected function passes through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_quant.record import EncodedRecord

NAME = "quant"

RECORD_ATTRIBUTE = "quant_record"
"""Under this name the JSON of a check's record rides on its report."""

SERIES_ATTRIBUTE = "quant_series"
"""Under this name the key of its series does, where the test was skipped before its check, see `Run.skipped`."""

SAMPLES_ATTRIBUTE = "quant_samples"
"""Under this name the runs of its engines do, where pytest-benchmark is to keep them."""

ENCODED: pytest.StashKey[dict[int, EncodedRecord]] = pytest.StashKey()
"""The records of this process by the identity of their JSON: what rides on a report of it is not decoded again."""


def is_marked(node: pytest.Item | pytest.Collector) -> bool:
    """Whether `node` or one of its parents carries the mark."""
    return node.get_closest_marker(NAME) is not None


def own_marks(obj: object, name: str = NAME) -> list[pytest.Mark]:
    """Return the marks of that `name` on a function, the closest first."""
    marks = getattr(obj, "pytestmark", None)
    if not isinstance(marks, list):
        return []
    return [mark for mark in marks if isinstance(mark, pytest.Mark) and mark.name == name]


def marks_of_parameters(obj: object, collector: pytest.Collector) -> list[list[pytest.Mark]]:
    """Return the marks of that name in each ``pytest.param`` of a function's parametrizations that has any."""
    parametrizations = (*own_marks(obj, "parametrize"), *collector.iter_markers("parametrize"))
    values = (mark.args[1] if len(mark.args) > 1 else mark.kwargs.get("argvalues") for mark in parametrizations)
    parameter_set = type(pytest.param())
    sets = (entry for listed in values if isinstance(listed, (list, tuple)) for entry in listed)
    written = (entry.marks for entry in sets if isinstance(entry, parameter_set))
    marks = ([mark.mark if isinstance(mark, pytest.MarkDecorator) else mark for mark in each] for each in written)
    return [ours for of_entry in marks if (ours := [mark for mark in of_entry if mark.name == NAME])]
