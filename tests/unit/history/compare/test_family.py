"""Holm's adjustment against statsmodels, and what a rejection does to a row."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from pytest_quant.history.compare import Outcome, Row
from pytest_quant.history.compare.pairing import Draft, holm, judge

_P_VALUES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30)


@pytest.fixture(scope="module", autouse=True)
def _little_to_collect() -> Iterator[None]:
    """Statsmodels collects garbage at every call, and need not walk through all that the other tests have loaded."""
    gc.freeze()
    yield
    gc.unfreeze()


@settings(max_examples=60)
@given(_P_VALUES)
def test_it_is_holms_adjustment(p_values: list[float]) -> None:
    """Statsmodels gives the same, in the same order."""
    expected = multipletests(p_values, alpha=0.01, method="holm")[1]
    assert holm(p_values) == pytest.approx(list(expected), rel=1e-12, abs=1e-300)


def test_no_test_is_no_family() -> None:
    """Nothing to adjust."""
    assert holm([]) == []


def _draft(p: float | None) -> Draft:
    kinds = (Outcome.UNCHANGED, Outcome.REGRESSION)
    row, rejected = (Row("key", "node", "m", "ort-int8", "speedup", outcome, 1.0, 2.0, p=p) for outcome in kinds)
    return Draft(row, rejected)


def test_only_what_is_below_the_level_after_the_adjustment_is_rejected() -> None:
    """0.004 and 0.006 are below 0.01 each; of the two, 0.004 * 2 = 0.008 is, and then 0.006 * 1, raised to 0.008."""
    rows = judge([_draft(0.004), _draft(0.006)], alpha=0.01)
    assert [row.outcome for row in rows] == [Outcome.REGRESSION, Outcome.REGRESSION]
    assert [row.p_adjusted for row in rows] == [0.008, 0.008]
    rows = judge([_draft(0.004), _draft(0.006), _draft(0.5)], alpha=0.01)
    assert [row.outcome for row in rows] == [Outcome.UNCHANGED] * 3
    assert rows[0].p_adjusted == pytest.approx(0.012)


def test_a_row_without_a_test_takes_no_part() -> None:
    """It neither is rejected nor makes the others harder to reject."""
    rows = judge([_draft(None), _draft(0.009)], alpha=0.01)
    assert [row.outcome for row in rows] == [Outcome.UNCHANGED, Outcome.REGRESSION]
    assert [row.p_adjusted for row in rows] == [None, 0.009]


def test_a_level_that_is_hit_exactly_is_a_rejection() -> None:
    """At most alpha, as Holm has it."""
    (row,) = judge([_draft(0.01)], alpha=0.01)
    assert (row.outcome, row.p_adjusted) == (Outcome.REGRESSION, 0.01)
