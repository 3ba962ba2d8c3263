"""`max_slowdown` with the true slowdown at its limit: what is decided there is decided wrongly half of the time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from pytest_quant.result import AccuracyResult, Baseline, Interval, Status
from pytest_quant.spec import Limits
from pytest_quant.verdict.baseline import baseline_verdicts
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.rates import Rate
from tests.benchmarks.detection.table import Row
from tests.unit.verdict.test_latency import timed

LIMIT_PCT = 3.0
WITHIN_SD = 0.0075
"""Standard error of the log speedup within one launch, as 40 rounds on a shared machine have it."""

SDS_PCT = (1.0, 2.0)
BATCH, BATCHES = 200, 10
WRONG_AT_MOST_PCT = 3.0


def judged(sd: float, random: np.random.Generator) -> Status:
    """Judge one launch against one accepted launch; the head is slower by exactly the limit."""
    spread = math.hypot(sd, WITHIN_SD)
    base = math.exp(random.normal(0.0, spread))
    head = math.exp(random.normal(-math.log1p(LIMIT_PCT / 100.0), spread))
    reach = math.exp(1.96 * WITHIN_SD)
    latency = replace(timed(1.0, 1.0), speedup=head, speedup_ci=Interval(head / reach, head * reach))
    accepted = Baseline("c" * 40, drop=None, speedup=base, candidate_p50_ms=1.0, same_identity=True)
    (verdict,) = baseline_verdicts(Limits(max_slowdown=LIMIT_PCT), AccuracyResult(n=1), latency, accepted)
    return verdict.status


def batch(sd: float, seed: int) -> Found:
    """Judge so many launches."""
    random = np.random.default_rng(seed)
    statuses = [judged(sd, random) for _ in range(BATCH)]
    return {"n": BATCH, "fail": statuses.count(Status.FAIL), "pass": statuses.count(Status.PASS)}


def arms() -> list[Arm]:
    """One for each spread between launches."""
    return [Arm(_key(sd), BATCHES, partial(batch, sd / 100.0)) for sd in SDS_PCT]


def _key(sd_pct: float) -> str:
    return f"baseline sd {sd_pct:g}"


def rows(ledger: Ledger) -> list[Row]:
    """One for each spread between launches."""
    return list(_rows(ledger))


def _rows(ledger: Ledger) -> Iterator[Row]:
    for sd_pct in SDS_PCT:
        trials = ledger.trials(_key(sd_pct))
        n = sum(int(str(one["n"])) for one in trials)
        failed, passed = (Rate(sum(int(str(one[what])) for one in trials), n) for what in ("fail", "pass"))
        yield Row(
            f"`max_slowdown` at its limit of {LIMIT_PCT:g} %, launch sd {sd_pct:g} %: FAIL / PASS",
            f"<= {WRONG_AT_MOST_PCT:g} / <= {WRONG_AT_MOST_PCT:g} %",
            f"{failed} / {passed}",
            max(failed.pct, passed.pct) <= WRONG_AT_MOST_PCT if n else None,
        )
