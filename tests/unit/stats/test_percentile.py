"""How many runs a percentile needs, and how often its bounds hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.stats.ratio import percentile_bounds, runs_needed


@pytest.mark.parametrize(("percentile", "runs"), [(90, 29), (95, 59), (99, 299), (99.9, 2995)])
def test_the_runs_needed_are_the_known_ones(percentile: float, runs: int) -> None:
    """At 95 % with no run beyond the limit."""
    assert runs_needed(percentile) == runs


@given(percentile=st.floats(1, 99.9), confidence=st.floats(0.5, 0.999))
def test_so_many_runs_are_enough_and_one_fewer_is_not(percentile: float, confidence: float) -> None:
    """The largest of n lies above the percentile unless all n lie below: binomial(n, p), by SciPy."""
    n = runs_needed(percentile, confidence)
    all_below = scipy_stats.binom.pmf([n, n - 1], [n, n - 1], percentile / 100)
    assert 1 - all_below[0] >= confidence - 1e-12
    assert n == 1 or 1 - all_below[1] <= confidence + 1e-12


@pytest.mark.parametrize("percentile", [50.0, 90.0])
def test_each_bound_holds_as_often_as_it_says(percentile: float) -> None:
    """Of 2000 exponential samples of 60, each bound is on its side of the true percentile 95 % of the time or more."""
    draws = np.random.default_rng(7).exponential(size=(2000, 60))
    true = scipy_stats.expon.ppf(percentile / 100)
    bounds = [percentile_bounds(list(draw), percentile) for draw in draws]
    assert np.mean([low is not None and low <= true for low, _ in bounds]) >= 0.94
    assert np.mean([high is not None and high >= true for _, high in bounds]) >= 0.94


def test_very_many_runs_do_not_overflow() -> None:
    """The bounds of the median of 100 000 runs lie where the normal approximation puts them."""
    low, high = percentile_bounds(list(range(100_000)), 50.0)
    half_width = scipy_stats.norm.ppf(0.95) * np.sqrt(100_000) / 2
    assert (low, high) == pytest.approx((50_000 - half_width, 50_000 + half_width), abs=2)


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


@given(st.integers(1, 60), st.integers(1, 6), st.sampled_from([50.0, 90.0]))
def test_clusters_of_equal_runs_are_single_samples(blocks: int, runs: int, percentile: float) -> None:
    """A block of which every run takes the same time tells as much as one run."""
    values = np.random.default_rng(blocks).permutation(blocks).astype(float)
    of_blocks = percentile_bounds(list(np.repeat(values, runs)), percentile, clusters=blocks)
    assert of_blocks == percentile_bounds(list(values), percentile)
