"""The figures of a latency, all from the same rounds, and the signs of noise beside them."""

from __future__ import annotations

import statistics
from dataclasses import replace

import numpy as np
import pytest

from pytest_quant.measure.interleave import Block
from pytest_quant.measure.latency_figures import (
    MachineState,
    budget_reasons,
    disturbances_between,
    explain_widening,
    latency_figures,
    null_reasons,
)
from pytest_quant.measure.timed_rounds import _is_decided
from pytest_quant.result import Blocks, Interval, LatencyResult, PercentileBound, TokenTime
from pytest_quant.spec import LatencyPlan, Spread
from pytest_quant.stats.ratio import percentile_bounds, runs_needed
from pytest_quant.stats.rounds import JudgedRounds, Looks, judge_ratio, judge_rounds

ROUNDS = 10


def of_runs(runs_ns: np.ndarray) -> LatencyResult:
    """The figures of three engines that took the same times in rounds of equal length."""
    blocks = [Block(9, tuple(int(each) for each in part)) for part in np.split(runs_ns, ROUNDS)]
    return latency_figures([blocks] * 3, LatencyPlan())


@pytest.mark.parametrize(("runs", "p90", "p99"), [(20, False, False), (30, True, False), (300, True, True)])
def test_a_percentile_is_stated_from_enough_runs(runs: int, *, p90: bool, p99: bool) -> None:
    """It is numpy's, in milliseconds; fewer runs do not bound it from above, and then there is none."""
    assert ((runs >= runs_needed(90)), (runs >= runs_needed(99))) == (p90, p99)
    times_ns = np.random.default_rng(0).integers(1_000_000, 9_000_000, runs)
    result = of_runs(times_ns)
    for percentile, stated, value in ((90, p90, result.candidate_p90_ms), (99, p99, result.candidate_p99_ms)):
        expected = float(np.percentile(times_ns / 1e6, percentile))
        assert value == (pytest.approx(expected) if stated else None)


PLAN = LatencyPlan(batch_size=3, confidence=0.9, seed=5, most_ms=((95.0, 1.0), (50.0, 1.0)))


def blocks(scale: float, seed: int, rounds: int = 12) -> list[Block]:
    """Rounds of 20 runs about `scale` milliseconds, each after a cold run of twice as long."""
    random = np.random.default_rng(seed)
    return [
        Block(int(2e6 * scale), tuple(int(1e6 * scale * value) for value in random.normal(1.0, 0.01, 20)))
        for _ in range(rounds)
    ]


def test_every_figure_of_a_latency() -> None:
    """Medians of rounds, their ratio with its interval, percentiles of all runs, in milliseconds."""
    sides = blocks(2.0, 1), blocks(2.0, 2), blocks(1.0, 3)
    result = latency_figures(sides, PLAN)
    medians_ns = [[statistics.median(item.runs_ns) for item in side] for side in sides]
    reference, null, candidate = (np.log(side) for side in medians_ns)
    looks = Looks(8, 8, 40, 0.9)
    ratio, of_null = judge_ratio(reference, null, candidate, looks, PLAN.sessions)
    of_p50 = judge_rounds(candidate, (candidate,), looks, ratio.session_sd)
    spans = (ratio.span, of_null.span, of_p50.span)
    (low, speedup, high), (null_low, _, null_high), (p50_low, _, p50_high) = (
        [np.exp(end).item() for end in (span.low, span.value, span.high)] for span in spans
    )
    runs_ms = [run / 1e6 for item in sides[2] for run in item.runs_ns]
    tails = {each: percentile_bounds(runs_ms, each, confidence=0.9, clusters=12) for each in (90.0, 95.0, 99.0)}
    assert (result.batch_size, result.rounds, result.rounds_by_set, result.sets) == (3, 12, (12,), 1)
    assert (result.confidence, result.looks, result.reasons, result.widened) == (
        0.9,
        2,
        (),
        explain_widening(ratio, 12, PLAN),
    )
    for actual, side, cold_ns in zip((result.reference, result.null, result.candidate), sides, (4, 4, 2), strict=True):
        assert actual == Blocks(tuple(item.runs_ns for item in side), (1_000_000 * cold_ns,) * 12)
    p90_ms, p99_ms = np.percentile(runs_ms, [90, 99])
    for figure, expected in (
        (result.reference_p50_ms, statistics.median(medians_ns[0]) / 1e6),
        (result.candidate_p50_ms, statistics.median(medians_ns[2]) / 1e6),
        ((result.candidate_p90_ms, result.candidate_p99_ms), (p90_ms, p99_ms)),
        ((result.speedup, *result.speedup_ci), (speedup, low, high)),
        (tuple(result.null_ratio_ci), (null_low, null_high)),
        (result.half_width_pct, 100.0 * (high - low) / 2.0 / speedup),
        ((result.session_sd, result.effective_rounds), (ratio.session_sd.item(), ratio.effective_rounds.item())),
    ):
        assert figure == pytest.approx(expected)
    expected_bounds = {50.0: (p50_low / 1e6, p50_high / 1e6), **tails}
    assert [bound.percentile for bound in result.percentile_bounds] == list(expected_bounds)
    for bound in result.percentile_bounds:
        assert (bound.low_ms, bound.high_ms) == pytest.approx(expected_bounds[bound.percentile])


def streamed(side: list[Block], ttft_ms: float, tpot_ms: float) -> list[Block]:
    """Return rounds whose runs gave tokens, each round's a little later than those of the round before."""
    return [
        replace(block, tokens_ns=((1e6 * ttft_ms + index, 1e6 * tpot_ms + index),) * len(block.runs_ns))
        for index, block in enumerate(side)
    ]


def test_times_of_tokens() -> None:
    """Medians of rounds in milliseconds, with the interval that any time has; the reference's where it has some."""
    sides = blocks(2.0, 1), blocks(2.0, 2), streamed(blocks(1.0, 3), 0.5, 0.25)
    result = latency_figures(sides, PLAN)
    assert [(token.name, token.reference_ms) for token in result.tokens] == [("ttft", None), ("tpot", None)]
    for token, expected_ms in zip(result.tokens, (0.5, 0.25), strict=True):
        assert token.candidate_ms == pytest.approx(expected_ms, rel=1e-4)
        logs = np.log([1e6 * expected_ms + index for index in range(12)])
        span = judge_rounds(logs, (logs,), Looks(8, 8, 40, 0.9), np.array(result.session_sd)).span
        assert token.candidate_ci_ms == pytest.approx([np.exp(end).item() / 1e6 for end in (span.low, span.high)])
    both = latency_figures((streamed(sides[0], 2.0, 1.0), *sides[1:]), PLAN)
    assert [token.reference_ms for token in both.tokens] == pytest.approx([2.0, 1.0], rel=1e-4)
    assert latency_figures((streamed(sides[0], 2.0, 1.0), sides[1], blocks(1.0, 3)), PLAN).tokens == ()


def test_times_of_tokens_differ_between_sessions_as_the_median_does() -> None:
    """Sets that lie 5 % apart: its interval and that of the median become wider by the same factor."""
    first = blocks(2.0, 1), blocks(2.0, 2), streamed(blocks(1.0, 3), 0.5, 0.25)
    second = blocks(2.0, 4), blocks(2.0, 5), streamed(blocks(1.05, 6), 0.5, 0.25)
    one = latency_figures(first, PLAN)
    both = latency_figures([[*side, *more] for side, more in zip(first, second, strict=True)], PLAN, [12, 12])

    def widths(latency: LatencyResult) -> list[float]:
        median, token = latency.bound_of(50.0), latency.token_time("ttft")
        assert median is not None
        assert token is not None
        ends = (median.low_ms or 0.0, median.high_ms or 0.0), token.candidate_ci_ms or (1.0, 1.0)
        return [high / low for low, high in ends]

    (median, token), (of_sets, token_of_sets) = widths(one), widths(both)
    assert token_of_sets / token == pytest.approx(of_sets / median)
    assert median < 1.02 < 1.04 < of_sets


def test_single_tokens_have_no_time_per_token() -> None:
    """The time to the first stands for itself."""
    single = streamed(blocks(1.0, 3), 0.5, float("nan"))
    result = latency_figures((single, single, single), PLAN)
    assert [token.name for token in result.tokens] == ["ttft"]


@pytest.mark.parametrize(
    ("null", "spans"),
    [
        (Interval(1.0201, 1.5), ("[1.020, 1.500]",)),
        (Interval(1.02, 1.5), ()),
        (Interval(0.5, 0.9803), ("[0.500, 0.980]",)),
        (Interval(0.5, 0.9804), ()),
    ],
)
def test_a_null_that_is_off(null: Interval, spans: tuple[str, ...]) -> None:
    """By more than 2 % either way, with its interval."""
    assert null_reasons(null) == tuple(
        f"the null is off: a second session of the reference took {span} times as long as the first" for span in spans
    )


def test_too_few_rounds() -> None:
    """With the time there was, and how many it takes."""
    plan = LatencyPlan(confidence=0.95, max_s=1.25)
    assert budget_reasons(5, plan) == ("too few rounds within 1.25 s: 5, and 95 % confidence needs 6",)
    assert budget_reasons(6, plan) == ()


FOUND = replace(
    latency_figures((blocks(2.0, 1), blocks(2.0, 2), blocks(1.0, 3)), PLAN),
    speedup_ci=Interval(1.5, 2.5),
    half_width_pct=2.0,
    percentile_bounds=(PercentileBound(50.0, 1.0, 2.0), PercentileBound(99.0, 3.0, None)),
    tokens=(TokenTime("ttft", None, 1.5, Interval(1.0, 2.0)),),
)


@pytest.mark.parametrize(
    ("result", "plan", "decided"),
    [
        (FOUND, LatencyPlan(precision=0.02), True),
        (FOUND, LatencyPlan(precision=0.0199), False),
        (replace(FOUND, reasons=("x",)), LatencyPlan(precision=0.02), False),
        (FOUND, LatencyPlan(least_speedup=1.5), True),
        (FOUND, LatencyPlan(least_speedup=1.51), False),
        (FOUND, LatencyPlan(least_speedup=2.5), False),
        (FOUND, LatencyPlan(least_speedup=2.51), True),
        (FOUND, LatencyPlan(most_ms=((50.0, 2.0),)), True),
        (FOUND, LatencyPlan(most_ms=((50.0, 1.9),)), False),
        (FOUND, LatencyPlan(most_ms=((50.0, 1.0),)), False),
        (FOUND, LatencyPlan(most_ms=((50.0, 0.9),)), True),
        (FOUND, LatencyPlan(most_ms=((99.0, 2.9),)), True),
        (FOUND, LatencyPlan(most_ms=((99.0, 9.0),)), False),
        (FOUND, LatencyPlan(most_tokens_ms=(("ttft", 2.0),)), True),
        (FOUND, LatencyPlan(most_tokens_ms=(("ttft", 1.9),)), False),
        (FOUND, LatencyPlan(most_tokens_ms=(("ttft", 1.0),)), False),
        (FOUND, LatencyPlan(most_tokens_ms=(("ttft", 0.9),)), True),
        (FOUND, LatencyPlan(most_tokens_ms=(("tpot", 1.5),)), True),
        (FOUND, LatencyPlan(most_tokens_ms=(("ttft", 9.0),), least_speedup=2.0), False),
        (FOUND, LatencyPlan(least_speedup=1.0, most_ms=((50.0, 1.5),)), False),
        (FOUND, LatencyPlan(least_speedup=2.0, most_ms=((50.0, 9.0),)), False),
        (FOUND, LatencyPlan(least_speedup=1.0, most_ms=((50.0, 9.0),)), True),
    ],
)
def test_when_everything_is_decided(result: LatencyResult, plan: LatencyPlan, decided: bool) -> None:
    """Each limit outside of its interval, as the verdict will have it; without limits, a precise speedup."""
    assert _is_decided(result, plan) is decided


STEADY = [100.0, 101.0] * 12


def judged(candidate: list[float], reference: list[float], sd: float = 0.005, null: float = 1.0) -> JudgedRounds:
    """The ratio of two engines; every round of the null takes `null` times the reference's."""
    times = [np.log(side) for side in (reference, null * np.array(reference), candidate)]
    return judge_ratio(times[0], times[1], times[2], Looks(), Spread(sd, 4.0))[0]


@pytest.mark.parametrize(("sd", "off"), [(0.004, True), (0.005, True), (0.01, False)])
def test_a_runner_whose_sessions_differ_more_tolerates_more(sd: float, *, off: bool) -> None:
    """Four standard deviations: what they explain widens the interval, and accuses nobody."""
    assert bool(null_reasons(Interval(1.021, 1.05), sd)) is off


def test_what_widens_an_interval_is_one_sentence() -> None:
    """Sessions, that the null shows more than was known, and rounds that are alike, each as far as it counts."""
    plan = LatencyPlan()
    sentence = explain_widening(judged(STEADY, STEADY), 24, plan)
    assert sentence == "the 95 % interval allows for sessions that differ by 0.45 % (standard deviation)"
    shown = explain_widening(judged(STEADY, STEADY, null=1.02), 24, plan)
    assert shown == f"{sentence.replace('0.45', '0.99')} that this launch's null shows"
    waves = [100.0] * 12 + [104.0] * 12
    alike = explain_widening(judged(waves, STEADY), 24, plan)
    assert alike.startswith(f"{sentence} and for slow waves: each round resembles the one before it (r = 0.")
    assert alike.endswith("), so 24 rounds count as 1.3")
    assert explain_widening(judged(STEADY, STEADY, sd=0.0), 24, plan) == ""


BEFORE = MachineState(at_s=100.0, own_s=5.0, busy_s=50.0, stolen_s=1.0, throttled=3, processors=4)
ALONE = replace(BEFORE, at_s=110.0, own_s=15.0, busy_s=60.0)


@pytest.mark.parametrize(
    ("after", "noted"),
    [
        (ALONE, {}),
        (replace(ALONE, busy_s=62.0), {}),
        (replace(ALONE, busy_s=75.0), {"busy machine": "other processes used 1.5 of 4 processors"}),
        (replace(ALONE, stolen_s=1.3), {}),
        (replace(ALONE, stolen_s=3.0), {"stolen time": "the hypervisor took 5 % of the processors' time"}),
        (replace(ALONE, throttled=5), {"throttled": "a CPU limit of the control group stopped this process 2 times"}),
        (BEFORE, {}),
    ],
)
def test_differences_of_the_counters_are_noted(after: MachineState, noted: dict[str, str]) -> None:
    """Ten seconds on four processors: 15 s of others' work is 1.5 processors, 2 s stolen of 40 is 5 %."""
    assert disturbances_between(BEFORE, after) == noted
