"""Verdicts on rounds are as rarely wrong as is said: over all looks, for alike neighbours, for sets of sessions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
import scipy.signal
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from statsmodels.tsa.stattools import acf

from pytest_quant.spec import Spread
from pytest_quant.stats.means import LOOK_CONFIDENCE, ValueWithError, session_spread
from pytest_quant.stats.rounds import (
    Looks,
    SessionSet,
    Span,
    autocorrelation,
    judge_ratio,
    judge_rounds,
    judge_sets,
    median_span,
    moderate_sd,
    resemblance,
    session_sets,
    widen_span,
)
from tests.support.worlds import WORLDS, World, autoregressive, decide


def exact_error(looks: Sequence[int], counts: Sequence[int | None]) -> Fraction:
    """The error in fractions, from round to round, with each path cut off where it is rejected."""
    least = {look: beyond for look, beyond in zip(looks, counts, strict=True) if beyond is not None}
    paths, error = {0: Fraction(1)}, Fraction(0)
    for rounds in range(1, looks[-1] + 1):
        after: dict[int, Fraction] = {}
        for count, chance in paths.items():
            for beyond in (count, count + 1):
                after[beyond] = after.get(beyond, Fraction(0)) + chance / 2
        limit = least.get(rounds, rounds + 1)
        error += sum((chance for count, chance in after.items() if count >= limit), Fraction(0))
        paths = {count: chance for count, chance in after.items() if count < limit}
    return error


@given(first=st.integers(1, 12), every=st.integers(1, 12), most=st.integers(12, 48), confidence=st.floats(0.5, 0.999))
def test_the_error_is_exact_and_within_what_may_be_spent(first: int, every: int, most: int, confidence: float) -> None:
    """Over all looks, for any of them; and no look could do with one round less."""
    looks = Looks(first, every, most, confidence)
    (counts, error), rounds = looks.boundary(most), looks.until(most)
    assert error == pytest.approx(float(exact_error(rounds, counts)), abs=1e-12)
    assert error <= (1.0 - confidence) / 2.0 + 1e-12
    spent = [(1.0 - confidence) / 2.0 * look / most for look in rounds]
    for place, beyond in enumerate(counts):
        cut = rounds[: place + 1]
        less = cut, (*counts[:place], cut[-1] if beyond is None else beyond - 1)
        assert float(exact_error(*less)) > spent[place] - 1e-12


@pytest.mark.parametrize(
    ("rounds", "looks", "beyond"),
    [
        (5, (5,), (None,)),
        (6, (6,), (6,)),
        (8, (8,), (8,)),
        (9, (8, 9), (8, 8)),
        (20, (8, 16, 20), (8, 14, 15)),
        (40, (8, 16, 24, 32, 40), (8, 14, 18, 23, 28)),
    ],
)
def test_the_last_look_may_spend_all_that_is_left(
    rounds: int, looks: tuple[int, ...], beyond: tuple[int | None, ...]
) -> None:
    """Six rounds decide when there is no time for a seventh; five never do."""
    assert (Looks().until(rounds), Looks().boundary(rounds)[0]) == (looks, beyond)
    assert exact_error(looks, beyond) <= Fraction(25, 1000)


@given(values=st.lists(st.integers(-5, 5), min_size=8, max_size=8), limit=st.integers(-5, 5))
def test_the_interval_lies_beyond_a_limit_exactly_when_enough_rounds_do(values: list[int], limit: int) -> None:
    """On either side; a value that ties with the limit is not beyond it."""
    for beyond in (6, 7, 8):
        span = median_span(np.array(values, dtype=float), beyond)
        assert (span.high < limit) == (sum(value < limit for value in values) >= beyond)
        assert (span.low > limit) == (sum(value > limit for value in values) >= beyond)
        assert span.low <= span.value <= span.high


LAUNCHES = 1000
LIMIT = 0.03
UNKNOWN = Spread(0.005, freedom=3)
"""Of a runner that nobody measured."""

SURE = 0.999
"""Of a bound on a count: one run of these tests in hundreds would miss it by chance, and their seeds are fixed."""


def at_most(share: float) -> int:
    """The largest count of `LAUNCHES` that does not contradict a true share."""
    return int(binom.ppf(SURE, LAUNCHES, share))


def measured(world: World) -> Spread:
    """What twenty sessions would have told."""
    return Spread(world.session_sd, freedom=20)


@pytest.mark.parametrize("name", WORLDS)
def test_two_percent_within_a_limit_of_three_do_not_fail_and_four_do_not_pass(name: str) -> None:
    """FAIL at most 1 %, with the measurement that confirms it, PASS at most 3 %; nobody measured the runner."""
    world, again = WORLDS[name], Looks(confidence=0.8)
    slower = world.launches(0.02, LAUNCHES, 1, measurements=2)
    failed = decide(slower[0], 0.02, LIMIT, UNKNOWN).failed & decide(slower[1], 0.02, LIMIT, UNKNOWN, again).failed
    passed = decide(world.launches(0.04, LAUNCHES, 2)[0], 0.04, LIMIT, UNKNOWN).passed
    assert failed.sum() <= at_most(0.01)
    assert passed.sum() <= at_most(0.03)


@pytest.mark.parametrize("name", WORLDS)
def test_the_interval_encloses_the_truth(name: str) -> None:
    """In at least 93 % where the runner was measured, although rounds stop at the look that decides."""
    world = WORLDS[name]
    for slower in (0.0, 0.05):
        covered = decide(world.launches(slower, LAUNCHES, 3)[0], slower, LIMIT, measured(world)).covered
        assert (~covered).sum() <= at_most(0.07), slower


def test_the_null_widens_what_nobody_measured() -> None:
    """Sessions that differ twice as much as was assumed: the null shows it in part, and the interval errs less."""
    world = WORLDS["sessions of 1 %"]
    times = world.launches(0.0, LAUNCHES, 6)[0]
    deaf = decide(times, 0.0, LIMIT, Spread(0.005, freedom=1e9)).covered
    listening = decide(times, 0.0, LIMIT, UNKNOWN).covered
    assert (~listening).sum() <= 0.85 * (~deaf).sum()


def test_a_null_that_deviates_widens_and_one_that_does_not_narrows_a_little() -> None:
    """The mean of squares: known 0.5 % three times, and the deviation once, less what its rounds explain."""
    spread = Spread(0.005, freedom=3)
    deviation, error = np.array([0.015, -0.015, 0.0, 0.003]), np.array([0.0, 0.0, 0.0, 0.004])
    squares = (3 * 0.005**2 + np.array([0.015**2, 0.015**2, 0.0, 0.0])) / 4
    assert moderate_sd(spread, deviation, error) == pytest.approx(np.sqrt(squares))


def test_widening_adds_independent_errors_on_either_side() -> None:
    """3 and 4 make 5, on each side its own."""
    span = widen_span(Span(np.array(10.0), np.array(8.5), np.array(10.5)), np.array(2.0), np.array(4.0))
    assert span.low == pytest.approx(5.0)
    assert span.high == pytest.approx(10.0 + np.hypot(1.0, 4.0))


def test_autocorrelation_is_that_of_statsmodels() -> None:
    """At lag 1; values that are all equal have none."""
    values = np.random.default_rng(0).normal(size=(5, 30))
    assert autocorrelation(values) == pytest.approx([acf(row, nlags=1, fft=False)[1] for row in values])
    assert autocorrelation(np.ones(9)) == 0.0


def test_resemblance_has_no_bias_of_short_series() -> None:
    """Sixteen rounds of AR(0.5): the mean of 4000 lies within 0.05 of it, where r itself lies 0.15 below."""
    noise = autoregressive(0.5)(np.random.default_rng(0), (4000, 16))
    assert autocorrelation(noise).mean() < 0.4
    assert resemblance(noise).mean() == pytest.approx(0.5, abs=0.05)


def test_effective_rounds_are_those_of_bayley_and_hammersley() -> None:
    """Of 40 rounds 40 (1 - r) / (1 + r), by the series that resembles itself most."""
    random = np.random.default_rng(0)
    alike, other = autoregressive(0.8)(random, (40,)), random.normal(size=40)
    judged = judge_rounds(other, (other, alike), Looks(), np.zeros(()))
    r = float(resemblance(alike))
    assert judged.alike == pytest.approx(r)
    assert judged.effective_rounds == pytest.approx(40 * (1 - r) / (1 + r))


def test_a_ratio_is_judged_with_the_session_noise_its_null_shows() -> None:
    """Without noise of rounds the interval is that of sessions alone, 1.96 standard deviations to either side."""
    reference, null = np.zeros(8), np.full(8, 0.02)
    ratio, of_null = judge_ratio(reference, null, np.full(8, -0.7), Looks(), Spread(0.005, freedom=3))
    sd = np.sqrt((3 * 0.005**2 + 0.02**2) / 4)
    assert ratio.session_sd == pytest.approx(sd)
    assert (ratio.span.low, ratio.span.value, ratio.span.high) == pytest.approx(
        (0.7 - 1.96 * sd, 0.7, 0.7 + 1.96 * sd), rel=1e-4
    )
    assert (of_null.span.low, of_null.span.high) == pytest.approx((0.02, 0.02))


ERROR = 0.002
logs = st.floats(-0.2, 0.2)


def exact(ratio: float, null: float, candidate: float = 0.0) -> SessionSet:
    """Return a set whose rounds all have the same ratios, give or take an error."""
    return SessionSet(ValueWithError(ratio, ERROR), ValueWithError(null, ERROR), ValueWithError(candidate, ERROR))


def test_a_set_counts_both_sessions_of_the_reference() -> None:
    """Its ratio is that of their geometric mean to the candidate."""
    reference, null, candidate = (np.repeat(values, (8, 4)) for values in ((0.10, 0.2), (0.14, 0.2), (0.02, 0.1)))
    first, second = session_sets(reference, null, candidate, (8, 4))
    assert [first.ratio.value, first.null.value, first.candidate.value] == pytest.approx([0.10, 0.04, 0.02])
    assert [second.ratio.value, second.null.value, second.candidate.value] == pytest.approx([0.10, 0.0, 0.1])
    assert (first.ratio.error, second.candidate.error) == (0.0, 0.0)


def test_engines_that_are_alike_have_a_ratio_of_1_where_times_are_skewed() -> None:
    """The mean over many sets of rounds with exponential noise of 6 % is within 0.05 % of 1."""
    random, sizes = np.random.default_rng(5), (15,) * 4000
    reference, null, candidate = random.exponential(0.06, (3, sum(sizes)))
    sets = session_sets(reference, null, candidate, sizes)
    assert abs(np.mean([each.ratio.value for each in sets])) < 0.0005


@pytest.mark.parametrize("alike", [0.0, 0.6])
def test_the_errors_are_those_that_sets_show(alike: float) -> None:
    """Of the medians of many sets of eight rounds; where these are alike, no smaller and at most 2.5 times as large."""
    random, sizes = np.random.default_rng(7), (8,) * 2000
    own = random.normal(0.0, 0.05, (3, 16_000))
    reference, null, candidate = scipy.signal.lfilter([math.sqrt(1.0 - alike**2)], [1.0, -alike], own)
    sets = session_sets(reference, null, candidate, sizes)
    for name in ("ratio", "null", "candidate"):
        shown = np.std([getattr(each, name).value for each in sets], ddof=1)
        assert shown / 1.25 <= getattr(sets[0], name).error <= (2.5 if alike else 1.25) * shown


@given(st.lists(st.tuples(logs, logs), min_size=7, max_size=10), st.floats(0.001, 0.05), st.floats(1.0, 20.0))
def test_the_interval_is_that_of_students_t_over_the_sets(
    sets: list[tuple[float, float]], known_sd: float, draws: float
) -> None:
    """With the nulls as further draws of the same noise, and 3/4 of its variance in each ratio."""
    ratios, nulls = zip(*sets, strict=True)
    ratio, _, _, session_sd = judge_sets([exact(*each) for each in sets], Spread(known_sd, draws), 0.95)
    pooled = session_spread(Spread(known_sd, draws), [ValueWithError(null, ERROR) for null in nulls])
    sd, freedom = pooled.sd, pooled.freedom + len(sets) - 1
    spread = pooled.freedom * (0.75 * sd**2 + ERROR**2) + (len(sets) - 1) * np.var(ratios, ddof=1)
    half = scipy.stats.t.ppf(0.975, freedom) * math.sqrt(spread / freedom / len(sets))
    assert ratio.value == pytest.approx(np.mean(ratios), abs=1e-12)
    assert (ratio.low, ratio.high) == pytest.approx((np.mean(ratios) - half, np.mean(ratios) + half))
    assert session_sd == pytest.approx(sd)


@pytest.mark.parametrize("rounds_sd", [0.01, 0.1])
@pytest.mark.parametrize("session_sd", [0.005, 0.025, 0.035])
@pytest.mark.parametrize("sets", [2, 3, 5, 10])
def test_the_interval_holds(session_sd: float, sets: int, rounds_sd: float) -> None:
    """In 93 of 100 measurements at least, where 3 % is taken for the noise of a ratio that is 0.7 to 5 %."""
    random, held, trials = np.random.default_rng(sets), 0, 300
    for _ in range(trials):
        sessions = random.normal(0.0, session_sd, (3, sets)).repeat(8, axis=1)
        reference, null, candidate = sessions + random.normal(0.0, rounds_sd, sessions.shape)
        drawn = session_sets(reference, null, candidate, (8,) * sets)
        ratio = judge_sets(drawn, Spread(0.03, 4.0), LOOK_CONFIDENCE)[0]
        held += ratio.low <= 0.0 <= ratio.high
    assert held >= 0.93 * trials
