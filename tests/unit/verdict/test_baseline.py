"""Each verdict against a baseline whole, and the sentence that the reader gets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from scipy import stats as scipy_stats

from pytest_quant.result import (
    NOTHING_KNOWN,
    AccuracyResult,
    Baseline,
    Interval,
    LaunchFigures,
    LaunchNoise,
    Status,
    Verdict,
)
from pytest_quant.spec import Limits, Spread
from pytest_quant.stats.launches import Launch, noise_of
from pytest_quant.verdict import Judge
from pytest_quant.verdict.baseline import baseline_verdicts
from tests.unit.verdict.test_accuracy_limits import TOP1
from tests.unit.verdict.test_latency_limits import off, timed

PASS, FAIL, INCONCLUSIVE, NO_BASELINE = Status.PASS, Status.FAIL, Status.INCONCLUSIVE, Status.NO_BASELINE
ACCEPT = '; accept a record of a commit that passes its other limits: pytest-quant accept --reason "..."'
NO_SCORE = AccuracyResult(n=10)
LAUNCHES = tuple(
    LaunchFigures(f"2026-01-{day:02}T12:00:00+00:00", 1.5 * noise, 2.0 / noise, 3.0)
    for day, noise in enumerate((1.0, 0.99, 1 / 0.99) * 4, 1)
)
"""One on each of twelve days, with a standard deviation of 0.86 % around 1.5 and 2 ms."""

DAYS = noise_of([[Launch(math.log(launch.speedup or 1.0), launch.started_at) for launch in LAUNCHES]])

ACCEPTED = Baseline(
    commit="c" * 40,
    drop=0.4,
    launches=LAUNCHES,
    p50_launches=LAUNCHES,
    speedup_noise=DAYS,
    p50_noise=DAYS,
    now="2026-02-01T12:00:00+00:00",
)

SPREAD = math.sqrt(12 / 11 * 2 / 3) * -math.log(0.99)
"""Of the twelve launches of `ACCEPTED`: four are on their mean, four above and four below."""

REACH = scipy_stats.t.ppf(0.975, 11) * SPREAD * math.sqrt(1.0 + 1.0 / 12.0)


def lost(speedup: float) -> str:
    """The slowdown from 1.5, its interval and what it is counted on, in words."""
    value = math.log(1.5 / speedup)
    low, middle, high = (100.0 * math.expm1(value + end) for end in (-REACH, 0.0, REACH))
    return f"slowdown {middle:.2f} % [{low:.2f}, {high:.2f}] against {BASE}"


BASE = "12 launches on 12 days of cccccccccccc"
DAYS_DIFFER = (
    "more launches today cannot decide this: the baseline varies too much from day to day; compare both commits "
    "now: --quant-against"
)


OF_SLOWDOWN = [
    (25.0, ACCEPTED, PASS, f"{lost(1.35)} lies within 25.0 %"),
    (
        11,
        ACCEPTED,
        INCONCLUSIVE,
        f"{lost(1.35)} encloses 11 %; {DAYS_DIFFER}",
    ),
    (5, ACCEPTED, FAIL, f"{lost(1.35)} lies above 5 %"),
    (5, None, NO_BASELINE, f"no record of this series was accepted{ACCEPT}"),
    (5, "it is not known", NO_BASELINE, f"it is not known{ACCEPT}"),
    (
        5,
        replace(ACCEPTED, launches=()),
        NO_BASELINE,
        f"the baseline of cccccccccccc was timed on another machine or in another way, or not at all{ACCEPT}",
    ),
]


@pytest.mark.parametrize(("allowed", "baseline", "status", "reason"), OF_SLOWDOWN)
def test_limits_on_the_slowdown(allowed: float, baseline: Baseline | str | None, status: Status, reason: str) -> None:
    """Student's interval of a new day against twelve, on logarithms."""
    limits = Limits(max_slowdown=allowed, max_p50_increase=1000)
    result, _ = baseline_verdicts(limits, TOP1, timed(1.2, 1.5), baseline)
    assert (result.limit, result.allowed, result.status, result.reason) == ("max_slowdown", allowed, status, reason)
    assert result.observed == (None if status is NO_BASELINE else pytest.approx(100.0 * (1.5 / 1.35 - 1.0)))


def test_a_slowdown_that_is_not_to_be_judged() -> None:
    """Latency that is off, and latency with reasons against it."""
    limits = Limits(max_slowdown=5)
    (result,) = baseline_verdicts(limits, TOP1, None, ACCEPTED)
    assert result == Verdict("max_slowdown", 5, None, INCONCLUSIVE, "not measured: latency measurement is off")
    (result,) = baseline_verdicts(limits, TOP1, replace(timed(1.5, 1.5, reasons=("a", "b")), rounds=5), ACCEPTED)
    assert result.observed == pytest.approx(0.0, abs=1e-9)
    assert (result.status, result.reason) == (INCONCLUSIVE, "the timing is not to be trusted: a; b")


MODEL_THAT_DOUBLED = replace(timed(1.5, 1.5), reference_p50_ms=6.0, candidate_p50_ms=4.0)


def test_a_time_that_doubles_with_its_reference_is_caught() -> None:
    """The speedup is what it was; the candidate's own time is a limit of its own."""
    slowdown, increase = baseline_verdicts(
        Limits(max_slowdown=5, max_p50_increase=5), TOP1, MODEL_THAT_DOUBLED, ACCEPTED
    )
    assert (slowdown.limit, slowdown.status) == ("max_slowdown", PASS)
    assert (increase.limit, increase.status) == ("max_p50_increase", FAIL)
    assert increase.observed == pytest.approx(100.0)
    assert increase.reason.startswith("p50 increase 100.00 % [")
    assert increase.reason.endswith(f"] (2 -> 4 ms) against {BASE} lies above 5 %")
    assert "rose" not in slowdown.reason


def test_where_only_the_ratio_is_limited_the_reader_learns_that_the_time_rose() -> None:
    """And does not where it did not."""
    (result,) = baseline_verdicts(Limits(max_slowdown=5), TOP1, MODEL_THAT_DOUBLED, ACCEPTED)
    assert result.status is PASS
    assert "; the absolute time rose: p50 increase 100.00 % [" in result.reason
    assert result.reason.endswith("which max_p50_increase would limit")
    (result,) = baseline_verdicts(Limits(max_slowdown=5), TOP1, timed(1.5, 1.5), ACCEPTED)
    assert "rose" not in result.reason


def based_on(launches: Sequence[LaunchFigures], now: str) -> Baseline:
    """A baseline of these launches, whose noise is what they tell themselves."""
    noise = noise_of([[Launch(math.log(launch.speedup or 1.0), launch.started_at[:10]) for launch in launches]])
    return replace(ACCEPTED, launches=tuple(launches), p50_launches=(), speedup_noise=noise, now=now)


@pytest.mark.parametrize("days", [1, 3, 5])
def test_below_five_degrees_of_freedom_nothing_fails(days: int) -> None:
    """However large the slowdown is, and the reader learns how many days are missing."""
    few = based_on(LAUNCHES[:days], ACCEPTED.now)
    (result,) = baseline_verdicts(Limits(max_slowdown=5), TOP1, timed(0.1, 0.2), few)
    assert result.status is INCONCLUSIVE
    assert f"run the base on {5 - (days - 1)} more days" in result.reason
    (result,) = baseline_verdicts(Limits(max_slowdown=5), TOP1, timed(0.1, 0.2), based_on(LAUNCHES[:6], ACCEPTED.now))
    assert result.status is FAIL


def test_launches_of_one_day_need_more_of_them_and_are_told_how_many() -> None:
    """Base and head on one day: every launch of the head counts, those of this run too."""
    today = [replace(launch, started_at=f"2026-01-01T12:{minute:02}:00") for minute, launch in enumerate(LAUNCHES[:3])]
    base = based_on(today, "2026-01-01T13:00:00")
    (result,) = baseline_verdicts(Limits(max_slowdown=5), TOP1, timed(1.2, 1.2), base)
    assert result.status is INCONCLUSIVE
    assert result.reason.endswith("3 more launches of today would decide: --quant-launches auto")
    further = [LaunchFigures(f"2026-01-01T13:0{minute}:00", 1.2, 2.5) for minute in range(1, 4)]
    (result,) = baseline_verdicts(Limits(max_slowdown=5), TOP1, replace(timed(1.2, 1.2), launches=tuple(further)), base)
    assert result.status is FAIL
    assert " in 4 launches against 3 launches of cccccccccccc lies above 5 %" in result.reason


def test_one_launch_of_the_base_near_the_limit_is_not_outweighed_by_launches_of_the_head() -> None:
    """Its own error stays however many they are: the way out is named at once, and no number of launches."""
    base = based_on([replace(LAUNCHES[0], started_at="2026-01-01T12:00:00")], "2026-01-01T13:00:00")
    known = replace(base, speedup_noise=LaunchNoise(Spread(0.03, 9.0)))
    for baseline in (base, known):
        (result,) = baseline_verdicts(Limits(max_slowdown=5), TOP1, timed(1.35, 1.35), baseline)
        assert result.status is INCONCLUSIVE
        words = "; more launches of today are not enough beside 1 launch of the base; compare both commits now: "
        assert result.reason.endswith(f"{words}--quant-against")


def test_a_run_with_quant_against_is_not_advised_to_use_it() -> None:
    """Each reason that names the option names the section of this run in its place."""
    today = replace(LAUNCHES[0], started_at="2026-02-01T11:00:00")
    for launches in (LAUNCHES, LAUNCHES[:3], [today]):
        paired = replace(based_on(launches, ACCEPTED.now), is_paired=True)
        (result,) = baseline_verdicts(Limits(max_slowdown=11), TOP1, timed(1.35, 1.35), paired)
        assert result.status is INCONCLUSIVE
        assert result.reason.endswith(" see the section quant against")
        (alone,) = baseline_verdicts(Limits(max_slowdown=11), TOP1, timed(1.35, 1.35), replace(paired, is_paired=False))
        assert alone.reason.endswith(": --quant-against")


def test_a_day_of_which_nothing_is_known_passes_only_what_a_wide_guess_lets_pass() -> None:
    """A pass is proven like a failure: with 3 % from day to day and five degrees of freedom."""
    baseline = replace(based_on(LAUNCHES[:1], ACCEPTED.now), speedup_noise=NOTHING_KNOWN)
    for allowed, status in ((5, INCONCLUSIVE), (400, PASS)):
        (result,) = baseline_verdicts(Limits(max_slowdown=allowed), TOP1, timed(1.5, 1.5), baseline)
        assert result.status is status


def test_launches_of_today_are_worth_their_time_only_where_they_narrow_the_interval() -> None:
    """Beside launches of today they are; beside twelve days of one launch each, whose noise is larger, they are not."""
    today = [replace(launch, started_at=f"2026-01-01T12:{minute:02}:00") for minute, launch in enumerate(LAUNCHES[:3])]
    slower, beside_today = timed(1.35, 1.35), based_on(today, "2026-01-01T13:00:00")
    for limits in (Limits(max_slowdown=11.0), Limits(max_p50_increase=0.1)):
        (result,) = baseline_verdicts(limits, TOP1, slower, ACCEPTED)
        assert result.status is INCONCLUSIVE
        assert not Judge(limits, ACCEPTED).undecided(slower)
    assert Judge(Limits(max_slowdown=11.0), beside_today).undecided(slower)
    assert not Judge(Limits(max_slowdown=11.0), replace(beside_today, launches=())).undecided(slower)
    assert not Judge(Limits(max_slowdown=11.0), "nothing was accepted").undecided(slower)


OF_INCREASE = [
    (TOP1, replace(ACCEPTED, drop=0.25), 0.25, PASS, "0.25 pp is within 0.5 pp"),
    (TOP1, replace(ACCEPTED, drop=-0.5), 1.0, FAIL, "1 pp is above 0.5 pp"),
    (NO_SCORE, ACCEPTED, None, INCONCLUSIVE, "not measured: no metric could be computed"),
    (TOP1, None, None, NO_BASELINE, f"no record of this series was accepted{ACCEPT}"),
    (TOP1, "other data", None, NO_BASELINE, f"other data{ACCEPT}"),
    (TOP1, replace(ACCEPTED, drop=None, no_drop="other data"), None, NO_BASELINE, f"other data{ACCEPT}"),
    (TOP1, replace(ACCEPTED, drop=None), None, NO_BASELINE, f"the baseline of cccccccccccc has no drop{ACCEPT}"),
]


@pytest.mark.parametrize(("accuracy", "baseline", "observed", "status", "reason"), OF_INCREASE)
def test_limits_on_the_increase_of_the_drop(
    accuracy: AccuracyResult,
    baseline: Baseline | str | None,
    observed: float | None,
    status: Status,
    reason: str,
) -> None:
    """The drop less that of the baseline; without one of the two there is no verdict."""
    (result,) = baseline_verdicts(Limits(max_drop_increase=0.5), accuracy, None, baseline)
    assert result == Verdict("max_drop_increase", 0.5, observed, status, reason)


@pytest.mark.parametrize(("allowed", "status"), [(40, PASS), (15, INCONCLUSIVE), (25, INCONCLUSIVE), (5, FAIL)])
def test_a_slowdown_far_from_its_limit_is_decided_beside_an_off_null(allowed: float, status: Status) -> None:
    """A slowdown of 20 %, beside sessions that lie 6.4 % apart, is more than 5 and less than 40 %."""
    beside = off(timed(1.24, 1.26), Interval(1.048, 1.064))
    (verdict,) = baseline_verdicts(Limits(max_slowdown=allowed), TOP1, beside, ACCEPTED)
    assert verdict.status is status
    assert verdict.reason.endswith("; the interval is 6.4 % wider to either side, for the null is off")
