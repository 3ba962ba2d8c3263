"""`compare` over 20 series in which nothing changed, while days differ from each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial

import numpy as np

from pytest_quant.history.compare import compare
from pytest_quant.history.rows import StoredCheck
from pytest_quant.record import Record
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.rates import Rate
from tests.benchmarks.detection.table import Row
from tests.unit.history.compare.launched import launch, record_of, timed

SERIES = 20
DAY_SDS_PCT = (0.0, 0.5, 1.0)
LAUNCH_SD = 0.005
LAUNCHES_A_DAY = 5
BASE_DAYS = (1, 10)
"""How many days the base was run on; the head is of one day."""

BATCH, BATCHES = 10, 20
FALSE_AT_MOST_PCT = 5.0
_FIRST = datetime(2026, 1, 1, 3, 0, tzinfo=UTC)


@cache
def _record(number: int) -> Record:
    return record_of(f"tests/test_models.py::test_{number:02}", latency=True)


def day_of_launches(day: int, day_sd: float, commit: str, random: np.random.Generator) -> list[StoredCheck]:
    """Return the launches of a day: each series has a level of its own that day."""
    levels = random.normal(0.0, day_sd, SERIES)
    found = []
    for number in range(LAUNCHES_A_DAY):
        times = np.exp(levels + random.normal(0.0, LAUNCH_SD, SERIES))
        records = [timed(_record(series), float(ms)) for series, ms in enumerate(times)]
        started = (_FIRST + timedelta(days=day, minutes=10 * number)).isoformat()
        checks = launch(*records, run=f"{day}-{number}", commit=commit)
        found += [replace(one, run=replace(one.run, started_at=started)) for one in checks]
    return found


def anything_changed(base_days: int, day_sd: float, random: np.random.Generator) -> bool:
    """Compare a day of the head with days of the base, all of the same speed, and return whether a row changed."""
    base = [one for day in range(base_days) for one in day_of_launches(day, day_sd, "base", random)]
    head = day_of_launches(base_days, day_sd, "head", random)
    return bool(compare(base, head).changed)


def batch(base_days: int, day_sd: float, seed: int) -> Found:
    """Make so many comparisons."""
    random = np.random.default_rng(seed)
    return {"n": BATCH, "changed": sum(anything_changed(base_days, day_sd, random) for _ in range(BATCH))}


def arms() -> list[Arm]:
    """One for each spread of days, and each number of days of the base."""
    return [Arm(_key(days, sd), BATCHES, partial(batch, days, sd / 100.0)) for days in BASE_DAYS for sd in DAY_SDS_PCT]


def _key(base_days: int, day_sd_pct: float) -> str:
    return f"compare base days {base_days} day sd {day_sd_pct:g}"


def rows(ledger: Ledger) -> list[Row]:
    """One for each number of days of the base."""
    return list(_rows(ledger))


def _rows(ledger: Ledger) -> Iterator[Row]:
    for days in BASE_DAYS:
        found = []
        for sd in DAY_SDS_PCT:
            trials = ledger.trials(_key(days, sd))
            found.append(Rate(*(sum(int(str(one[what])) for one in trials) for what in ("changed", "n"))))
        of_base = "one day" if days == 1 else f"{days} days"
        sds = " / ".join(f"{sd:g}" for sd in DAY_SDS_PCT)
        yield Row(
            f"`compare`, {SERIES} series, base of {of_base}, head of one, day sd {sds} %, no change: any change told",
            f"<= {FALSE_AT_MOST_PCT:g} %",
            " / ".join(map(str, found)),
            all(one.pct <= FALSE_AT_MOST_PCT for one in found) if all(one.n for one in found) else None,
        )
