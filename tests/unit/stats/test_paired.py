"""Two scores of the same samples: exact tests, intervals of Tango and BCa, and sample sizes, beside libraries."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from scipy import stats as scipy_stats
from statsmodels.stats.power import TTestPower

from pytest_quant.stats.paired import (
    COSTLY,
    USUAL,
    Resampling,
    agreement_by_luck,
    mcnemar_p,
    paired_bootstrap,
    samples_to_resolve,
    tango_interval,
    variance_at,
    wilson_interval,
    zero_event_share,
)


@given(lost=st.integers(0, 200), won=st.integers(0, 200))
def test_mcnemar_is_the_two_sided_binomial_test(lost: int, won: int) -> None:
    """SciPy's exact binomial test of a fair coin gives the same p."""
    expected = scipy_stats.binomtest(lost, lost + won, 0.5).pvalue if lost + won else 1.0
    assert mcnemar_p(lost, won) == pytest.approx(expected, rel=1e-9)


def test_tango_gives_the_published_interval() -> None:
    """Airway hyper-responsiveness (Fagerland, Lydersen and Laake 2014): 1 and 7 discordant of 21."""
    low, high = tango_interval(1, 7, 21)
    assert (low, high) == pytest.approx((-0.517, -0.026), abs=0.001)


def _score_by_likelihood(lost: int, won: int, n: int, delta: float) -> float:
    """Tango's statistic with the nuisance parameter found by maximizing the likelihood numerically."""

    def negative_log_likelihood(q: float) -> float:
        p = q + delta
        rest = 1.0 - p - q
        terms = ((lost, p), (won, q), (n - lost - won, rest))
        return -sum(count * math.log(max(share, 1e-300)) for count, share in terms if count)

    low, high = max(0.0, -delta), (1.0 - delta) / 2.0
    result = optimize.minimize_scalar(
        negative_log_likelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-12}
    )
    q = result.x
    return float((lost - won - n * delta) / math.sqrt(n * (2.0 * q + delta - delta**2)))


@pytest.mark.parametrize(("lost", "won", "n"), [(12, 3, 200), (3, 9, 50), (25, 24, 500), (1, 0, 30)])
def test_tango_ends_are_roots_of_the_score_equation(lost: int, won: int, n: int) -> None:
    """At both ends the score statistic, computed by numeric maximum likelihood, is the normal quantile."""
    z = scipy_stats.norm.ppf(0.975)
    low, high = tango_interval(lost, won, n)
    assert _score_by_likelihood(lost, won, n, low) == pytest.approx(z, rel=1e-3)
    assert _score_by_likelihood(lost, won, n, high) == pytest.approx(-z, rel=1e-3)


def test_no_discordant_sample_still_leaves_doubt() -> None:
    """For b = c = 0 the end is z^2 / (n + z^2), the root of the score equation in closed form."""
    z2 = scipy_stats.norm.ppf(0.975) ** 2
    low, high = tango_interval(0, 0, 100)
    assert (low, high) == pytest.approx((-z2 / (100 + z2), z2 / (100 + z2)), rel=1e-6)


@given(lost=st.integers(0, 30), won=st.integers(0, 30), both=st.integers(1, 100))
def test_tango_encloses_the_estimate_and_mirrors(lost: int, won: int, both: int) -> None:
    """The estimate lies inside, the ends within -1..1, and exchanging the engines mirrors the interval."""
    n = lost + won + both
    low, high = tango_interval(lost, won, n)
    assert -1.0 <= low <= (lost - won) / n <= high <= 1.0
    mirrored = tango_interval(won, lost, n)
    np.testing.assert_allclose((-mirrored[1], -mirrored[0]), (low, high), atol=1e-9)


@given(n=st.integers(1, 2000), share=st.floats(0, 1), confidence=st.sampled_from([0.8, 0.95, 0.99]))
def test_the_interval_of_a_share_is_scipys_wilson_interval(n: int, share: float, confidence: float) -> None:
    """Also for none and all of the samples."""
    right = round(share * n)
    expected = scipy_stats.binomtest(right, n).proportion_ci(confidence, method="wilson")
    result = wilson_interval(right, n, confidence=confidence)
    assert result == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(n=st.integers(1, 5000), confidence=st.sampled_from([0.8, 0.95, 0.99]))
def test_what_no_event_leaves_possible_is_the_end_of_scipys_exact_interval(n: int, confidence: float) -> None:
    """Clopper and Pearson's upper end for 0 of n."""
    expected = scipy_stats.binomtest(0, n).proportion_ci(confidence, method="exact").high
    assert zero_event_share(n, confidence=confidence) == pytest.approx(expected, rel=1e-9)


def test_samples_to_resolve_is_the_power_of_a_paired_test() -> None:
    """Statsmodels' power of a two-sided paired t test at that n is 80 %."""
    n = samples_to_resolve(variance=0.03, drop=0.005, limit=0.01)
    assert n is not None
    power = TTestPower().power(effect_size=0.005 / 0.03**0.5, nobs=n, alpha=0.05, alternative="two-sided")
    assert power == pytest.approx(0.8, abs=0.002)


@pytest.mark.parametrize(
    ("lost", "won", "limit"),
    [(0.02, 0.015, 0.01), (0.03, 0.01, 0.01), (0.05, 0.03, 0.01), (0.015, 0.014, 0.005), (0.002, 0.001, 0.01)],
)
@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_that_many_samples_decide_four_times_of_five(lost: float, won: float, limit: float, confidence: float) -> None:
    """Of 400 drawn sets of that size, 80 % (within 4 standard errors) have an interval that leaves out the limit."""
    variance = lost + won - (lost - won) ** 2
    n = samples_to_resolve(variance, lost - won, limit, at_limit=variance_at(lost, won, limit), confidence=confidence)
    assert n is not None
    drawn = np.random.default_rng(3).multinomial(n, [lost, won, 1.0 - lost - won], size=400)
    ends = [tango_interval(int(losses), int(wins), n, confidence=confidence) for losses, wins, _ in drawn]
    decided = np.mean([low > limit if lost - won > limit else high <= limit for low, high in ends])
    assert decided == pytest.approx(0.8, abs=0.08)


def test_samples_without_any_difference_resolve_a_limit_too() -> None:
    """That many equal answers have an interval within the limit, and one fewer do not."""
    n = samples_to_resolve(0.0, 0.0, 0.01, at_limit=variance_at(0.0, 0.0, 0.01))
    assert n is not None
    assert tango_interval(0, 0, n)[1] <= 0.01 < tango_interval(0, 0, n - 1)[1]
    of_error = samples_to_resolve(0.0, 0.0, 0.01, span=2.0)
    assert of_error is not None
    assert 2.0 * zero_event_share(of_error) <= 0.01 < 2.0 * zero_event_share(of_error - 1)


def test_a_drop_at_its_limit_is_never_resolved() -> None:
    """No number of samples tells equal values apart, and none is named where nothing varies."""
    assert samples_to_resolve(0.03, 0.01, 0.01) is None
    assert samples_to_resolve(0.0, 0.0, 0.01) is None
    assert variance_at(0.1, 0.0, 1.0) is None


@given(answers=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=6))
def test_luck_is_the_mean_and_three_deviations_of_all_orders(answers: list[tuple[int, int]]) -> None:
    """Every order of the second answers, one by one."""
    first, second = np.array(answers).T
    shares = [np.mean(first == np.array(order)) for order in permutations(second)]
    luck = agreement_by_luck(*(np.bincount(side, minlength=4).tolist() for side in (first, second)))
    assert luck == pytest.approx(min(1.0, np.mean(shares) + 3 * np.std(shares)), abs=1e-7)


def test_one_sample_agrees_by_luck() -> None:
    """As does none."""
    assert (agreement_by_luck([1, 0], [0, 1]), agreement_by_luck([0], [0])) == (1.0, 1.0)


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


def test_a_drop_that_equals_its_limit_but_for_rounding_needs_no_number_of_samples() -> None:
    """No set of samples tells 1 from 1 + 2e-16; a distance of a thousandth needs as many as the formula says."""
    assert samples_to_resolve(1.0, 1.0 + 2**-52, 1.0) is None
    assert samples_to_resolve(1.0, 1.001, 1.0) == math.ceil(((1.959963985 + 0.841621234) / 0.001) ** 2)
