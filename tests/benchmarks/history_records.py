"""A history of 10 000 runs of 20 checks each, written through the public API.

The records are those of the unit tests, with latencies that vary by known factors. The history has 2 000 commits of a
branch ``main`` with five launches each; the last one belongs to the branch ``feature``, where one test is slower and
another loses samples. Two processes write at once: encoding takes most of the time.
"""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from pytest_quant.history import open_store
from pytest_quant.record import Record, Run
from tests.unit.history.compare.launched import answered, answers, record_of, timed
from tests.unit.record.examples import RUN

COMMITS, LAUNCHES, CHECKS = 2_000, 5, 20
RECORDS = COMMITS * LAUNCHES * CHECKS
SLOWER = 1.2
LOST = 60
SLOW_TEST, LOSING_TEST = 3, 7
WRITERS = 2

_VARIANTS = 16
_NOISE = 0.01
_START = datetime(2024, 1, 1, tzinfo=UTC)


def name_of(number: int) -> str:
    """Return the name of a test of the history."""
    return f"test_model_{number:02}"


@cache
def _times_ms() -> np.ndarray:
    return np.exp(np.random.default_rng(0).normal(0.0, _NOISE, (CHECKS, _VARIANTS)))


@cache
def _record(number: int, variant: int, slower: float = 1.0) -> Record:
    record = record_of(f"test_models.py::{name_of(number)}", latency=True)
    return timed(record, slower * float(_times_ms()[number, variant]))


def records_of(commit: int, launch: int) -> list[Record]:
    """Return the records of one launch of one commit; the last commit has the two planted changes."""
    variants = [(commit * LAUNCHES + launch * 7 + number * 3) % _VARIANTS for number in range(CHECKS)]
    result = [_record(number, variant) for number, variant in enumerate(variants)]
    if commit == COMMITS - 1:
        result[SLOW_TEST] = _record(SLOW_TEST, variants[SLOW_TEST], SLOWER)
        result[LOSING_TEST] = answered(result[LOSING_TEST], answers(range(LOST)))
    return result


def run_of(commits: list[str], commit: int, launch: int) -> Run:
    """Return the run of that launch; there is one every hour."""
    started = _START + timedelta(hours=commit * LAUNCHES + launch)
    return replace(
        RUN,
        id=f"{started:%Y%m%dT%H%M%SZ}-{commit:08x}{launch:04x}",
        started_at=started.isoformat(),
        commit=commits[commit],
        branch="feature" if commit == COMMITS - 1 else "main",
    )


def make_commits(root: Path) -> list[str]:
    """Make a git repository with the commits, ``feature`` checked out; returns their ids, the oldest first."""
    root.mkdir(parents=True)
    _git(root, "init", "-q", "-b", "main")
    stream = []
    for number in range(COMMITS):
        branch = "feature" if number == COMMITS - 1 else "main"
        stream.append(f"commit refs/heads/{branch}\nmark :{number + 1}\n")
        stream.append(f"committer A User <user@example.invalid> {1704067200 + 3600 * number} +0000\ndata 0\n")
        stream.append(f"from :{number}\n\n" if number else "\n")
    _git(root, "fast-import", "--quiet", text="".join(stream))
    _git(root, "symbolic-ref", "HEAD", "refs/heads/feature")
    return _git(root, "rev-list", "--reverse", "feature").split()


def _git(root: Path, *arguments: str, text: str | None = None) -> str:
    environment = os.environ | {"LC_ALL": "C"}
    command = ("git", *arguments)
    return subprocess.run(
        command, cwd=root, input=text, capture_output=True, text=True, check=True, env=environment
    ).stdout


def fill(place: Path, commits: list[str]) -> None:
    """Write the whole history to `place`, a new file."""
    open_store(place)
    with ProcessPoolExecutor(WRITERS, get_context("spawn")) as pool:
        list(pool.map(partial(_write_share, place, commits), range(WRITERS)))


def _write_share(place: Path, commits: list[str], first: int) -> None:
    open_store(place).append_many(
        (run_of(commits, commit, launch), records_of(commit, launch))
        for commit in range(first, COMMITS, WRITERS)
        for launch in range(LAUNCHES)
    )
