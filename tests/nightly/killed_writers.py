"""Kill whoever writes a history at random moments, and see that it is whole and takes the next run.

By turns a process that appends to SQLite and to PostgreSQL, the server, and one that creates the tables in either.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store
from pytest_quant.history.store import Store
from pytest_quant.record import Record, Run
from tests.support.postgres import PostgresServer
from tests.unit.record.examples import RUN, a_pass, a_record

_ROOT = Path(__file__).parents[2]
_LONGEST_S = 0.4
_RECORDS = (a_record(), a_pass(), a_record())


class Killer:
    """Does the kills; `server` is its own, since it dies too."""

    def __init__(self, folder: Path, server: PostgresServer, seed: int) -> None:
        self._folder = folder
        self._server = server
        self._random = random.Random(seed)  # noqa: S311 - not for secrets
        self._places = {"writer to SQLite": str(folder / "history.db"), "writer to PostgreSQL": server.new_database()}
        self._places["PostgreSQL"] = server.new_database()
        self._known: dict[str, set[str]] = {place: set() for place in self._places.values()}
        for place in self._places.values():
            open_store(place)
        self._creators = {"creator in SQLite": self._new_file, "creator in PostgreSQL": server.new_database}
        self._creation_s = {victim: _time_creation(place()) for victim, place in self._creators.items()}

    def kill(self, times: int) -> Iterator[tuple[str, bool]]:
        """Kill so often, each victim in its turn; yield the victim, and whether its work was done before the kill.

        Raises
        ------
        AssertionError : a history is not as it must be.
        """
        turns = [*self._places, *self._creators]
        for number in range(times):
            victim = turns[number % len(turns)]
            if victim in self._creators:
                yield victim, self._kill_creator(victim)
            else:
                self._kill_writing(victim, self._places[victim], f"{number}")
                yield victim, False

    def _kill_writing(self, victim: str, place: str, name: str) -> None:
        process = _start("append", place, name)
        time.sleep(self._random.uniform(0.0, _LONGEST_S))
        if victim == "PostgreSQL":
            self._server.kill()
            told = _finish(process)
            assert process.returncode == 3, f"the writer ended with {process.returncode}, not with our error"
            self._server.start()
        else:
            process.send_signal(signal.SIGKILL)
            told = _finish(process)
        store = open_store(place)
        stored = {run.id: records for run, records in store.each_run()}
        reported = {f"{name}-{index}" for index in range(len(told))}
        self._known[place] |= reported
        assert self._known[place] <= stored.keys(), f"{victim}: {self._known[place] - stored.keys()} are gone"
        assert all(records == _RECORDS for records in stored.values()), f"{victim}: a run is stored in part"
        # One more than was reported may be there: it was stored, and the process died before it could say so.
        assert len(stored) - len(self._known[place]) in (0, 1), f"{victim}: runs that nobody wrote"
        _takes_the_next_run(store, f"{name}-next")
        self._known[place] = {*stored, f"{name}-next"}

    def _kill_creator(self, victim: str) -> bool:
        place = self._creators[victim]()
        process = _start("open", place, "")
        time.sleep(self._random.uniform(0.0, self._creation_s[victim]))
        process.send_signal(signal.SIGKILL)
        ended = bool(_finish(process))
        store = open_store(place)
        assert store.runs() == [], f"{victim}: runs that nobody wrote"
        _takes_the_next_run(store, "next")
        return ended

    def _new_file(self) -> str:
        return str(self._folder / f"{self._random.getrandbits(32):x}" / "history.db")


def _time_creation(place: str) -> float:
    process = _start("open", place, "")
    started = time.monotonic()
    assert _finish(process) == ["done\n"]
    return time.monotonic() - started


def _named(name: str) -> Run:
    return replace(RUN, id=name)


def _start(work: str, place: str, name: str) -> subprocess.Popen[str]:
    """Start a process that works, and wait until it begins."""
    command = [sys.executable, "-m", "tests.nightly.killed_writers", work, place, name]
    process = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    return process


def _finish(process: subprocess.Popen[str]) -> list[str]:
    """Wait for the end and return the lines that were written whole."""
    return [line for line in process.communicate()[0].splitlines(keepends=True) if line.endswith("\n")]


def _takes_the_next_run(store: Store, name: str) -> None:
    before = len(store.runs())
    records: list[Record] = list(_RECORDS)
    assert store.append(_named(name), records) is True
    assert store.append(_named(name), records) is False
    assert store.records(name) == records
    assert len(store.runs()) == before + 1


def _work(work: str, place: str, name: str) -> int:
    """What a victim does: append runs until it dies, or open a history once. 3 says that the history failed."""
    _tell("begins\n")
    try:
        store = open_store(place)
        for index in range(1_000_000 if work == "append" else 0):
            store.append(_named(f"{name}-{index}"), _RECORDS)
            _tell(f"{index}\n")
    except HistoryError:
        return 3
    _tell("done\n")
    return 0


def _tell(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(_work(*sys.argv[1:]))
