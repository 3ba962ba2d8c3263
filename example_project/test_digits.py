"""The digit classifier of our own in INT8."""

from __future__ import annotations

import pytest

from pytest_quant import Measurement


@pytest.mark.quant(max_drop=0.5, min_agreement=99, min_sqnr_db=30, min_coverage=100)
def test_int8_is_as_good_and_all_of_it_is_int8() -> None:
    """The marker alone is the test: 100 % of the multiply-accumulates must have run as INT8."""


@pytest.mark.quant(batch_size=32, max_drop=0.5, min_speedup=1.1)
def test_int8_is_faster_in_batches() -> None:
    """One digit is done in 40 microseconds, so the gain shows in batches."""


@pytest.mark.quant(max_drop=0.5)
def test_int8_is_less_than_half_the_size(quant: Measurement) -> None:
    """A test can assert more than the limits know, on what the check found."""
    assert quant.resources.size_mb is not None
    assert quant.resources.reference_size_mb is not None
    assert quant.resources.size_mb < 0.5 * quant.resources.reference_size_mb
