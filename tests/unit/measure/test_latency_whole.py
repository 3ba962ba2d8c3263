"""The latency of three engines whole: every figure from the same rounds, and the signs of noise beside them."""

from __future__ import annotations

import statistics
from dataclasses import fields, replace

import numpy as np
import pytest

from pytest_quant.measure.block import Block
from pytest_quant.measure.interleave import Warm, unsettled
from pytest_quant.measure.latency import _decided
from pytest_quant.measure.latency_figures import latency_figures
from pytest_quant.measure.noise import budget_reasons, noise_notes, null_reasons, widening
from pytest_quant.result import Blocks, Interval, LatencyResult
from pytest_quant.spec import LatencyPlan, Spread
from pytest_quant.stats.ratio import Estimate, percentile_bounds
from pytest_quant.stats.rounds import JudgedRounds, judge_ratio, judge_rounds, resemblance
from pytest_quant.stats.sequential import Looks

PLAN = LatencyPlan(batch_size=3, confidence=0.9, seed=5, max_latency_ms=((95.0, 1.0), (50.0, 1.0)))


def blocks(scale: float, seed: int, rounds: int = 12) -> list[Block]:
    """Rounds of 20 runs about `scale` milliseconds, each after a cold run of twice as long."""
    random = np.random.default_rng(seed)
    return [
        Block(int(2e6 * scale), tuple(int(1e6 * scale * value) for value in random.normal(1.0, 0.01, 20)))
        for _ in range(rounds)
    ]


def test_every_figure_of_a_latency() -> None:
    """Medians of rounds, their ratio with its interval, percentiles of all runs, in milliseconds."""
    reference, null, candidate = blocks(2.0, 1), blocks(2.0, 2), blocks(1.0, 3)
    found = latency_figures(reference, null, candidate, PLAN)
    ref_ns, null_ns, cand_ns = (
        [statistics.median(one.runs_ns) for one in side] for side in (reference, null, candidate)
    )
    runs_ms = [run / 1e6 for one in candidate for run in one.runs_ns]
    looks, known = Looks(8, 8, 40, 0.9), PLAN.sessions
    logs = [np.log(side) for side in (ref_ns, null_ns, cand_ns)]
    ratio, of_null = judge_ratio(logs[0], logs[1], logs[2], looks, known)
    of_p50 = judge_rounds(logs[2], (logs[2],), looks, ratio.session_sd)
    speedup, null_ratio, p50 = (
        Estimate(*(float(np.exp(one).item()) for one in (found.span.value, found.span.low, found.span.high)))
        for found in (ratio, of_null, of_p50)
    )
    expected = LatencyResult(
        batch_size=3,
        rounds=12,
        reference=Blocks(tuple(one.runs_ns for one in reference), (4_000_000,) * 12),
        null=Blocks(tuple(one.runs_ns for one in null), (4_000_000,) * 12),
        candidate=Blocks(tuple(one.runs_ns for one in candidate), (2_000_000,) * 12),
        reference_p50_ms=statistics.median(ref_ns) / 1e6,
        candidate_p50_ms=statistics.median(cand_ns) / 1e6,
        candidate_p90_ms=float(np.percentile(runs_ms, 90)),
        candidate_p99_ms=float(np.percentile(runs_ms, 99)),
        percentile_bounds_ms=(
            (50.0, p50.low / 1e6, p50.high / 1e6),
            *((one, *percentile_bounds(runs_ms, one, confidence=0.9, clusters=12)) for one in (90.0, 95.0, 99.0)),
        ),
        speedup=speedup.value,
        speedup_ci=Interval(speedup.low, speedup.high),
        null_ratio_ci=Interval(null_ratio.low, null_ratio.high),
        half_width_pct=100.0 * (speedup.high - speedup.low) / 2.0 / speedup.value,
        confidence=0.9,
        looks=2,
        session_sd=float(ratio.session_sd.item()),
        effective_rounds=float(ratio.effective_rounds.item()),
        widened=widening(ratio, 12, PLAN),
        sets=(12,),
    )
    for field in fields(LatencyResult):
        value = getattr(expected, field.name)
        numeric = isinstance(value, (int, float)) or field.name == "percentile_bounds_ms"
        if field.name == "percentile_bounds_ms":
            assert [list(one) for one in found.percentile_bounds_ms] == [pytest.approx(list(one)) for one in value]
        else:
            assert getattr(found, field.name) == (pytest.approx(value) if numeric else value), field.name


def test_reasons_and_notes_stand_beside_the_figures() -> None:
    """A null that is off, too few rounds, and noise of candidate and reference."""
    reference, candidate = blocks(2.0, 1, 4), blocks(1.0, 3, 4)
    found = latency_figures(reference, blocks(3.0, 2, 4), candidate, PLAN)
    assert found.reasons == (*null_reasons(found.null_ratio_ci), *budget_reasons(4, PLAN))
    assert len(found.reasons) == 2
    medians = [[statistics.median(one.runs_ns) for one in side] for side in (candidate, reference)]
    logs = [np.log(side) for side in (medians[1], found.null.medians_ns, medians[0])]
    looks, known = Looks(8, 8, 40, 0.9), PLAN.sessions
    ratio, _ = judge_ratio(logs[0], logs[1], logs[2], looks, known)
    assert found.notes == noise_notes(medians[0], medians[1], ratio)


@pytest.mark.parametrize(
    ("null", "told"),
    [
        (Interval(1.0201, 1.5), ("[1.020, 1.500]",)),
        (Interval(1.02, 1.5), ()),
        (Interval(0.5, 0.9803), ("[0.500, 0.980]",)),
        (Interval(0.5, 0.9804), ()),
    ],
)
def test_a_null_that_is_off(null: Interval, told: tuple[str, ...]) -> None:
    """By more than 2 % either way, with its interval."""
    assert null_reasons(null) == tuple(
        f"the null is off: a second session of the reference took {span} times as long as the first" for span in told
    )


def test_too_few_rounds() -> None:
    """With the time there was, and how many it takes."""
    plan = LatencyPlan(confidence=0.95, max_s=1.25)
    assert budget_reasons(5, plan) == ("too few rounds within 1.25 s: 5, and 95 % confidence needs 6",)
    assert budget_reasons(6, plan) == ()


WAVES = (
    "slow waves: a round's ratio resembles the one before it (r = {r}): 24 rounds tell as much as {n} independent ones"
)


@pytest.mark.parametrize(
    ("times", "notes"),
    [
        ([100.0, 115.0] * 12, ("wide spread: half of the candidate's rounds lie 14 % apart",)),
        (
            [100.0] * 8 + [101.0] * 8 + [103.5] * 8,
            (
                "trend: the candidate took 1.03 times as long at the end as at the start",
                WAVES,
            ),
        ),
        (
            [100.0] * 8 + [101.0] * 8 + [102.9] * 8,
            (WAVES,),
        ),
    ],
)
def test_signs_of_noise(times: list[float], notes: tuple[str, ...]) -> None:
    """Each with its figure; r is that of the ratio."""
    reference = [100.0, 100.1] * 12
    ratio = _ratio(times, reference)
    r = float(resemblance(np.log(reference) - np.log(times)))
    figures = {"{r}": f"{r:.2f}", "{n}": f"{max(24 * (1 - r) / (1 + r), 1.0):.1f}"}
    expected = [note.replace("{r}", figures["{r}"]).replace("{n}", figures["{n}"]) for note in notes]
    assert list(noise_notes(times, reference, ratio)) == expected


def _ratio(candidate: list[float], reference: list[float]) -> JudgedRounds:
    times = [np.log(one) for one in (reference, reference, candidate)]
    return judge_ratio(times[0], times[1], times[2], Looks(), Spread(0.005, 4.0))[0]


def test_one_round_shows_nothing() -> None:
    """Two may."""
    assert noise_notes([100.0], [100.0], _ratio([100.0], [100.0])) == ()


def test_engines_that_did_not_settle_are_named() -> None:
    """With the seconds that they had."""
    settled, not_yet = (Warm(Block(1, ()), 1.0, settled=is_settled) for is_settled in (True, False))
    plan = LatencyPlan(max_warmup_s=0.5, max_s=100.0)
    assert list(unsettled([settled, not_yet, not_yet], plan)) == [
        "warm-up: the null had not settled after 0.5 s",
        "warm-up: the candidate had not settled after 0.5 s",
    ]


FOUND = replace(
    latency_figures(blocks(2.0, 1), blocks(2.0, 2), blocks(1.0, 3), PLAN),
    speedup_ci=Interval(1.5, 2.5),
    half_width_pct=2.0,
    percentile_bounds_ms=((50.0, 1.0, 2.0), (99.0, 3.0, None)),
)


@pytest.mark.parametrize(
    ("found", "plan", "decided"),
    [
        (FOUND, LatencyPlan(precision=0.02), True),
        (FOUND, LatencyPlan(precision=0.0199), False),
        (replace(FOUND, reasons=("x",)), LatencyPlan(precision=0.02), False),
        (FOUND, LatencyPlan(min_speedup=1.5), True),
        (FOUND, LatencyPlan(min_speedup=1.51), False),
        (FOUND, LatencyPlan(min_speedup=2.5), False),
        (FOUND, LatencyPlan(min_speedup=2.51), True),
        (FOUND, LatencyPlan(max_latency_ms=((50.0, 2.0),)), True),
        (FOUND, LatencyPlan(max_latency_ms=((50.0, 1.9),)), False),
        (FOUND, LatencyPlan(max_latency_ms=((50.0, 1.0),)), False),
        (FOUND, LatencyPlan(max_latency_ms=((50.0, 0.9),)), True),
        (FOUND, LatencyPlan(max_latency_ms=((99.0, 2.9),)), True),
        (FOUND, LatencyPlan(max_latency_ms=((99.0, 9.0),)), False),
        (FOUND, LatencyPlan(min_speedup=1.0, max_latency_ms=((50.0, 1.5),)), False),
        (FOUND, LatencyPlan(min_speedup=2.0, max_latency_ms=((50.0, 9.0),)), False),
        (FOUND, LatencyPlan(min_speedup=1.0, max_latency_ms=((50.0, 9.0),)), True),
    ],
)
def test_when_everything_is_decided(found: LatencyResult, plan: LatencyPlan, decided: bool) -> None:
    """Each limit outside of its interval, as the verdict will have it; without limits, a precise speedup."""
    assert _decided(found, plan) is decided
