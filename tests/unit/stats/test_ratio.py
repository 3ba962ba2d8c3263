"""Percentiles, ratios and Student's distribution, beside scipy and their formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.stats.ratio import (
    fewest_rounds,
    percentile_bounds,
    runs_needed,
    student_quantile,
    student_tails,
)


@given(confidence=st.floats(0.5, 0.9999))
def test_fewer_rounds_cannot_reach_the_confidence(confidence: float) -> None:
    """A median lies outside the range of n values when all n are on one side: binomial(n, 1/2), by SciPy."""
    n = fewest_rounds(confidence)
    outside = [2 * scipy_stats.binom.pmf(0, count, 0.5) for count in (n, n - 1)]
    assert 1 - outside[0] >= confidence - 1e-12
    assert 1 - outside[1] <= confidence + 1e-12


@given(percentile=st.floats(1, 99.9), confidence=st.floats(0.5, 0.999))
def test_so_many_runs_are_enough_and_one_fewer_is_not(percentile: float, confidence: float) -> None:
    """The largest of n lies above the percentile unless all n lie below: binomial(n, p), by SciPy."""
    n = runs_needed(percentile, confidence)
    all_below = scipy_stats.binom.pmf([n, n - 1], [n, n - 1], percentile / 100)
    assert 1 - all_below[0] >= confidence - 1e-12
    assert n == 1 or 1 - all_below[1] <= confidence + 1e-12


@pytest.mark.parametrize(
    ("percentile", "beyond", "runs"),
    [(90, 1, 46), (95, 1, 93), (99, 1, 473), (90, 2, 61), (99.999, 1, 474_385), (99.9999999, 1, 4_743_864_651)],
)
def test_the_runs_needed_with_freaks_left_out(percentile: float, beyond: int, runs: int) -> None:
    """The first n of which the order statistic below the `beyond` largest bounds the percentile: binomial, by SciPy.

    A limit on p99.999 is asked after every round, so that the number must be found in few steps.
    """
    assert runs_needed(percentile, beyond=beyond) == runs
    for n, enough in ((runs, True), (runs - 1, False)):
        assert (scipy_stats.binom.cdf(n - 1 - beyond, n, percentile / 100) >= 0.95) is np.bool_(enough)


def bursts(blocks: int, runs: int, share: float, trials: int) -> np.ndarray:
    """Runs in blocks, of which so many are slower by half from their first run to their last."""
    random = np.random.default_rng(11)
    hit = random.random((trials, blocks, 1)) < share
    steady = random.lognormal(0.0, 0.03, (trials, blocks, runs))
    return np.where(hit, 1.5 * random.lognormal(0.0, 0.1, (trials, blocks, 1)), 1.0) * steady


@pytest.mark.parametrize(
    ("percentile", "blocks", "runs", "share"),
    [(99, 38, 8, 0.015), (99, 304, 4, 0.01), (99, 304, 4, 0.015), (90, 40, 5, 0.1), (90, 40, 5, 0.12)],
)
def test_bursts_as_long_as_a_block_do_not_take_a_bound_below_its_percentile(
    percentile: float, blocks: int, runs: int, share: float
) -> None:
    """In at most 5 % of 400 launches, 3 deviations more by chance; with runs as independent ones in many more."""
    true = np.percentile(bursts(100_000, runs, share, 1), percentile)
    launches = bursts(blocks, runs, share, 400)

    def too_low(clusters: int | None) -> float:
        highs = [percentile_bounds(list(launch.ravel()), percentile, clusters=clusters)[1] for launch in launches]
        return float(np.mean([high is not None and high < true for high in highs]))

    assert too_low(blocks) <= 0.05 + 3.0 * np.sqrt(0.05 * 0.95 / 400)
    assert too_low(None) >= 0.15


@settings(max_examples=80)
@given(st.floats(0.0, 500.0), st.floats(1.0, 500.0))
def test_tails_are_those_of_student(t: float, freedom: float) -> None:
    """Both tails together, far out as well as near 0."""
    assert student_tails(t, freedom) == pytest.approx(2.0 * scipy_stats.t.sf(t, freedom), rel=1e-8, abs=1e-250)


@pytest.mark.parametrize("freedom", [1.0, 1.5, 4.0, 8.0, 38.0, 1000.0])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_quantile_is_that_of_student(confidence: float, freedom: float) -> None:
    """It encloses the confidence between its negative and itself."""
    assert student_quantile(confidence, freedom) == pytest.approx(scipy_stats.t.ppf(0.5 + confidence / 2, freedom))


@given(n=st.integers(1, 600), percentile=st.sampled_from([50.0, 90.0, 95.0, 99.0]))
@settings(max_examples=50)
def test_bounds_are_the_order_statistics_of_the_binomial(n: int, percentile: float) -> None:
    """SciPy's binomial gives the same order statistics on both sides."""
    low, high = percentile_bounds(list(range(1, n + 1)), percentile)
    count = scipy_stats.binom(n, percentile / 100)
    uppers = [k for k in range(1, n + 1) if count.cdf(k - 1) >= 0.95]
    lowers = [k for k in range(1, n + 1) if count.sf(k - 1) >= 0.95]
    assert high == (min(uppers) if uppers else None)
    assert low == (max(lowers) if lowers else None)
