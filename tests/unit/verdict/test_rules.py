"""A limit is written as the mark has it, and a figure that breaks it does not look like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import Status
from pytest_quant.verdict.rules import by_value, written


@pytest.mark.parametrize(
    ("limit", "text"),
    [(0.9999999, "0.9999999"), (1.0, "1.0"), (1, "1"), (99, "99"), (0.05, "0.05"), (1e6, "1000000.0")],
)
def test_a_limit_is_written_as_in_the_mark(limit: float, text: str) -> None:
    """0.9999999 is not 1, and 1 is not 1.0."""
    assert written(limit) == text
    assert f" {text} pp" in by_value("max_drop", limit, 200.0, " pp").reason


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
def test_a_broken_limit_differs_from_the_figure_that_breaks_it(allowed: float, observed: float) -> None:
    """A figure that is rounded to the limit, or beyond it, explains nothing."""
    for limit in ("max_drop", "min_ratio"):
        verdict = by_value(limit, allowed, observed, "")
        first, *_, last = verdict.reason.split()
        assert float(last) == allowed
        below = limit == "min_ratio"
        assert verdict.status is Status.PASS or (float(first) < allowed if below else float(first) > allowed)
