"""Several processes, and processes that die, leave a whole history."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_quant.history import open_store

_ROOT = Path(__file__).parents[3]

_APPEND = """
import sys
from dataclasses import replace
from pytest_quant.history import open_store
from tests.unit.record.examples import RUN, a_pass, a_record
for number in range(int(sys.argv[3])):
    open_store(sys.argv[1]).append(replace(RUN, id=f"{sys.argv[2]}-{number}"), [a_record(), a_pass()])
    print(number, flush=True)
"""


def _start(place: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _APPEND, str(place), name, str(count)]
    return subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True)


def test_every_process_gets_in(tmp_path: Path) -> None:
    """Six at once, the file and its tables not there yet."""
    place = tmp_path / ".quant" / "history.db"
    processes = [_start(place, str(index), 5) for index in range(6)]
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * 6
    store = open_store(place)
    assert len(store.runs()) == 30
    assert len(store.checks()) == 60


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")
def test_a_killed_process_leaves_whole_runs(tmp_path: Path) -> None:
    """Every run that was reported is there with both its records, and the next process goes on."""
    place = tmp_path / ".quant" / "history.db"
    reported = 0
    for lines in (1, 4, 6):
        process = _start(place, str(lines), 10_000)
        assert process.stdout is not None
        for _ in range(lines):
            reported += bool(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.communicate()[0]
        reported += sum(line.endswith("\n") for line in rest.splitlines(keepends=True))
    store = open_store(place)
    assert len(store.runs()) >= reported
    assert [sum(stored.counts.values()) for stored in store.runs()] == [2] * len(store.runs())
