"""The paired bootstrap against independent computations, and how often its interval is right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.stats.paired import USUAL, Resampling, paired_bootstrap, zero_event_share


def mean(values: np.ndarray) -> float:
    """Return the mean as a plain number."""
    return float(np.mean(values))


def ends(
    reference: np.ndarray, candidate: np.ndarray, effort: Resampling = USUAL, span: float | None = 0.0
) -> tuple[float, float]:
    """Return both ends of the interval of the mean difference, by default without what no sample has shown."""
    found = paired_bootstrap(reference, candidate, mean, effort=effort, span=span)
    assert found is not None
    return found.low, found.high


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
    found = ends(reference, candidate)
    assert found == pytest.approx((bca.low, bca.high), abs=0.06)
    assert found[1] - percentile.high > 0.1


def test_drawing_fewer_samples_gives_the_interval_of_all() -> None:
    """400 of 6400 samples, scaled by 1/4, give SciPy's interval of 6400, not the four times wider one of 400."""
    reference, candidate = sides(6400)
    expected = scipy_stats.bootstrap(
        (reference - candidate,), np.mean, method="BCa", n_resamples=1000, rng=np.random.default_rng(1)
    ).confidence_interval
    found = ends(reference, candidate, Resampling(2000, 400, 100))
    assert found == pytest.approx((expected.low, expected.high), abs=0.001)


@pytest.mark.parametrize("most_samples", [100_000, 500])
def test_the_variance_is_that_of_one_difference(most_samples: int) -> None:
    """For a mean it is the variance of the paired differences, however few samples are drawn."""
    reference, candidate = sides(3000)
    found = paired_bootstrap(reference, candidate, mean, effort=Resampling(2000, most_samples, 50))
    assert found is not None
    assert found.variance == pytest.approx(np.var(reference - candidate), rel=0.1)


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

    found = paired_bootstrap(positive, positive, needs_a_positive, effort=Resampling(100, 200, 20))
    assert (found is not None) is has_interval


def test_a_score_that_is_undefined_without_a_sample_has_its_interval() -> None:
    """Where the jackknife leaves out the only group that defines a score, the interval has no acceleration."""

    def of_many_sevens(values: np.ndarray) -> float:
        return mean(values) if np.sum(values == 7.0) > 10 else float("nan")

    values = np.concatenate([np.full(20, 7.0), np.arange(10.0)])
    both = [
        paired_bootstrap(values, values, scored, effort=Resampling(200, 30, 2)) for scored in (of_many_sevens, mean)
    ]
    assert all(found is not None for found in both)


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
    bare, found = (paired_bootstrap(reference, candidate, mean, span=span, bounded=bounded) for span in (0.0, 2.0))
    assert bare is not None
    assert found is not None
    estimate, unseen = mean(reference) - mean(candidate), 2.0 * zero_event_share(50)
    seen = bare.high - estimate
    expected = np.hypot(seen, unseen) if bounded else seen + unseen
    assert found.high - estimate == pytest.approx(expected)
