"""`max_slowdown` with the true slowdown at its limit, where every decision is wrong, and away from it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from pytest_quant.history.baselines.launch_history import NO_NOISE_KNOWN, include_launches
from pytest_quant.result import AccuracyResult, Baseline, LaunchFigures, Status
from pytest_quant.spec import Limits
from pytest_quant.verdict.baseline import baseline_verdicts
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.rates import Rate, counted
from tests.benchmarks.detection.table import Row
from tests.unit.history.baselines.test_launch_history import check
from tests.unit.verdict.test_latency_limits import timed

LIMIT_PCT = 3.0
WITHIN_SD = 0.0075
"""Standard error of the log speedup within one launch, as 40 rounds on a shared machine have it."""

SDS_PCT = (1.0, 2.0)
BASE_LAUNCHES = 10
"""Of as many commits, each on a day of its own."""

HEAD_LAUNCHES = (1, 5)
SLOWER_PCT = (LIMIT_PCT, 0.0, 8.0)
BATCH, BATCHES = 100, 20
WRONG_AT_MOST_PCT = 3.0
_NOW = "2026-03-{:02}T12:{:02}:00+00:00"


def judged(sd: float, head_launches: int, slower_pct: float, random: np.random.Generator) -> Status:
    """Judge the launches of a head against those of the last ten commits."""
    spread = math.hypot(sd, WITHIN_SD)
    base = np.exp(random.normal(0.0, spread, BASE_LAUNCHES))
    head = np.exp(random.normal(-math.log1p(slower_pct / 100.0), spread, head_launches))
    checks = [check(day, float(speedup)) for day, speedup in enumerate(base, 1)]
    today = [_NOW.format(BASE_LAUNCHES + 1, minute) for minute in range(head_launches)]
    more = (LaunchFigures(at, float(each), 1.0 / float(each)) for at, each in zip(today[1:], head[1:], strict=True))
    latency = replace(timed(1.0, 1.0), speedup=float(head[0]), launches=tuple(more))
    nothing = Baseline("c" * 40, drop=None, now=today[0])
    accepted = include_launches(nothing, checks, NO_NOISE_KNOWN)
    (verdict,) = baseline_verdicts(Limits(max_slowdown=LIMIT_PCT), AccuracyResult(n=1), latency, accepted)
    return verdict.status


def batch(sd: float, head_launches: int, slower_pct: float, seed: int) -> Found:
    """Judge so many heads."""
    random = np.random.default_rng(seed)
    statuses = [judged(sd, head_launches, slower_pct, random) for _ in range(BATCH)]
    return {"n": BATCH, "fail": statuses.count(Status.FAIL), "pass": statuses.count(Status.PASS)}


def arms() -> list[Arm]:
    """One for each spread between launches, number of launches of the head, and true slowdown."""
    kinds = [(sd, head, pct) for sd in SDS_PCT for head in HEAD_LAUNCHES for pct in SLOWER_PCT]
    return [Arm(_key(sd, head, pct), BATCHES, partial(batch, sd / 100.0, head, pct)) for sd, head, pct in kinds]


def _key(sd_pct: float, head: int, slower_pct: float) -> str:
    return f"baseline sd {sd_pct:g} head {head} +{slower_pct:g}"


def _rates(ledger: Ledger, sd_pct: float, head: int, slower_pct: float) -> list[Rate]:
    return [counted(ledger, _key(sd_pct, head, slower_pct), what) for what in ("fail", "pass")]


def rows(ledger: Ledger) -> Iterator[Row]:
    """One for each spread between launches and number of launches of the head."""
    for sd_pct in SDS_PCT:
        for head in HEAD_LAUNCHES:
            failed, passed = _rates(ledger, sd_pct, head, LIMIT_PCT)
            same, slower = (_rates(ledger, sd_pct, head, pct) for pct in (0.0, 8.0))
            away = ((0, same), (8, slower))
            beside = "".join(f"; at +{pct} %: {each[0].pct:.1f} / {each[1].pct:.1f} %" for pct, each in away)
            yield Row(
                f"`max_slowdown` at its limit of {LIMIT_PCT:g} %, launch sd {sd_pct:g} %, head of {head}, base of "
                f"{BASE_LAUNCHES}: FAIL / PASS",
                f"<= {WRONG_AT_MOST_PCT:g} / <= {WRONG_AT_MOST_PCT:g} %",
                f"{failed} / {passed}" + (beside if failed.n else ""),
                max(failed.pct, passed.pct) <= WRONG_AT_MOST_PCT if failed.n else None,
            )
