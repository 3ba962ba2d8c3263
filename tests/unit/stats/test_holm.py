"""Holm's adjustment of several p values, beside statsmodels."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from pytest_quant.stats.holm import holm

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
