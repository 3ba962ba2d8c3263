"""The history of a fleet in PostgreSQL: ``python -m tests.benchmarks.fleet_history`` prints what each command takes.

Twenty suites of a hundred tests share one database. Each run holds the hundred records of a suite, each commit has two
runs. The last commits of the first suite are those of a git repository, and their records were written by
`Store.append_many`; all other rows are made in the database, out of a few records that they share. Everything lies in a
temporary folder, which is removed. The seconds of a command are those of a machine where the limits hold, see
`beside_yardstick`; those of an append are by the clock.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import chain
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import click
import numpy as np
import psycopg
from sqlalchemy import insert

from pytest_quant.history import open_store
from pytest_quant.history.connect import SERIES, open_engine, writing
from pytest_quant.history.rows import pack, run_row
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.history.writing import prune
from pytest_quant.record import Encoded, Record, Run, encoded
from pytest_quant.spec import SeriesKey
from tests.benchmarks.history_records import make_commits
from tests.benchmarks.test_history_speed import YARDSTICK_S, compiled
from tests.benchmarks.yardstick import beside_yardstick
from tests.support.postgres import PostgresServer, find_programs
from tests.unit.history.compare.launched import record_of, timed
from tests.unit.record.examples import RUN, with_latency

SUITES, CHECKS, LAUNCHES = 20, 100, 2
SLOW_TEST, SLOWER = 3, 1.2
KNOWN_COMMITS = 60
"""Commits of the git repository with records: more than any comparison looks at."""

WRITERS, PRUNED_RECORDS, PRUNE_WRITERS = 64, 100_000, 8
MAX_COMPARE_S, MAX_APPEND_S = 2.0, 1.0

_VARIANTS = 16
_PAUSE_S = 1.0
_LATER = 1_000_000
"""Number of the first run that is appended, after all that are there."""
_START = datetime(2024, 1, 1, tzinfo=UTC)
_RUN_EVERY = timedelta(minutes=8)
_SERVER = ("shared_buffers=1GB", "fsync=on", "max_connections=200", "max_wal_size=4GB", "autovacuum_naptime=10s")
_FILLING = ("wal_level=minimal", "max_wal_senders=0", "maintenance_work_mem=512MB")
_EXPLAINING = (
    *("shared_preload_libraries=auto_explain", "auto_explain.log_min_duration=100ms", "auto_explain.log_timing=off"),
    "auto_explain.log_analyze=on",
)
_SCAN = re.compile(r"((?:Parallel )?\S+ (?:Only )?Scan\S* .*?)  \(cost.*?actual rows=(\d+) loops=(\d+)")


def record(number: int, variant: int, slower: float = 1.0) -> Record:
    """A record of one of the tests, with a latency that varies by a known factor."""
    name = f"suite_{number // CHECKS:02}/test_models.py::test_model_{number % CHECKS:03}"
    return timed(record_of(name, latency=True), slower * float(_times_ms()[number % CHECKS, variant]))


@cache
def _times_ms() -> np.ndarray:
    return np.exp(np.random.default_rng(0).normal(0.0, 0.01, (CHECKS, _VARIANTS)))


def run_at(number: int, commit: str | None, branch: str = "main") -> Run:
    """The run that started as the one with this number."""
    started = _START + number * _RUN_EVERY
    name = f"{started:%Y%m%dT%H%M%SZ}-{number:012x}"
    return replace(RUN, id=name, started_at=started.isoformat(), commit=commit, branch=branch)


def known_runs(first: int, commits: Sequence[str]) -> Iterator[tuple[Run, list[Record]]]:
    """Yield the runs of the commits of the repository, in the last of which one test is slower."""
    variants = [[record(test, variant) for variant in range(_VARIANTS)] for test in range(CHECKS)]
    for at, commit in enumerate(commits):
        for launch in range(LAUNCHES):
            records = [variants[test][(at * 5 + launch * 7 + test * 3) % _VARIANTS] for test in range(CHECKS)]
            if commit == commits[-1]:
                records[SLOW_TEST] = record(SLOW_TEST, launch, SLOWER)
            branch = "feature" if commit == commits[-1] else "main"
            yield run_at(first + at * LAUNCHES + launch, commit, branch), records


_FILL = """
TRUNCATE quant_runs, quant_checks, quant_records;
INSERT INTO quant_runs (number, id, started_at, commit, branch, dirty, run, tree)
SELECT number, id, at, commit, branch, false, replace(replace(replace(replace(%(run)s::text,
        %(id)s, id), %(at)s, at), %(commit)s, commit), '"branch":"main"', '"branch":"' || branch || '"'),
    md5(commit) || '00000000'
FROM (SELECT number, to_char(at, 'YYYYMMDD"T"HH24MISS"Z-"') || lpad(to_hex(number), 12, '0') AS id,
        to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"') AS at,
        md5((number / %(launches)s)::text) || '00000000' AS commit,
        CASE WHEN number %% 4 < 2 THEN 'main' ELSE 'topic-' || number %% 997 END AS branch
    FROM (SELECT number, (timestamp '2024-01-01' + number * interval '%(minutes)s minutes') AS at
        FROM generate_series(1, %(runs)s) AS number) AS numbers) AS runs;
INSERT INTO quant_checks (run, position, series, started_at, status, figures)
SELECT number, position, 1 + position + (number / %(launches)s %% %(suites)s) * %(checks)s, started_at, 'PASS', figures
FROM quant_runs CROSS JOIN generate_series(0, %(checks)s - 1) AS position
    JOIN shared ON variant = (number * 7 + position * 3) %% %(variants)s;
INSERT INTO quant_records (run, position, record)
SELECT number, position, CASE WHEN number <= %(old)s THEN long ELSE short END
FROM quant_runs CROSS JOIN generate_series(0, %(checks)s - 1) AS position
    JOIN shared ON variant = (number * 7 + position * 3) %% %(variants)s;
"""


def fill(server: PostgresServer, url: str, records: int, commits: Sequence[str]) -> None:
    """Fill an empty history with so many records, those of `commits` as the last of them."""
    engine, _ = open_engine(url)
    every = [record(number, 0) for number in range(SUITES * CHECKS)]
    keys = [SeriesKey.parse(each.series) for each in every]
    with writing(engine) as connection:
        connection.execute(insert(SERIES), [{"digest": key.digest, "key": key.text} for key in keys])
    runs = records // CHECKS - len(commits) * LAUNCHES
    template = str(run_row(RUN)["run"])
    values = {
        "run": template,
        "id": RUN.id,
        "at": RUN.started_at,
        "commit": RUN.commit,
        "launches": LAUNCHES,
        "minutes": int(_RUN_EVERY.total_seconds() // 60),
        "runs": runs,
        "suites": SUITES,
        "checks": CHECKS,
        "variants": _VARIANTS,
        "old": PRUNED_RECORDS // CHECKS,
    }
    with psycopg.connect(server.address(url), cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("CREATE TEMPORARY TABLE shared (variant integer, figures text, long bytea, short bytea)")
        connection.cursor().executemany("INSERT INTO shared VALUES (%s, %s, %s, %s)", map(_shared, range(_VARIANTS)))
        # Indexes of rows in no order are built faster when the rows are there.
        indexes = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE indexname LIKE 'quant_checks_by%'"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}".encode())
        connection.execute(_FILL, values)
        for _, definition in indexes:
            connection.execute(str(definition).encode())
        connection.execute("SELECT setval('quant_runs_number_seq', %s)", [runs])
    open_store(url).append_many(known_runs(runs + 1, commits))
    with psycopg.connect(server.address(url), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _shared(variant: int) -> tuple[int, str, bytes, bytes]:
    """A summary, a record with its rounds, and one that was thinned, without what takes most of its room."""
    made = record(0, variant)
    assert made.latency is not None
    rounds = tuple(float(each) for each in _times_ms()[:20, variant].round(4))
    long = with_latency(made, round_p50_ms=dict.fromkeys(("reference", "null", "candidate"), rounds))
    short = replace(made, accuracy=None, verdicts=(), coverage=None)
    return variant, CheckSummary.of(RUN, made).figures, pack(long), pack(short)


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the table; `most_s` is the limit of `seconds`, ``None`` for none, and `note` says more."""

    name: str
    seconds: float
    most_s: float | None = None
    note: str = ""

    def __str__(self) -> str:
        """The row, as Markdown."""
        reached = "-" if self.most_s is None else "yes" if self.seconds <= self.most_s else "NO"
        limit = "-" if self.most_s is None else f"<= {self.most_s:g} s"
        return f"| {self.name} | {limit} | {self.seconds:.2f} s | {reached} | {self.note} |"


def command(server: PostgresServer, root: Path, url: str, *words: str, most_s: float | None = None) -> Figure:
    """Time a command in turns with the yardstick, and name the scan of most rows of its statements above 100 ms."""
    seconds: list[float] = []

    def run() -> None:
        line = [sys.executable, "-c", "from pytest_quant.cli import main; main()", *words, "--history", url]
        started = time.perf_counter()
        done = subprocess.run(line, cwd=root, env=compiled(root), capture_output=True, text=True, check=False)
        seconds.append(time.perf_counter() - started)
        if done.returncode not in (0, 1) or "Traceback" in done.stderr:
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")

    log = server.folder / "log"
    before = log.stat().st_size
    judged = beside_yardstick(run, compiled(root), YARDSTICK_S, clock=time.perf_counter)
    scans = [(int(rows) * int(loops), scan) for scan, rows, loops in _SCAN.findall(log.read_bytes()[before:].decode())]
    slow = "".join(f"; {scan}: {rows} rows" for rows, scan in sorted(scans)[-1:])
    shown = " ".join(word if len(word) < 40 else f"{word[:37]}..." for word in words)
    clock = f"by the clock {min(seconds):.2f} s at best, {statistics.median(seconds):.2f} s in the median"
    return Figure(f"`{shown}`", judged.value, most_s, clock + slow)


def commands(server: PostgresServer, root: Path, url: str) -> Iterator[Figure]:
    """Time what people ask of a history."""
    store = open_store(url)
    own, other = store.runs(limit=2)
    timed_command = partial(command, server, root, url)
    yield timed_command("compare", most_s=MAX_COMPARE_S)
    yield timed_command("compare", "--json", other.run.id, own.run.id)
    yield timed_command("report", "-o", str(root.parent / "page.html"))
    yield timed_command("history")
    yield timed_command("history", "--branch", "topic-8")
    yield timed_command("history", own.run.id[:20])
    yield timed_command("history", "suite_00", "test_model_003")
    yield timed_command("history", "--series")
    yield timed_command("history", "changes", "suite_00", "test_model_003")
    yield timed_command("history", "export", str(root.parent / "one.jsonl"), "--run", "last")


Appended = list[tuple[float, bool]]


def _append(url: str, runs: Sequence[tuple[Run, Sequence[Encoded]]], start: Barrier, until: Event | None) -> Appended:
    store = open_store(url)
    start.wait()
    times: Appended = []
    while True:
        for run, records in runs:
            again = run if until is None else replace(run, id=f"{run.id}-{len(times)}")
            started = time.perf_counter()
            stored = store.append(again, records)
            times.append((time.perf_counter() - started, stored))
        if until is None or until.wait(_PAUSE_S):
            return times


@contextmanager
def writers(url: str, number: int, most: int, until: Event | None = None) -> Iterator[list[float]]:
    """Let so many processes append at once; the list has the seconds of each append in the end.

    Parameters
    ----------
    number : of processes.
    most : records of a run.
    until : append once in a second until it is set; ``None`` appends 100 records each.
    """
    context = multiprocessing.get_context("fork")
    start = context.Barrier(number + 1)
    records = [[encoded(record(test, writer % _VARIANTS)) for test in range(100)] for writer in range(_VARIANTS)]
    shares = [
        [
            (
                run_at(_LATER + writer, f"{writer:040x}", f"w-{most}-{number}-{at}"),
                records[writer % _VARIANTS][at : at + most],
            )
            for at in range(0, 100, most)
        ]
        for writer in range(number)
    ]
    for share in shares:
        share[:] = [(replace(run, id=f"{run.id}-{run.branch}"), each) for run, each in share]
    queue = context.SimpleQueue()
    processes = [
        context.Process(target=lambda share: queue.put(_append(url, share, start, until)), args=(share,))
        for share in shares
    ]
    # What is frozen is not copied into each process by the first collection there.
    gc.freeze()
    for process in processes:
        process.start()
    start.wait()
    result: list[float] = []
    yield result
    stored = [pair for _ in processes for pair in queue.get()]
    for process in processes:
        process.join()
    assert all(was_new for _, was_new in stored)
    result += [seconds for seconds, _ in stored]


def appending(server: PostgresServer, url: str) -> Iterator[Figure]:
    """Time appends of 64 writers at once, 100 records each, and count what is there."""
    for most in (1, 10, 100):
        before = _count(server, url)
        with writers(url, WRITERS, most) as seconds:
            pass
        added = _count(server, url) - before
        assert added == WRITERS * 100, added
        note = f"{len(seconds)} appends, median {statistics.median(seconds):.2f} s by the clock; {added} records added"
        yield Figure(f"64 writers x 100 records, {most} in an append, p99", _p99(seconds), MAX_APPEND_S, note)


def pruning(server: PostgresServer, url: str) -> Iterator[Figure]:
    """Time appends and reads while the oldest records are thinned."""
    runs = _ask(server, url, "SELECT count(*) FROM quant_runs")
    until = multiprocessing.get_context("fork").Event()
    reads: list[float] = []
    with writers(url, PRUNE_WRITERS, 100, until) as seconds:
        started = time.perf_counter()
        process = multiprocessing.get_context("fork").Process(
            target=_prune, args=(url, runs - PRUNED_RECORDS // CHECKS)
        )
        process.start()
        store = open_store(url)
        while process.is_alive():
            before = time.perf_counter()
            store.runs(limit=20)
            reads.append(time.perf_counter() - before)
            process.join(0.2)
        whole_s = time.perf_counter() - started
        until.set()
    assert process.exitcode == 0
    note = f"{len(seconds)} appends of 100, p99 of {len(reads)} reads {_p99(reads):.2f} s; pruned in {whole_s:.0f} s"
    yield Figure("8 writers during a prune of 10^5 records, p99 of an append", _p99(seconds), MAX_APPEND_S, note)
    started = time.perf_counter()
    assert prune(url, runs - PRUNED_RECORDS // CHECKS)[1] >= 0
    yield Figure("the same prune again", time.perf_counter() - started)


def _prune(url: str, keep_runs: int) -> None:
    assert prune(url, keep_runs)[1] >= PRUNED_RECORDS


def _p99(seconds: Sequence[float]) -> float:
    return float(np.quantile(seconds, 0.99, method="higher"))


def _ask(server: PostgresServer, url: str, question: str) -> int:
    with psycopg.connect(server.address(url)) as connection:
        ((number,),) = connection.execute(question.encode()).fetchall()
    return int(number)


def _count(server: PostgresServer, url: str) -> int:
    return _ask(server, url, "SELECT count(*) FROM quant_records")


def main() -> None:
    """Fill a database, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=float, default=1e7, help="in the database")
    records = int(parser.parse_args().records)
    programs = find_programs()
    if programs is None:
        raise SystemExit("PostgreSQL's server is not installed; apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="quant-fleet-"))
    server = PostgresServer(programs)
    try:
        commits = make_commits(folder / "repository")[-KNOWN_COMMITS:]
        server.start(*_SERVER, *_FILLING)
        url = server.new_database()
        started = time.perf_counter()
        fill(server, url, records, commits)
        server.stop()
        server.start(*_SERVER, *_EXPLAINING)
        size = _ask(server, url, "SELECT pg_database_size(current_database())")
        click.echo(
            f"{_count(server, url)} records, {size / 1e9:.1f} GB, filled in {time.perf_counter() - started:.0f} s\n"
        )
        click.echo("| figure | must reach | got | reached | note |\n| --- | --- | --- | --- | --- |")
        for figure in commands(server, folder / "repository", url):
            click.echo(str(figure))
        # To explain statements takes time, too.
        server.stop()
        server.start(*_SERVER)
        for figure in chain(appending(server, url), pruning(server, url)):
            click.echo(str(figure))
    finally:
        server.remove()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
