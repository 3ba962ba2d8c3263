"""The history of 200 000 records that several benchmarks read."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.benchmarks.history_records import fill, make_commits


@dataclass(frozen=True, slots=True)
class Large:
    """The large history at `place`, the git repository whose commits it holds, and what made it."""

    place: Path
    root: Path
    commits: list[str]
    seconds: float


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Large:
    """Generated once, for all benchmarks."""
    folder = tmp_path_factory.mktemp("large")
    commits = make_commits(folder / "repository")
    place, started = folder / "history.db", time.perf_counter()
    fill(place, commits)
    seconds = time.perf_counter() - started
    connection = sqlite3.connect(place)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return Large(place, folder / "repository", commits, seconds)
