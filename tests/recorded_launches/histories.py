"""Histories of recorded launches, and what `max_slowdown` and `compare` say of a head beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from pytest_quant.history.baselines.launch_history import include_launches, noise_by_machine
from pytest_quant.history.compare import compare
from pytest_quant.history.rows import StoredCheck
from pytest_quant.record import build_record, from_json
from pytest_quant.result import AccuracyResult, Baseline, LatencyResult, Status
from pytest_quant.spec import Limits
from pytest_quant.stats.launches import launch_of
from pytest_quant.verdict.baseline import baseline_verdicts
from tests.benchmarks.detection.compared import points_of
from tests.recorded_launches import LEAST_SPEEDUP, launches_by_arm, timed
from tests.unit.record.examples import RUN, a_measurement

HISTORIES = 126
MAX_SLOWDOWN_PCT = 3.0
_QUANTITIES = ("speedup", "p50")
_FIRST = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Layout:
    """Commits before the head, of which so many share a day, and launches of each commit and of the head."""

    commits: int
    a_day: int
    launches: int
    of_head: int


LAYOUTS = (
    Layout(10, 1, 1, 1),
    Layout(10, 1, 1, 5),
    Layout(3, 3, 3, 3),
    Layout(5, 1, 2, 3),
    Layout(20, 4, 1, 1),
    Layout(3, 1, 2, 1),
    Layout(2, 1, 3, 2),
)
"""With the last two, launches hardly know their own noise."""


def rows() -> Iterator[dict[str, Any]]:
    """Judge the head of every history."""
    arms = {arm: [_latency(launch) for launch in launches] for arm, launches in launches_by_arm().items()}
    heads = [(of_one[0].model, of_one[0].load, arm) for arm, of_one in launches_by_arm().items()]
    for number in range(HISTORIES):
        layout, (model, load, head) = LAYOUTS[number % len(LAYOUTS)], heads[number // len(LAYOUTS) % len(heads)]
        draw = np.random.default_rng(number)
        base = arms[f"{model} {load} +0 %"]
        yield {"history": number, "head": head, **_judged(layout, base, arms[head], draw)}


def _latency(launch: Any) -> LatencyResult:
    return replace(timed(launch, launch, Limits(min_speedup=LEAST_SPEEDUP)), repeat=None)


def _judged(
    layout: Layout, base: list[LatencyResult], head: list[LatencyResult], draw: np.random.Generator
) -> dict[str, Any]:
    earlier = [
        _stored(base[int(draw.integers(len(base)))], f"c{commit}", commit // layout.a_day, 10 * commit + number)
        for commit in range(layout.commits)
        for number in range(layout.launches)
    ]
    day = (layout.commits - 1) // layout.a_day + 1
    ours = [head[int(draw.integers(len(head)))] for _ in range(layout.of_head)]
    stored = [_stored(latency, "head", day, number) for number, latency in enumerate(ours)]
    today = stored[0].run.started_at
    nothing = Baseline("c" * 40, drop=None, now=today)
    (noise,) = noise_by_machine(points_of(earlier)).values()
    baseline = include_launches(nothing, earlier, next(iter(noise.values())))
    more = tuple(launch_of(latency, each.run.started_at) for latency, each in zip(ours[1:], stored[1:], strict=True))
    latency = replace(ours[0], launches=more)
    verdicts = baseline_verdicts(Limits(max_slowdown=MAX_SLOWDOWN_PCT), AccuracyResult(n=1), latency, baseline)
    last = [each for each in earlier if each.run.commit == f"c{layout.commits - 1}"]
    before = [each for each in earlier if each.run.commit != f"c{layout.commits - 1}"]
    compared = compare(last, stored, earlier=points_of(before))
    return {
        "max_slowdown": [verdict.status.value for verdict in verdicts],
        "compare": {
            row.quantity: row.outcome.value
            for row in compared.rows
            if "p50" in row.quantity or "speedup" in row.quantity
        },
    }


def _stored(latency: LatencyResult, commit: str, day: int, minute: int) -> StoredCheck:
    started = (_FIRST + timedelta(days=day, minutes=minute)).isoformat(timespec="seconds")
    encoded = build_record(a_measurement(latency=latency), status=Status.PASS, verdicts=())
    run = replace(RUN, id=f"{commit}-{minute}", commit=commit, started_at=started, dirty=False)
    return StoredCheck(run, from_json(json.loads(json.dumps(encoded.json))))
