"""The history answers at once with 200 000 records in it, in little memory, and takes little room."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_quant.history import open_store
from pytest_quant.stats.ratio import Estimate
from tests.benchmarks.conftest import Large
from tests.benchmarks.history_records import CHECKS, LOSING_TEST, RECORDS, SLOW_TEST, name_of, records_of, run_of
from tests.benchmarks.limits import at_most
from tests.benchmarks.yardstick import TURNS, beside_yardstick, median_interval
from tests.support.example import environment

MAX_COMPARE_S, MAX_SERIES_S = 1.0, 0.5
MAX_APPEND_MS, APPENDED = 100.0, 100
MAX_BYTES = 2_500
MAX_PEAK_MB = 200.0
YARDSTICK_S = 0.25
"""Of the yardstick, by the clock, where the limits hold."""

COMMAND = """
import atexit, sys

def tell():
    (peak,) = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
    print(int(peak) * 1024 / 1e6, file=sys.stderr)

atexit.register(tell)
from pytest_quant.cli import main
main()
"""
"""The command as its entry point starts it; says at its end its peak memory."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One command: its seconds, megabytes at the peak, and what it printed."""

    whole_s: float
    peak_mb: float
    output: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A command in turns with the yardstick: its fastest turn, the highest peak, and the seconds that are judged."""

    fastest: Timed
    peak_mb: float
    seconds: Estimate

    def __str__(self) -> str:
        """How long it took by the clock, and on a machine where the limits hold."""
        fastest, judged = self.fastest, self.seconds
        where = f"where the limits hold {judged.value:.2f} s [{judged.low:.2f}, {judged.high:.2f}]"
        return f"{fastest.whole_s:.2f} s; {where}"


def timed(root: Path, *arguments: str, allowed: Sequence[int] = (0,)) -> Judged:
    """Run ``pytest-quant`` in the repository, in turns with the yardstick."""
    result: list[Timed] = []
    seconds = beside_yardstick(
        lambda: result.append(_once(root, arguments, allowed)),
        compiled(root),
        YARDSTICK_S,
        clock=time.perf_counter,
    )
    return Judged(min(result, key=lambda each: each.whole_s), max(each.peak_mb for each in result), seconds)


def compiled(folder: Path) -> dict[str, str]:
    """Return the environment of a user, whose modules are compiled since the first start; kept out of the checkout."""
    variables = environment()
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return variables | {"PYTHONPYCACHEPREFIX": str(folder.parent / "compiled")}


def _once(root: Path, arguments: Sequence[str], allowed: Sequence[int]) -> Timed:
    started = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        cwd=root,
        env=compiled(root),
        capture_output=True,
        text=True,
        check=False,
    )
    whole_s = time.perf_counter() - started
    assert result.returncode in allowed, result.stdout + result.stderr
    return Timed(whole_s, float(result.stderr.splitlines()[-1]), result.stdout)


def test_compare_is_fast_and_small(large: Large, show: Callable[[str], None]) -> None:
    """One second and 200 MB at the most, and what it names is exactly what was planted."""
    result = timed(large.root, "compare", "--history", str(large.place), allowed=(1,))
    show(f"{RECORDS} records written in {large.seconds:.0f} s by two processes")
    show(f"compare: {result}, peak {result.peak_mb:.0f} MB")
    answer = _once(large.root, ("compare", "--json", "--history", str(large.place)), allowed=(1,)).output
    rows = json.loads(answer)["rows"]
    regressions = {(row["nodeid"], row["quantity"]) for row in rows if row["outcome"] == "regression"}
    assert regressions == {
        (f"test_models.py::{name_of(SLOW_TEST)}", "speedup"),
        (f"test_models.py::{name_of(SLOW_TEST)}", "p50"),
        (f"test_models.py::{name_of(LOSING_TEST)}", "accuracy"),
    }
    at_most(result.seconds, MAX_COMPARE_S, "seconds of compare")
    at_most(result.peak_mb, MAX_PEAK_MB, "megabytes of compare")


def test_one_series_is_fast(large: Large, show: Callable[[str], None]) -> None:
    """Half a second at the most for a series of 10 000 points."""
    result = timed(large.root, "history", name_of(0), "--history", str(large.place))
    show(f"history SERIES: {result}")
    assert name_of(0) in result.fastest.output
    at_most(result.seconds, MAX_SERIES_S, "seconds of history SERIES")


def test_a_record_takes_little_room_and_appending_little_time(large: Large, show: Callable[[str], None]) -> None:
    """At most 2.5 kB in the database, and 100 ms for a hundred records."""
    size = large.place.stat().st_size
    store, trials = open_store(large.place), []
    for trial in range(TURNS):
        run = replace(run_of(large.commits, 0, 0), id=f"appended-{trial}", commit=None)
        records = [record for launch in range(APPENDED // CHECKS) for record in records_of(0, launch)]
        started = time.perf_counter()
        assert store.append(run, records)
        trials.append(1e3 * (time.perf_counter() - started))
    result = median_interval(trials)
    show(f"append of {APPENDED} records: {result.value:.0f} ms; {size / RECORDS:.0f} bytes for each of {RECORDS}")
    at_most(result, MAX_APPEND_MS, "milliseconds of an append")
    assert size / RECORDS <= MAX_BYTES
