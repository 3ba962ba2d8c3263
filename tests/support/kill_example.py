"""Kill runs of the example at random moments, and see that nothing is lost or wrong afterwards.

``python -m tests.support.kill_example --times 50`` does it fifty times and prints a line for each.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from tests.support.example import ExampleRun, command, copy_example, environment, run_example

OPTIONS = ("--quant-max-time=0.5", "--quant-diagnose-time=0")
"""Latencies and advice are not what is lost or kept here, and take most of a run."""

LOCKS = "locks"
TIMED = ("min_speedup", "max_latency_ms")


@dataclass(frozen=True, slots=True)
class Kill:
    """One killed run and the one after it.

    Attributes
    ----------
    from_nothing : the killed run had no cache and no history.
    after_s : seconds after its start at which the run was killed.
    ended : it had ended by itself before that.
    engines_built : in the run after it; the others came from what the killed run had left.
    runs : in the history at the end.
    """

    from_nothing: bool
    after_s: float
    ended: bool
    engines_built: int
    runs: int


def kill_and_recover(folder: Path, times: int, seed: int, without: tuple[str, ...] = ()) -> Iterator[Kill]:
    """Kill `times` runs, each at a random moment, and check the run after each; raise `AssertionError` on a fault.

    Every second run starts from nothing, the others from what is there, so that both building and reading are hit.
    Tests whose ids are in `without` are left out of every run.
    """
    moments = random.Random(seed)  # noqa: S311 - not for secrets
    project = copy_example(folder)
    options = (*OPTIONS, *(f"--deselect={nodeid}" for nodeid in without))
    started = time.monotonic()
    expected = outcome(run_example(project, *options, locks=project / LOCKS))
    longest_s = time.monotonic() - started
    killed: set[str] = set()
    for index in range(times):
        from_nothing = index % 2 == 0
        if from_nothing:
            rmtree(project / ".quant")
        before = stored_runs(project)
        after_s = moments.uniform(0.0, longest_s if from_nothing else longest_s / 2)
        ended = run_and_kill(project, after_s, options)
        kept = stored_runs(project)
        check_history(project, before, kept, killed)
        run = run_example(project, *options, locks=project / LOCKS)
        assert outcome(run) == expected, run.output
        now = stored_runs(project)
        own = run.document["run"]["id"]
        killed |= now.keys() - kept.keys() - {own}
        assert own in now.keys() - kept.keys(), "the run after the kill is not stored"
        assert len(now.keys() - kept.keys()) <= 2, "more than that run and what the killed one had finished"
        check_history(project, kept, now, killed)
        if not from_nothing or index + 1 == times:
            # The run before the killed one left a whole cache, or this is the last moment to look at it.
            check_cache(run if not from_nothing else run_example(project, *options, locks=project / LOCKS))
        built = sum(check["cache"]["engine"] == "built" for check in run.document["checks"])
        yield Kill(from_nothing, after_s, ended, built, len(now))


def run_and_kill(project: Path, after_s: float, options: Sequence[str]) -> bool:
    """Start a run, kill it and all its children with signal 9, and tell whether it had ended before."""
    process = subprocess.Popen(
        command(*options),
        cwd=project,
        env=environment(project / LOCKS),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False
    return True


def outcome(run: ExampleRun) -> dict[str, object]:
    """Return everything about a run that does not depend on time, and check that it is whole.

    Timed so shortly, a limit on time may stay open, which a strict xfail counts as a failure (exit code 1).
    """
    assert run.returncode in (0, 1), run.output
    assert not {"ERROR", "UNAVAILABLE"} & {check["status"] for check in run.document["checks"]}, run.output
    nodeids = Counter(check["nodeid"] for check in run.document["checks"])
    assert set(nodeids.values()) == {1}, nodeids
    return {
        check["nodeid"]: (
            check["accuracy"],
            check["coverage"],
            check["resources"]["size_mb"],
            [(verdict["limit"], verdict["status"]) for verdict in check["verdicts"] if verdict["limit"] not in TIMED],
        )
        for check in run.document["checks"]
    }


def stored_runs(project: Path) -> dict[str, Counter[str]]:
    """Return the test of every stored record by run, read from the database itself; nothing when there is none."""
    file = project / ".quant" / "history.db"
    if not file.exists():
        return {}
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        known = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"quant_runs", "quant_records"} <= known:
            return {}
        names = dict(database.execute("SELECT number, id FROM quant_runs"))
        rows = database.execute("SELECT run, record FROM quant_records").fetchall()
    runs: dict[str, Counter[str]] = {name: Counter() for name in names.values()}
    for number, record in rows:
        runs[names[number]][json.loads(zlib.decompress(record))["nodeid"]] += 1
    return runs


def check_history(
    project: Path, before: dict[str, Counter[str]], now: dict[str, Counter[str]], killed: set[str]
) -> None:
    """Nothing that was stored is gone, each record is there once, and every run that was not killed is whole."""
    assert before.items() <= now.items(), "a stored run has changed or is gone"
    for run_id, records in now.items():
        assert set(records.values()) == {1}, (run_id, records)
        whole = len(records) == max(len(other) for other in now.values())
        assert whole or run_id in killed, f"{project}: run {run_id} is not whole"


def check_cache(run: ExampleRun) -> None:
    """Every entry of the cache could be read, and the run built none of them again."""
    sources = {(check["cache"]["engine"], check["cache"]["reference"]) for check in run.document["checks"]}
    assert sources == {("hit", "hit")}, run.output


def main(show: Callable[[str], object] = print) -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    arguments = parser.parse_args()
    show(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory() as folder:
        for number, kill in enumerate(kill_and_recover(Path(folder), arguments.times, arguments.seed), 1):
            start = "from nothing" if kill.from_nothing else "with a cache"
            moment = "ended before" if kill.ended else f"killed after {kill.after_s:.1f} s"
            show(f"{number}: {start}, {moment}; then {kill.engines_built} built, {kill.runs} runs stored, all right")


if __name__ == "__main__":
    main()
