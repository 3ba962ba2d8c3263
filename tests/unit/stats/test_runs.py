"""Noise between runs, beside the analysis of variance of statsmodels, known shifts and simulated runs."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats as scipy_stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.weightstats import DescrStatsW

from pytest_quant.stats.paired import samples_to_resolve, tango_interval, variance_at
from pytest_quant.stats.runs import (
    NO_NOISE_KNOWN,
    RunNoise,
    add_run_noise,
    run_noise,
    samples_of_runs,
    tail_beyond,
    tango_of_runs,
)

_SCORES = st.integers(-8, 8).map(lambda score: score / 8.0)


@st.composite
def _sides(draw: st.DrawFn, fewest: int = 1) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw scores (runs, n) of both sides, each of `fewest` to 4 runs over the same 1 to 6 samples."""
    n = draw(st.integers(1, 6))
    reference, candidate = (draw(arrays(np.float64, (draw(st.integers(fewest, 4)), n), elements=_SCORES)) for _ in "rc")
    return reference, candidate


def _mean_squares(side: NDArray[Any]) -> tuple[float, float]:
    """Return the mean squares of runs and of the rest, by the two-way analysis of variance of statsmodels."""
    runs, n = side.shape
    of_samples, of_runs = np.kron(np.ones((runs, 1)), np.eye(n)), np.kron(np.eye(runs)[:, 1:], np.ones((n, 1)))
    without = OLS(side.ravel(), of_samples).fit().ssr
    rest = OLS(side.ravel(), np.hstack([of_samples, of_runs])).fit().ssr
    return float(without - rest) / (runs - 1), float(rest) / ((runs - 1) * (n - 1))


@pytest.mark.parametrize("runs", [(3, 3), (2, 5), (4, 1), (1, 3)])
def test_the_shift_is_that_of_the_analysis_of_variance(runs: tuple[int, int]) -> None:
    """The mean squares of runs less those of the rest, over n, pooled by degrees of freedom, are its variance."""
    random, n = np.random.default_rng(7), 12
    samples = random.normal(size=n)
    sides = [samples + random.normal(0.0, 1.0, (k, 1)) + random.normal(0.0, 0.5, (k, n)) for k in runs]
    squares = [(len(side) - 1, *_mean_squares(side)) for side in sides if len(side) > 1]
    freedom = sum(weight for weight, _, _ in squares)
    shift = sum(weight * (between - rest) for weight, between, rest in squares) / freedom / n
    of_means = sum(weight * between for weight, between, _ in squares) / freedom / n
    noise = run_noise(sides[0], sides[1])
    assert shift > 0.0
    assert noise.variance == pytest.approx(shift * (1 / runs[0] + 1 / runs[1]))
    assert noise.run_sd == pytest.approx(math.sqrt(of_means))
    assert noise.freedom == freedom


@given(
    st.lists(_SCORES, min_size=2, max_size=5),
    st.lists(_SCORES, min_size=1, max_size=5),
    st.lists(_SCORES, min_size=1, max_size=6),
)
def test_shifts_of_whole_runs_are_found_as_they_are(
    first: list[float], second: list[float], scores: list[float]
) -> None:
    """Without other noise the variance is the shifts' own, and a side of one run has that of the other side."""
    noise = run_noise(*(np.array(shifts)[:, None] + np.array(scores) for shifts in (first, second)))
    squares = sum((len(side) - 1) * float(np.var(side, ddof=1)) for side in (first, second) if len(side) > 1)
    expected = squares / (len(first) + len(second) - 2)
    assert noise.variance == pytest.approx(expected * (1 / len(first) + 1 / len(second)), abs=1e-12)
    assert noise.run_sd == pytest.approx(math.sqrt(expected), abs=1e-6)


@given(_sides(fewest=2), st.integers(-3, 3), st.data())
def test_neither_hard_samples_nor_the_unit_are_noise_of_runs(
    sides: tuple[NDArray[Any], NDArray[Any]], unit: int, data: st.DataObject
) -> None:
    """A level of each sample changes nothing, and a factor comes out squared."""
    level = data.draw(arrays(np.float64, sides[0].shape[1], elements=_SCORES))
    before, after = run_noise(sides[0], sides[1]), run_noise(*(unit * side + level for side in sides))
    assert before.run_sd is not None
    assert after.variance == pytest.approx(unit**2 * before.variance, abs=1e-12)
    assert after.run_sd == pytest.approx(abs(unit) * before.run_sd, abs=1e-6)


@given(_sides(), st.data())
def test_the_order_of_runs_samples_and_sides_does_not_matter(
    sides: tuple[NDArray[Any], NDArray[Any]], data: st.DataObject
) -> None:
    """Each may be permuted, the samples in both sides alike."""
    n = sides[0].shape[1]
    samples = data.draw(st.permutations(range(n)))
    first, second = (side[data.draw(st.permutations(range(len(side))))][:, samples] for side in sides)
    before, after = run_noise(sides[0], sides[1]), run_noise(second, first)
    assert after.variance == pytest.approx(before.variance, abs=1e-12)
    assert after.freedom == before.freedom


def test_single_runs_show_no_noise() -> None:
    """The interval of the samples is left as it is."""
    noise = run_noise(np.array([[0.0, 1.0, 1.0]]), np.array([[1.0, 0.0, 0.0]]))
    assert noise == RunNoise(variance=0.0, run_sd=None, freedom=0)
    assert add_run_noise(0.3, (-0.1, 0.8), noise) == (-0.1, 0.8)


def test_answers_drawn_anew_add_nothing_on_average_to_what_samples_tell() -> None:
    """The differences of samples have their noise already, so that half of the time none is left over."""
    random = np.random.default_rng(3)
    noises = [run_noise(random.random((3, 400)) < 0.7, random.random((3, 400)) < 0.7) for _ in range(300)]
    # Runs of 400 answers of variance 0.21 have means that vary by 0.21 / 400.
    assert np.mean([noise.run_sd**2 for noise in noises if noise.run_sd]) == pytest.approx(0.21 / 400, rel=0.1)
    assert 0.45 < np.mean([noise.variance == 0.0 for noise in noises]) < 0.75


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_both_doubts_are_added_in_squares(confidence: float) -> None:
    """The runs' reach is that of SciPy's Student t."""
    low, high = add_run_noise(1.0, (0.7, 1.4), RunNoise(0.04, 0.3, 4), confidence)
    reach = scipy_stats.t.ppf(0.5 + confidence / 2.0, 4) * 0.2
    assert low == pytest.approx(1.0 - math.sqrt(0.3**2 + reach**2))
    assert high == pytest.approx(1.0 + math.sqrt(0.4**2 + reach**2))


@given(_sides(fewest=2), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_noise_of_runs_never_narrows(sides: tuple[NDArray[Any], NDArray[Any]], below: float, above: float) -> None:
    """Each end moves away from the drop or stays."""
    drop = float(sides[0].mean() - sides[1].mean())
    low, high = add_run_noise(drop, (drop - below, drop + above), run_noise(sides[0], sides[1]))
    assert low <= drop - below + 1e-12
    assert high >= drop + above - 1e-12


@pytest.mark.parametrize("runs", [(3, 3), (10, 10), (10, 1), (2, 6)])
@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_the_interval_holds_for_new_runs_and_new_samples(runs: tuple[int, int], shift: float) -> None:
    """Of 400 intervals at 95 % no fewer hold a drop of 0 than three standard errors of that share allow."""
    random, z, n, trials = np.random.default_rng(11), NormalDist().inv_cdf(0.975), 60, 400
    held = 0
    for _ in range(trials):
        sides = [random.normal(0.0, shift, (k, 1)) + random.normal(0.0, 0.5, (k, n)) for k in runs]
        differences = sides[0].mean(axis=0) - sides[1].mean(axis=0)
        drop, reach = float(differences.mean()), z * float(differences.std(ddof=1)) / math.sqrt(n)
        low, high = add_run_noise(drop, (drop - reach, drop + reach), run_noise(sides[0], sides[1]))
        held += low <= 0.0 <= high
    assert held / trials >= 0.95 - 3.0 * math.sqrt(0.95 * 0.05 / trials)


@given(_sides(fewest=2), st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_copies_change_the_weights_of_runs_and_not_their_noise(
    sides: tuple[NDArray[Any], NDArray[Any]], more: list[int]
) -> None:
    """Mean squares and degrees of freedom are those of runs that differ; a mean with weights w has sum(w^2) of it."""
    reference, candidate = sides
    places = [*range(len(candidate)), *(place % len(candidate) for place in more)]
    plain = run_noise(reference, candidate)
    noise = run_noise(reference, candidate[places], copies=((), tuple(places)))
    weights = np.bincount(places) / len(places)
    shift = plain.variance / (1 / len(reference) + 1 / len(candidate))
    assert noise.variance == pytest.approx(shift * (1 / len(reference) + np.sum(weights**2)))
    assert (noise.run_sd, noise.freedom) == (plain.run_sd, plain.freedom)


def test_the_interval_holds_beside_copies() -> None:
    """Runs that are given up to four times: of 400 intervals at 95 % as many hold as without copies, or more."""
    random, z, n, trials = np.random.default_rng(12), NormalDist().inv_cdf(0.975), 60, 400
    copies = (0, 0, 0, 0, 1, 2, 3, 4), (0, 1, 1, 2, 3, 3)
    held = 0
    for _ in range(trials):
        sides = [random.normal(0.0, 0.3, (max(k) + 1, 1)) + random.normal(0.0, 0.5, (max(k) + 1, n)) for k in copies]
        sides = [side[list(places)] for side, places in zip(sides, copies, strict=True)]
        differences = sides[0].mean(axis=0) - sides[1].mean(axis=0)
        drop, reach = float(differences.mean()), z * float(differences.std(ddof=1)) / math.sqrt(n)
        low, high = add_run_noise(drop, (drop - reach, drop + reach), run_noise(sides[0], sides[1], copies=copies))
        held += low <= 0.0 <= high
    assert held / trials >= 0.95 - 3.0 * math.sqrt(0.95 * 0.05 / trials)


_ANSWERS = st.integers(1, 30).flatmap(lambda n: arrays(np.bool_, (2, n)))


@given(_ANSWERS, st.integers(1, 3), st.integers(1, 3))
def test_one_run_has_tangos_interval_and_equal_runs_too(answers: NDArray[Any], first: int, second: int) -> None:
    """Runs that repeat all answers tell no more about the samples than one of them."""
    reference, candidate = answers
    lost, won = int(np.sum(reference & ~candidate)), int(np.sum(candidate & ~reference))
    expected = tango_interval(lost, won, answers.shape[1])
    for k, m in ((1, 1), (first, second)):
        sides = np.tile(reference, (k, 1)), np.tile(candidate, (m, 1))
        assert tango_of_runs(*sides) == pytest.approx(expected, abs=1e-9)


def test_many_samples_have_the_interval_of_a_mean() -> None:
    """Statsmodels' z interval of the differences of 20000 samples in 4 and 2 runs, with a drop of about 0.05."""
    random, n = np.random.default_rng(5), 20_000
    chances = random.random(n)
    reference, candidate = random.random((4, n)) < chances, random.random((2, n)) < 0.9 * chances
    expected = DescrStatsW(reference.mean(axis=0) - candidate.mean(axis=0)).zconfint_mean()
    assert tango_of_runs(reference, candidate) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("runs", [(2, 2), (10, 10), (10, 1)])
def test_the_interval_of_few_uncertain_answers_holds(runs: tuple[int, int]) -> None:
    """Of 400 intervals at 95 %, of 100 samples of which 8 on average vary, no fewer hold than three errors allow."""
    random, trials = np.random.default_rng(2), 400
    held = 0
    for _ in range(trials):
        chances = np.where(random.random(100) < 0.08, 0.5, 1.0)
        low, high = tango_of_runs(*(random.random((k, 100)) < chances for k in runs))
        held += low <= 0.0 <= high
    assert held / trials >= 0.95 - 3.0 * math.sqrt(0.95 * 0.05 / trials)


@given(
    earlier_sd=st.floats(0.0, 5.0), earlier_freedom=st.integers(1, 40), own_sd=st.floats(0.1, 5.0), k=st.integers(2, 6)
)
def test_earlier_runs_are_pooled_with_own_ones(earlier_sd: float, earlier_freedom: int, own_sd: float, k: int) -> None:
    """The mean square of run means is that of all runs, each with its degrees of freedom; the own sd stays the own."""
    random = np.random.default_rng(k)
    sides = [np.repeat(random.normal(0.0, own_sd, (k, 1)), 4, axis=1) for _ in range(2)]
    own = [float(np.var(side[:, 0], ddof=1)) for side in sides]
    noise = run_noise(sides[0], sides[1], earlier_sd, earlier_freedom)
    freedom = 2 * (k - 1) + earlier_freedom
    pooled = ((k - 1) * sum(own) + earlier_freedom * earlier_sd**2) / freedom
    assert noise.freedom == freedom
    assert noise.variance == pytest.approx(pooled * 2 / k)
    assert noise.run_sd == pytest.approx(math.sqrt(sum(own) / 2))
    single = run_noise(sides[0][:1], sides[1][:1], earlier_sd, earlier_freedom)
    assert single.variance == pytest.approx(2 * earlier_sd**2)
    assert single.freedom == earlier_freedom
    assert single.run_sd is None


@given(drop=st.floats(0.5, 10.0), limit=st.floats(0.0, 9.0), error=st.floats(0.1, 3.0), freedom=st.integers(1, 60))
def test_the_tail_beyond_a_limit_is_that_of_the_interval(drop: float, limit: float, error: float, freedom: int) -> None:
    """An interval of the confidence 1 - 2 p ends at the limit; without run noise p is the normal one."""
    z = NormalDist().inv_cdf(0.975)
    plain = tail_beyond(limit, drop, drop - z * error, NO_NOISE_KNOWN)
    if drop <= limit:
        assert plain == pytest.approx(0.5)
        return
    assert plain == pytest.approx(NormalDist().cdf((limit - drop) / error), rel=1e-6, abs=1e-9)
    noise = RunNoise(error**2, None, freedom)
    p = tail_beyond(limit, drop, drop - z * error, noise)
    assert p >= plain
    if 1e-6 < p < 0.4:
        reach = NormalDist().inv_cdf(1.0 - p) * error
        assert add_run_noise(drop, (drop - reach, drop), noise, 1.0 - 2.0 * p)[0] == pytest.approx(limit, abs=1e-4)


def test_samples_of_single_runs_are_those_of_the_counts() -> None:
    """One run a side: the sample size of the score interval; shares of several runs vary less and take fewer."""
    random = np.random.default_rng(3)
    sides = [(random.random((3, 400)) < share).astype(float) for share in (0.8, 0.75)]
    single = [side[:1] for side in sides]
    lost, won = (int(np.sum(single[i] > single[1 - i])) / 400 for i in (0, 1))
    wanted = samples_to_resolve(lost + won - (lost - won) ** 2, lost - won, 0.01, at_limit=variance_at(lost, won, 0.01))
    assert samples_of_runs(single[0], single[1], 0.01) == wanted
    several = samples_of_runs(sides[0], sides[1], float(np.mean(sides[0]) - np.mean(sides[1])) - 0.05)
    alone = samples_of_runs(single[0], single[1], lost - won - 0.05)
    assert several is not None
    assert alone is not None
    assert several < alone
