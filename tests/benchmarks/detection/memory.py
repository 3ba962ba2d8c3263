"""Networks that wait for their weights, 24 and 100 MB of them: real launches, and as many as `auto` adds to one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pytest_quant.result import Status
from tests.benchmarks.detection import launches, runs
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.models import READ_FROM_MEMORY
from tests.benchmarks.detection.rates import having, rate
from tests.benchmarks.detection.table import Row, at_least, at_most

LAUNCHES = {("quiet", 0.0): 50, ("bursty", 0.0): 50, ("quiet", 5.0): 25, ("bursty", 5.0): 25}
"""Of each network, by load and by percent more of the same work."""

AUTO = {"quiet": 10, "bursty": 10}
"""Runs of pytest with a network that is 5 % slower, of each."""

AS_NEEDED = ("--quant-launches=auto",)

FAIL_AT_MOST_PCT, PASS_AT_MOST_PCT, COVERED_AT_LEAST_PCT, CAUGHT_AT_LEAST_PCT = 1.0, 1.0, 93.0, 80.0
WITHIN_S = 60.0


def arms(folder: Path) -> list[Arm]:
    """Of each network, load and size of a slow-down."""
    of_one = [
        Arm(_key(name, load, pct), wanted, partial(launches.trial, folder, name, load, pct))
        for (load, pct), wanted in LAUNCHES.items()
        for name in READ_FROM_MEMORY
    ]
    of_several = [
        Arm(_auto(name, load), wanted, partial(runs.trial, folder, runs.Kind(load, 5.0, 1, AS_NEEDED, (name,))))
        for load, wanted in AUTO.items()
        for name in READ_FROM_MEMORY
    ]
    return [*of_one, *of_several]


def _key(name: str, load: str, more_pct: float) -> str:
    return f"memory {load} +{more_pct:g} {name}"


def _auto(name: str, load: str) -> str:
    return f"memory auto {load} +5 {name}"


def rows(ledger: Ledger) -> list[Row]:
    """False alarms, intervals, slow-downs that pass, and those that launches catch."""
    return [row for load in AUTO for row in _rows(ledger, load)]


def _rows(ledger: Ledger, load: str) -> Iterator[Row]:
    equal, slower = (
        [each for name in READ_FROM_MEMORY for each in ledger.trials(_key(name, load, pct))] for pct in (0.0, 5.0)
    )
    yield _at_most(f"memory-bound, A/A, {load}: FAIL", equal, Status.FAIL, FAIL_AT_MOST_PCT)
    covered = rate(launches.encloses(each["speedup_ci"], 1.0) for each in equal)
    yield at_least(f"memory-bound, intervals of A/A that enclose 1, {load}", covered, COVERED_AT_LEAST_PCT)
    limited = "memory-bound, +5 % at a limit of 3 %"
    yield _at_most(f"{limited}, one launch, {load}: PASS", slower, Status.PASS, PASS_AT_MOST_PCT)
    result = (trial[name] for name in READ_FROM_MEMORY for trial in ledger.trials(_auto(name, load)))
    checks = [check for of_one in result if isinstance(of_one, list) for check in of_one]
    caught = rate(check["status"] == Status.FAIL.value and float(str(check["run_s"])) <= WITHIN_S for check in checks)
    figure = f"{limited}, `--quant-launches auto`, {load}: FAIL within {WITHIN_S:g} s"
    yield at_least(figure, caught, CAUGHT_AT_LEAST_PCT)


def _at_most(what: str, trials: list[Found], status: Status, most_pct: float) -> Row:
    others = ", ".join(
        f"{other.value} {having(trials, other).pct:.0f} %"
        for other in (Status.PASS, Status.FAIL, Status.INCONCLUSIVE)
        if other is not status
    )
    return at_most(what, having(trials, status), most_pct, f"; {others}")
