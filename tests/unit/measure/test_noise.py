"""Named signs of noise in the times."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_quant.measure.noise import budget_reasons, noise_notes, null_reasons, widening
from pytest_quant.result import Interval
from pytest_quant.spec import LatencyPlan, Spread
from pytest_quant.stats.rounds import JudgedRounds, judge_ratio
from pytest_quant.stats.sequential import Looks

STEADY = [100.0, 101.0] * 12


def judged(candidate: list[float], reference: list[float], sd: float = 0.005, null: float = 1.0) -> JudgedRounds:
    """The ratio of two engines; every round of the null takes `null` times the reference's."""
    times = [np.log(side) for side in (reference, null * np.array(reference), candidate)]
    return judge_ratio(times[0], times[1], times[2], Looks(), Spread(sd, 4.0))[0]


def notes_on(candidate: list[float], reference: list[float]) -> tuple[str, ...]:
    """The notes on the rounds of two engines."""
    return noise_notes(candidate, reference, judged(candidate, reference))


@pytest.mark.parametrize(
    ("low", "high", "off"),
    [(0.99, 1.01, False), (1.01, 1.05, False), (0.9, 1.1, False), (1.021, 1.05, True), (0.9, 0.979, True)],
)
def test_a_null_is_off_when_its_whole_interval_is(low: float, high: float, *, off: bool) -> None:
    """Beyond 2 % either way; an interval that reaches into the tolerance accuses nobody."""
    assert bool(null_reasons(Interval(low, high))) is off


@pytest.mark.parametrize(("sd", "off"), [(0.004, True), (0.005, True), (0.01, False)])
def test_a_runner_whose_sessions_differ_more_tolerates_more(sd: float, *, off: bool) -> None:
    """Four standard deviations: what they explain widens the interval, and accuses nobody."""
    assert bool(null_reasons(Interval(1.021, 1.05), sd)) is off


@pytest.mark.parametrize(("rounds", "few"), [(5, True), (6, False)])
def test_five_rounds_are_too_few(rounds: int, *, few: bool) -> None:
    """The median of 5 lies outside their range in 1 of 16 cases, that of 6 in 1 of 32."""
    assert bool(budget_reasons(rounds, LatencyPlan(confidence=0.95))) is few


def test_steady_times_are_not_noted() -> None:
    """Rounds that alternate within a percent show nothing."""
    assert notes_on(STEADY, STEADY) == ()


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
    """The note starts with it and says which engine it is about; waves are those of the ratio."""
    for notes, who in ((notes_on(times, STEADY), "candidate"), (notes_on(STEADY, times), "reference")):
        assert [note.partition(":")[0] for note in notes] == noted
        assert all(who in note for note in notes if not note.startswith("slow waves"))


@pytest.mark.parametrize(
    ("times", "ratio"),
    [(list(np.arange(100.0, 124.0)), "1.15"), (list(np.arange(123.0, 99.0, -1.0)), "0.87")],
    ids=["slower", "faster"],
)
def test_a_trend_is_the_last_third_over_the_first(times: list[float], ratio: str) -> None:
    """Of 100, 101, .. 123 their medians are 103.5 and 119.5; getting faster is a trend too."""
    (told,) = [note for note in notes_on(times, STEADY) if note.startswith("trend")]
    assert told == f"trend: the candidate took {ratio} times as long at the end as at the start"


def test_of_two_rounds_each_is_an_end() -> None:
    """A third of two is none."""
    notes = notes_on([100.0, 110.0], [100.0, 100.0])
    assert "trend: the candidate took 1.10 times as long at the end as at the start" in notes


def test_waves_that_both_engines_share_are_not_noted() -> None:
    """They cancel in the ratio, which is what is judged."""
    waves = 100.0 * (1.0 + 0.02 * np.sin(np.arange(24)))
    shared = [float(one) for one in waves * np.exp(np.random.default_rng(0).normal(0.0, 0.001, 24))]
    assert notes_on(shared, list(waves)) == ()


def test_what_widens_an_interval_is_one_sentence() -> None:
    """Sessions, that the null shows more than was known, and rounds that are alike, each as far as it counts."""
    plan = LatencyPlan()
    known = widening(judged(STEADY, STEADY), 24, plan)
    assert known == "the 95 % interval allows for sessions that differ by 0.45 % (standard deviation)"
    shown = widening(judged(STEADY, STEADY, null=1.02), 24, plan)
    assert shown == f"{known.replace('0.45', '0.99')} that this launch's null shows"
    waves = [100.0] * 12 + [104.0] * 12
    alike = widening(judged(waves, STEADY), 24, plan)
    assert alike.startswith(
        f"{known} and for rounds that are not independent: a round's ratio resembles the one before"
    )
    assert alike.endswith("24 rounds tell as much as 1.3 independent ones")
    assert widening(judged(STEADY, STEADY, sd=0.0), 24, plan) == ""
