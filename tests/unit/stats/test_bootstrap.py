"""Intervals of the difference of two scores: BCa beside SciPy, clusters, and t by leaving one out."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.stats.bootstrap import COSTLY, USUAL, Resampling, paired_bootstrap
from pytest_quant.stats.paired import zero_event_share


def mean(values: np.ndarray) -> float:
    """Return the mean as a plain number."""
    return float(np.mean(values))


def ends(
    reference: np.ndarray, candidate: np.ndarray, effort: Resampling = USUAL, span: float | None = 0.0
) -> tuple[float, float]:
    """Return both ends of the interval of the mean difference, by default without what no sample has shown."""
    result = paired_bootstrap(reference, candidate, mean, effort=effort, span=span)
    assert result is not None
    return result.low, result.high


def sides(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return paired samples with a mean difference of 0.1."""
    random = np.random.default_rng(7)
    reference = random.normal(1.0, 0.5, n)
    return reference, reference - random.normal(0.1, 0.2, n)


def test_the_interval_of_a_skewed_mean_agrees_with_scipy() -> None:
    """SciPy's BCa bootstrap of the mean difference gives the same ends within its own noise, percentiles other ones."""
    random = np.random.default_rng(7)
    reference = random.normal(1.0, 0.5, 60)
    candidate = reference - np.exp(random.normal(size=60))
    given = ((reference - candidate,), np.mean)
    bca, percentile = (
        scipy_stats.bootstrap(*given, method=method, n_resamples=4000, rng=np.random.default_rng(1)).confidence_interval
        for method in ("BCa", "percentile")
    )
    result = ends(reference, candidate)
    assert result == pytest.approx((bca.low, bca.high), abs=0.06)
    assert result[1] - percentile.high > 0.1


@given(seed=st.integers(0, 200), bounded=st.booleans(), shift=st.floats(-5, 5), span=st.floats(0, 2))
@settings(max_examples=20, deadline=None)
def test_the_interval_of_one_side_is_that_of_its_difference_from_zeros(
    seed: int, bounded: bool, shift: float, span: float
) -> None:
    """Whichever side it is of, and with what no sample has shown; zeros by themselves have only that."""
    values, zeros = shift + np.exp(np.random.default_rng(seed).normal(size=50)), np.zeros(50)
    first, second = (
        paired_bootstrap(one, other, mean, effort=Resampling(200, 100, 50), span=span, bounded=bounded)
        for one, other in ((values, zeros), (zeros, values))
    )
    assert first is not None
    assert second is not None
    assert first.sides[0] == second.sides[1] == (first.low, first.high)
    unseen = span * zero_event_share(50)
    assert first.sides[1] == second.sides[0] == pytest.approx((-unseen, unseen))


def test_drawing_fewer_samples_gives_the_interval_of_all() -> None:
    """400 of 6400 samples, scaled by 1/4, give SciPy's interval of 6400, not the four times wider one of 400."""
    reference, candidate = sides(6400)
    expected = scipy_stats.bootstrap(
        (reference - candidate,), np.mean, method="BCa", n_resamples=1000, rng=np.random.default_rng(1)
    ).confidence_interval
    result = ends(reference, candidate, Resampling(2000, 400, 100))
    assert result == pytest.approx((expected.low, expected.high), abs=0.001)


@pytest.mark.parametrize("most_samples", [100_000, 500])
def test_the_variance_is_that_of_one_difference(most_samples: int) -> None:
    """For a mean it is the variance of the paired differences, however few samples are drawn."""
    reference, candidate = sides(3000)
    result = paired_bootstrap(reference, candidate, mean, effort=Resampling(2000, most_samples, 50))
    assert result is not None
    assert result.variance == pytest.approx(np.var(reference - candidate), rel=0.1)


def test_a_hundred_resamples_leave_no_more_beyond_an_end_than_many() -> None:
    """Of what a mean of normal differences can be 2.5 %, and a little for noise; numpy's own rule leaves 3.6 %."""
    random, beyond = np.random.default_rng(3), []
    for _ in range(200):
        differences = random.normal(size=200)
        normal = NormalDist(mean(differences), float(np.std(differences)) / math.sqrt(200))
        low, high = ends(differences, np.zeros(200), COSTLY[-1])
        beyond += [normal.cdf(low), 1.0 - normal.cdf(high)]
    assert np.mean(beyond) < 0.033


@pytest.mark.parametrize("n", [300, 50_000])
def test_how_long_an_interval_takes_is_known_from_one_score(n: int) -> None:
    """Within a tenth, where the time of a score grows with the samples in it."""
    scored: list[int] = []

    def counted(values: np.ndarray) -> float:
        scored.append(len(values))
        return mean(values)

    values = np.arange(float(n))
    paired_bootstrap(values, values, counted, effort=COSTLY[0])
    assert COSTLY[0].lasts_s(1.0, n) == pytest.approx(sum(scored) / n, rel=0.1)


@given(seed=st.integers(0, 1000))
def test_equal_data_give_an_equal_interval(seed: int) -> None:
    """The same figures come out of the same outputs on every run."""
    reference = np.random.default_rng(seed).normal(size=20)
    candidate = reference + 0.5
    first, second = (paired_bootstrap(reference, candidate, np.median, effort=Resampling(50, 50, 5)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("rare", "has_interval"), [(0.5, True), (0.005, False)])
@pytest.mark.parametrize("undefined", ["raises", "nan"])
def test_a_score_that_is_often_undefined_has_no_interval(rare: float, has_interval: bool, undefined: str) -> None:
    """When most resamples miss the only positive sample, the few others say nothing about the rest."""
    positive = np.arange(200) < 200 * rare

    def needs_a_positive(values: np.ndarray) -> float:
        if values.any():
            return mean(values)
        if undefined == "raises":
            raise ValueError("no positive sample")
        return float("nan")

    result = paired_bootstrap(positive, positive, needs_a_positive, effort=Resampling(100, 200, 20))
    assert (result is not None) is has_interval


def test_a_score_that_is_undefined_without_a_sample_has_its_interval() -> None:
    """Where the jackknife leaves out the only group that defines a score, the interval has no acceleration."""

    def of_many_sevens(values: np.ndarray) -> float:
        return mean(values) if np.sum(values == 7.0) > 10 else float("nan")

    values = np.concatenate([np.full(20, 7.0), np.arange(10.0)])
    both = [
        paired_bootstrap(values, values, scored, effort=Resampling(200, 30, 2)) for scored in (of_many_sevens, mean)
    ]
    assert all(result is not None for result in both)


@pytest.mark.parametrize("n", [2, 50])
def test_equal_answers_leave_what_none_of_them_has_shown(n: int) -> None:
    """A share of `zero_event_share` may be worth the span; by default as much as the samples' own scores lie apart."""
    values = np.linspace(0.0, 3.0, n)
    share = zero_event_share(n)
    assert ends(values, values, span=None) == pytest.approx((-3.0 * share, 3.0 * share))
    assert ends(values, values, span=100.0) == pytest.approx((-100.0 * share, 100.0 * share))


@given(seed=st.integers(0, 50), n=st.integers(2, 60))
def test_no_interval_is_narrower_than_what_no_sample_has_shown(seed: int, n: int) -> None:
    """Clopper and Pearson's share, on both sides of the measured difference."""
    random = np.random.default_rng(seed)
    reference = random.normal(size=n)
    candidate = reference + 0.3 * random.normal(size=n)
    low, high = ends(reference, candidate, Resampling(50, 60, 10), span=2.0)
    estimate = mean(reference) - mean(candidate)
    assert min(estimate - low, high - estimate) >= 2.0 * zero_event_share(n) * (1.0 - 1e-9)


def coverage(truth: float, sets: int, draw: Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]) -> float:
    """Return the share of `sets` drawn sets whose interval of the mean difference encloses `truth`."""
    random = np.random.default_rng(4)
    hits = 0
    for _ in range(sets):
        low, high = ends(*draw(random), Resampling(300, 50, 50), span=None)
        hits += low <= truth <= high
    return hits / sets


@pytest.mark.parametrize("noise", [0.0, 0.001])
def test_an_error_of_50_samples_covers_a_change_that_few_sets_show(noise: float) -> None:
    """1 in 200 samples is wrong by 0.5: four of five sets of 50 show none, and 95 % and more enclose the mean."""

    def draw(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        error = 0.1 * np.abs(random.normal(size=50))
        return np.abs(error + noise * random.normal(size=50)) + 0.5 * (random.random(50) < 0.005), error

    assert coverage(0.0025, 200, draw) >= 0.95


@pytest.mark.parametrize("bounded", [True, False])
def test_what_no_sample_has_shown_is_added_in_squares_only_where_it_has_bounds(bounded: bool) -> None:
    """An unseen event may exceed the largest one seen, where nothing bounds it."""
    reference, candidate = sides(50)
    bare, result = (paired_bootstrap(reference, candidate, mean, span=span, bounded=bounded) for span in (0.0, 2.0))
    assert bare is not None
    assert result is not None
    estimate, unseen = mean(reference) - mean(candidate), 2.0 * zero_event_share(50)
    seen = bare.high - estimate
    expected = np.hypot(seen, unseen) if bounded else seen + unseen
    assert result.high - estimate == pytest.approx(expected)


def ratio(rows: np.ndarray) -> float:
    """Return the quotient of the column sums of rows (n, 2)."""
    over, under = rows.sum(axis=0)
    return float(over / under)


def sums(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (errors, words) of n sentences for two sides."""
    words = random.integers(3, 30, n)
    both = [random.binomial(words, share) for share in (0.1, 0.15)]
    return np.stack([both[0], words], 1).astype(float), np.stack([both[1], words], 1).astype(float)


@given(seed=st.integers(0, 1000), n=st.integers(2, 99), confidence=st.sampled_from([0.9, 0.95]))
@settings(max_examples=30)
def test_few_units_have_the_t_interval_of_the_jackknife(seed: int, n: int, confidence: float) -> None:
    """Of the difference of two ratios, by SciPy's t and kurtosis and the textbook's variance (n - 1) / n sum d^2.

    Values of kurtosis k have 2 n / (k - 1) degrees of freedom, where that is less than n - 1.
    """
    reference, candidate = sums(np.random.default_rng(seed), n)
    left = [ratio(np.delete(reference, i, 0)) - ratio(np.delete(candidate, i, 0)) for i in range(n)]
    error = math.sqrt((n - 1) / n * np.sum((np.array(left) - np.mean(left)) ** 2))
    assume(error > 1e-9)
    freedom = min(n - 1, 2 * n / max(1, scipy_stats.kurtosis(left, fisher=False) - 1))
    reach = scipy_stats.t.ppf(0.5 + confidence / 2, max(1, freedom)) * error
    result = paired_bootstrap(reference, candidate, ratio, confidence=confidence, span=0.0, clusters=np.arange(n))
    assert result
    middle = ratio(reference) - ratio(candidate)
    assert (result.low, result.high) == pytest.approx((middle - reach, middle + reach), rel=1e-9, abs=1e-12)
    assert result.variance == pytest.approx(n * error**2, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("clusters", [12, 120])
def test_a_cluster_is_drawn_whole(clusters: int) -> None:
    """Rows that are summed by cluster beforehand give the interval of the rows with their clusters."""
    random = np.random.default_rng(3)
    ours, theirs = sums(random, 300)
    codes = np.concatenate([np.arange(clusters), random.integers(0, clusters, 300 - clusters)])
    one, other = (np.array([side[codes == code].sum(axis=0) for code in range(clusters)]) for side in (ours, theirs))
    by_row = paired_bootstrap(ours, theirs, ratio, clusters=codes, span=0.0)
    by_sum = paired_bootstrap(one, other, ratio, clusters=np.arange(clusters), span=0.0)
    assert by_row
    assert by_sum
    assert (by_row.low, by_row.high) == pytest.approx((by_sum.low, by_sum.high))


def test_samples_by_themselves_are_clusters_of_one() -> None:
    """A hundred samples, each of which is its own cluster, have the interval of a hundred samples."""
    ours, theirs = sums(np.random.default_rng(4), 100)
    alone = paired_bootstrap(ours, theirs, ratio, clusters=np.arange(100))
    assert alone == paired_bootstrap(ours, theirs, ratio)
