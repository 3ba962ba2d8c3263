"""Answers to the same samples: exact tests, Tango's interval, luck and sample sizes, beside libraries."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy import stats as scipy_stats
from statsmodels.stats.power import TTestPower

from pytest_quant.stats.paired import (
    agreement_by_luck,
    drop_tail,
    mcnemar_p,
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


def test_a_drop_that_equals_its_limit_but_for_rounding_needs_no_number_of_samples() -> None:
    """No set of samples tells 1 from 1 + 2e-16; a distance of a thousandth needs as many as the formula says."""
    assert samples_to_resolve(1.0, 1.0 + 2**-52, 1.0) is None
    assert samples_to_resolve(1.0, 1.001, 1.0) == math.ceil(((1.959963985 + 0.841621234) / 0.001) ** 2)


@given(
    lost=st.integers(1, 12),
    won=st.integers(0, 11),
    right=st.integers(0, 20),
    limit=st.sampled_from([0.0, 0.01, 0.05, 0.3]),
)
def test_the_tail_of_a_drop_sums_the_chances_of_all_answers(lost: int, won: int, right: int, limit: float) -> None:
    """All (lost, won) of n samples by the trinomial distribution, at the shares that are most likely by a search."""
    n = lost + won + right
    if lost - won <= limit * n:
        assert drop_tail(lost, won, n, limit) == 0.5
        return

    def unlikely(q: float) -> float:
        shares = np.array([q + limit, q, 1.0 - limit - 2.0 * q])
        return -float(np.sum(scipy_stats.multinomial.logpmf([lost, won, right], n, shares)))

    found = optimize.minimize_scalar(
        unlikely, bounds=(0.0, (1.0 - limit) / 2.0), method="bounded", options={"xatol": 1e-12}
    )
    q = float(found.x)
    both = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)])
    counts = (np.sign(both[:, 0] - both[:, 1] - (lost - won)) + 1) / 2
    tail = float(counts @ scipy_stats.multinomial.pmf(both, n, [q + limit, q, 1.0 - limit - 2.0 * q]))
    assert drop_tail(lost, won, n, limit) == pytest.approx(tail, rel=1e-3, abs=1e-9)


def test_the_tail_of_many_answers_is_that_of_the_normal_distribution() -> None:
    """Where it changes from one to the other nothing jumps."""
    exact, normal = (drop_tail(lost, 460, 100_000, 0.0002) for lost in (540, 541))
    assert normal < exact
    assert normal == pytest.approx(exact, rel=0.1)
