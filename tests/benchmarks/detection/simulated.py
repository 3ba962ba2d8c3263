"""`min_speedup` in simulated worlds whose noise is known, on the functions that judge rounds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from pytest_quant.spec import LatencyPlan
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.rates import Rate, counted
from tests.benchmarks.detection.table import Row
from tests.support.worlds import WORLDS, decide

LIMIT = 0.03
SLOWER_PCT = (0.0, 2.0, 3.0, 4.0, 5.0, 10.0)
BATCH, BATCHES = 200, 10
FAIL_AT_2_AT_MOST_PCT, PASS_AT_4_AT_MOST_PCT = 1.0, 3.0


def batch(world: str, slower_pct: float, seed: int) -> Found:
    """Judge so many launches; a FAIL needs a second measurement that fails too."""
    plan, slower = LatencyPlan(), slower_pct / 100.0
    first, second = WORLDS[world].launches(slower, BATCH, seed, measurements=2)
    result, again = decide(first, slower, LIMIT, plan.sessions), decide(second, slower, LIMIT, plan.sessions)
    return {
        "n": BATCH,
        "fail": int(np.sum(result.failed & again.failed)),
        "pass": int(np.sum(result.passed)),
        "covered": int(np.sum(result.covered)),
        "rounds": float(np.median(result.rounds)),
    }


def arms() -> list[Arm]:
    """One for each world and size of a slow-down."""
    return [Arm(_key(world, pct), BATCHES, partial(batch, world, pct)) for world in WORLDS for pct in SLOWER_PCT]


def _key(world: str, slower_pct: float) -> str:
    return f"worlds {world} +{slower_pct:g}"


def _rate(ledger: Ledger, world: str, slower_pct: float, hits: str) -> Rate:
    return counted(ledger, _key(world, slower_pct), hits)


def rows(ledger: Ledger) -> Iterator[Row]:
    """One for each world."""
    for world in WORLDS:
        at_2, at_4 = _rate(ledger, world, 2.0, "fail"), _rate(ledger, world, 4.0, "pass")
        reached = at_2.pct <= FAIL_AT_2_AT_MOST_PCT and at_4.pct <= PASS_AT_4_AT_MOST_PCT
        yield Row(
            f"limit 3 %, simulated, {world}: FAIL at +2 %; PASS at +4 %",
            f"<= {FAIL_AT_2_AT_MOST_PCT:g} %; <= {PASS_AT_4_AT_MOST_PCT:g} %",
            f"{at_2}; {at_4}",
            reached if at_2.n and at_4.n else None,
        )
    for world in WORLDS:
        covered = [_rate(ledger, world, pct, "covered") for pct in SLOWER_PCT]
        of_all = Rate(sum(each.hits for each in covered), sum(each.n for each in covered))
        caught = _rate(ledger, world, 5.0, "fail")
        at = [f"{_rate(ledger, world, 3.0, what).pct:.1f}" for what in ("fail", "pass")]
        yield Row(
            f"the same, {world}: coverage; at the limit FAIL / PASS; FAIL at +5 %",
            "93 % at least; -; -",
            f"{of_all}; {' / '.join(at)} %; {caught}",
            of_all.pct >= 93.0 if of_all.n else None,
        )
