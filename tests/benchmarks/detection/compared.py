"""`compare` over 20 series in which nothing changed, while days differ from each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from pytest_quant.history.compare import compare
from pytest_quant.history.rows import StoredCheck, identity_of
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.record import Record
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.rates import counted
from tests.benchmarks.detection.table import Row
from tests.unit.history.compare.launched import launch, record_of, timed

SERIES = 20
DAY_SDS_PCT = (0.0, 0.5, 1.0)
LAUNCH_SD = 0.005
LAUNCHES_A_DAY = 5
BATCH, BATCHES = 10, 20
FALSE_AT_MOST_PCT = 5.0
CHANGED_PCT = 5.0
_FIRST = datetime(2026, 1, 1, 3, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Kind:
    """On how many earlier days earlier commits ran, and whether base and head ran on one day."""

    earlier_days: int
    one_day: bool

    def __str__(self) -> str:
        """As a row has it."""
        days = "one day" if self.one_day else "a day each"
        return f"base and head on {days}, {self.earlier_days} earlier days"


KINDS = (Kind(0, one_day=False), Kind(20, one_day=False), Kind(0, one_day=True))


@cache
def _record(number: int) -> Record:
    return record_of(f"tests/test_models.py::test_{number:02}", latency=True)


def day_of_launches(
    day: int, levels: NDArray[np.float64], commit: str, launches: int, random: np.random.Generator
) -> list[StoredCheck]:
    """Return launches of all series on a day, on which each has a level of its own, a natural logarithm."""
    result = []
    for number in range(launches):
        times = np.exp(levels + random.normal(0.0, LAUNCH_SD, SERIES))
        records = [timed(_record(series), float(ms)) for series, ms in enumerate(times)]
        started = (_FIRST + timedelta(days=day, minutes=10 * number)).isoformat()
        checks = launch(*records, run=f"{day}-{number}", commit=commit)
        result += [replace(check, run=replace(check.run, started_at=started)) for check in checks]
    return result


def points_of(checks: list[StoredCheck]) -> list[CheckSummary]:
    """Return what a history has of earlier launches."""
    return [
        CheckSummary(
            check.run.id,
            check.run.started_at,
            check.run.commit,
            check.run.branch,
            check.run.dirty,
            check.record.series,
            "",
            identity_of(check.run, check.record),
            "",
            check.record.status,
            speedup=check.record.latency.speedup,
            reference_p50_ms=check.record.latency.reference_p50_ms,
            candidate_p50_ms=check.record.latency.candidate_p50_ms,
        )
        for check in checks
        if check.record.latency is not None
    ]


def changed(kind: Kind, day_sd: float, slower_pct: float, random: np.random.Generator) -> set[str]:
    """Compare base and head, whose first series became slower, and return the tests with a changed row."""

    def levels() -> NDArray[np.float64]:
        return random.normal(0.0, day_sd, SERIES)

    earlier = [
        point
        for day in range(kind.earlier_days)
        for point in points_of(day_of_launches(day, levels(), f"e{day}", 1, random))
    ]
    of_base = levels()
    of_head = of_base if kind.one_day else levels()
    slower = np.where(np.arange(SERIES) == 0, np.log1p(slower_pct / 100.0), 0.0)
    base_day = kind.earlier_days
    base = day_of_launches(base_day, of_base, "base", LAUNCHES_A_DAY, random)
    head_day = base_day if kind.one_day else base_day + 1
    head = day_of_launches(head_day, of_head + slower, "head", LAUNCHES_A_DAY, random)
    return {row.nodeid for row in compare(base, head, earlier=earlier).changed}


def batch(kind: Kind, day_sd: float, seed: int) -> Found:
    """Make so many comparisons without a change, and as many with one."""
    random = np.random.default_rng(seed)
    false = sum(bool(changed(kind, day_sd, 0.0, random)) for _ in range(BATCH))
    right = sum(_record(0).nodeid in changed(kind, day_sd, CHANGED_PCT, random) for _ in range(BATCH))
    return {"n": BATCH, "changed": false, "told": right}


def arms() -> list[Arm]:
    """One for each kind and spread of days."""
    return [Arm(_key(kind, sd), BATCHES, partial(batch, kind, sd / 100.0)) for kind in KINDS for sd in DAY_SDS_PCT]


def _key(kind: Kind, day_sd_pct: float) -> str:
    return f"compare {kind}, day sd {day_sd_pct:g}"


def rows(ledger: Ledger) -> Iterator[Row]:
    """One for each kind."""
    for kind in KINDS:
        false, right = ([counted(ledger, _key(kind, sd), hits) for sd in DAY_SDS_PCT] for hits in ("changed", "told"))
        sds = " / ".join(f"{sd:g}" for sd in DAY_SDS_PCT)
        slower = f"; one series +{CHANGED_PCT:g} %: told in {' / '.join(f'{each.pct:.0f}' for each in right)} %"
        yield Row(
            f"`compare`, {SERIES} series, {kind}, day sd {sds} %, no change: any change told",
            f"<= {FALSE_AT_MOST_PCT:g} %",
            " / ".join(map(str, false)) + (slower if false[0].n else ""),
            all(each.pct <= FALSE_AT_MOST_PCT for each in false) if all(each.n for each in false) else None,
        )
