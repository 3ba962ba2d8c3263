"""The paired bootstrap and the sample size against independent computations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from statsmodels.stats.power import TTestPower

from pytest_quant.stats.paired import paired_bootstrap, samples_to_resolve


def mean(values: np.ndarray) -> float:
    """Return the mean as a plain number."""
    return float(np.mean(values))


def ends(reference: np.ndarray, candidate: np.ndarray, **options: int) -> tuple[float, float]:
    """Return both ends of the interval of the mean difference."""
    found = paired_bootstrap(reference, candidate, mean, **options)
    assert found is not None
    return found.low, found.high


def sides(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return paired samples with a mean difference of 0.1."""
    random = np.random.default_rng(7)
    reference = random.normal(1.0, 0.5, n)
    return reference, reference - random.normal(0.1, 0.2, n)


def test_the_interval_of_a_mean_agrees_with_scipy() -> None:
    """SciPy's percentile bootstrap of the mean difference gives the same ends within its own noise."""
    reference, candidate = sides(400)
    expected = scipy_stats.bootstrap(
        (reference - candidate,), np.mean, method="percentile", n_resamples=4000, rng=np.random.default_rng(1)
    ).confidence_interval
    assert ends(reference, candidate) == pytest.approx((expected.low, expected.high), abs=0.003)


def test_drawing_fewer_samples_gives_the_interval_of_all() -> None:
    """400 of 6400 samples, scaled by 1/4, give SciPy's interval of 6400, not the four times wider one of 400."""
    reference, candidate = sides(6400)
    expected = scipy_stats.bootstrap(
        (reference - candidate,), np.mean, method="percentile", n_resamples=4000, rng=np.random.default_rng(1)
    ).confidence_interval
    assert ends(reference, candidate, most_samples=400) == pytest.approx((expected.low, expected.high), abs=0.0008)


def test_no_resample_is_larger_than_asked() -> None:
    """Memory stays bounded: whoever scores never sees more rows than `most_samples`, but for the estimate itself."""
    sizes: list[int] = []

    def measured(values: np.ndarray) -> float:
        sizes.append(len(values))
        return mean(values)

    paired_bootstrap(*sides(500), measured, resamples=20, most_samples=50)
    assert sizes == [50] * 40 + [500, 500]


@pytest.mark.parametrize("most_samples", [100_000, 500])
def test_the_variance_is_that_of_one_difference(most_samples: int) -> None:
    """For a mean it is the variance of the paired differences, however few samples are drawn."""
    reference, candidate = sides(3000)
    found = paired_bootstrap(reference, candidate, mean, most_samples=most_samples)
    assert found is not None
    assert found.variance == pytest.approx(np.var(reference - candidate), rel=0.1)


def test_pairs_stay_together() -> None:
    """A constant difference has an interval of no width, however much the samples vary."""
    reference = np.random.default_rng(3).normal(0, 100, 50)
    assert ends(reference, reference - 2.0) == pytest.approx((2.0, 2.0))


@given(seed=st.integers(0, 1000))
def test_equal_data_give_an_equal_interval(seed: int) -> None:
    """The same figures come out of the same outputs on every run."""
    reference = np.random.default_rng(seed).normal(size=20)
    candidate = reference + 0.5
    first, second = (paired_bootstrap(reference, candidate, np.median, resamples=50) for _ in range(2))
    assert first == second


def test_one_sample_has_no_interval() -> None:
    """Nothing can be said about spread from one sample."""
    assert paired_bootstrap(np.ones(1), np.zeros(1), mean) is None


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

    found = paired_bootstrap(positive, positive, needs_a_positive, resamples=100)
    assert (found is not None) is has_interval


def test_the_interval_covers_as_often_as_it_says() -> None:
    """Of 200 sets of 80 samples with a true difference of 0.3, about 95 % enclose it."""
    random = np.random.default_rng(11)
    hits = 0
    for _ in range(200):
        reference = random.normal(size=80)
        low, high = ends(reference, reference - random.normal(0.3, 1.0, 80), resamples=400)
        hits += low <= 0.3 <= high
    assert 180 <= hits <= 199


def test_samples_to_resolve_is_the_power_of_a_paired_test() -> None:
    """Statsmodels' power of a one-sided paired t test at that n is 80 %."""
    n = samples_to_resolve(variance=0.03, drop=0.005, limit=0.01)
    assert n is not None
    power = TTestPower().power(effect_size=0.005 / 0.03**0.5, nobs=n, alpha=0.05, alternative="larger")
    assert power == pytest.approx(0.8, abs=0.002)


def test_a_drop_at_its_limit_is_never_resolved() -> None:
    """No number of samples tells equal values apart."""
    assert samples_to_resolve(0.03, 0.01, 0.01) is None
