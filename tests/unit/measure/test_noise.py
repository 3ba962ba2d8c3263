"""Named signs of noise in the times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.tsa.stattools import acf

from pytest_quant.measure.noise import autocorrelation, budget_reasons, noise_notes, null_reasons
from pytest_quant.result import Interval
from pytest_quant.spec import LatencyPlan

STEADY = [100.0, 101.0] * 12


@pytest.mark.parametrize(
    ("low", "high", "off"),
    [(0.99, 1.01, False), (1.01, 1.05, False), (0.9, 1.1, False), (1.021, 1.05, True), (0.9, 0.979, True)],
)
def test_a_null_is_off_when_its_whole_interval_is(low: float, high: float, *, off: bool) -> None:
    """Beyond 2 % either way; an interval that reaches into the tolerance accuses nobody."""
    assert bool(null_reasons(Interval(low, high))) is off


@pytest.mark.parametrize(("rounds", "few"), [(5, True), (6, False)])
def test_five_rounds_are_too_few(rounds: int, *, few: bool) -> None:
    """The median of 5 lies outside their range in 1 of 16 cases, that of 6 in 1 of 32."""
    assert bool(budget_reasons(rounds, LatencyPlan(confidence=0.95))) is few


def test_steady_times_are_not_noted() -> None:
    """Rounds that alternate within a percent show nothing."""
    assert noise_notes(STEADY, STEADY) == ()


@pytest.mark.parametrize(
    ("times", "noted"),
    [
        ([100.0, 115.0] * 12, ["wide spread"]),
        (list(np.linspace(100, 108, 24)), ["trend", "slow waves"]),
        ([100.0] * 6 + [104.0] * 6 + [100.0] * 12, ["slow waves"]),
    ],
    ids=["wide spread", "trend", "slow waves"],
)
def test_each_sign_has_a_name(times: list[float], noted: list[str]) -> None:
    """The note starts with it and says which engine it is about."""
    for notes, who in ((noise_notes(times, STEADY), "candidate"), (noise_notes(STEADY, times), "reference")):
        assert [note.partition(":")[0] for note in notes] == noted
        assert all(who in note for note in notes)


@pytest.mark.parametrize(
    ("times", "ratio"),
    [(list(np.arange(100.0, 124.0)), "1.15"), (list(np.arange(123.0, 99.0, -1.0)), "0.87")],
    ids=["slower", "faster"],
)
def test_a_trend_is_the_last_third_over_the_first(times: list[float], ratio: str) -> None:
    """Of 100, 101, .. 123 their medians are 103.5 and 119.5; getting faster is a trend too."""
    (told,) = [note for note in noise_notes(times, STEADY) if note.startswith("trend")]
    assert told == f"trend: the candidate took {ratio} times as long at the end as at the start"


def test_of_two_rounds_each_is_an_end() -> None:
    """A third of two is none."""
    notes = noise_notes([100.0, 110.0], [100.0, 100.0])
    assert "trend: the candidate took 1.10 times as long at the end as at the start" in notes


@given(times=st.lists(st.floats(1, 100), min_size=3, max_size=40).filter(lambda times: np.ptp(times) > 1e-3))
def test_autocorrelation_agrees_with_statsmodels(times: list[float]) -> None:
    """At lag 1, with the usual divisor n."""
    assert autocorrelation(times) == pytest.approx(acf(times, nlags=1, fft=False)[1], abs=1e-9)


def test_equal_times_do_not_correlate() -> None:
    """There is nothing to divide by."""
    assert autocorrelation([5.0] * 8) == 0.0
