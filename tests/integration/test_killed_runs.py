"""A run that dies loses at most the check under way. The session is a fake."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from pytest_quant.history import open_store
from pytest_quant.sides.run import _PYTEST
from tests.integration.fake_session import PLUGIN, run_fake_apart, write_fake
from tests.support.example import ROOT

GIVE_UP_S = 300.0
FINISHED = ["test_it.py::test_one", "test_it.py::test_two"]
THREE = """
import multiprocessing, os, signal, time
from pathlib import Path

@mark.quant(output="PASS")
def test_one(): pass

@mark.quant(output="FAIL")
def test_two(): pass

@mark.quant(output="PASS")
def test_under_way():
    Path("under_way").touch()
    while not Path("go").exists():
        time.sleep(0.01)
"""
WAITING = """
import time
from pathlib import Path

def test_it():
    Path("under_way").touch()
    while True:
        time.sleep(0.01)
"""


@contextmanager
def _under_way(pytester: pytest.Pytester, *args: str) -> Iterator[subprocess.Popen[str]]:
    """Run two checks to their end and a third one up to its body, in a process group of its own."""
    write_fake(pytester.path, THREE)
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", "--quant-json=run.json", *args]
    with subprocess.Popen(
        command,
        cwd=pytester.path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            _wait(process, lambda: (pytester.path / "under_way").exists() and _all_arrived(pytester.path))
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _wait(process: subprocess.Popen[str], arrived: Callable[[], bool]) -> None:
    """Wait until `process` has done what it runs for."""
    given_up = time.monotonic() + GIVE_UP_S
    while not arrived():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < given_up, "what is waited for is not on the disk"
        time.sleep(0.01)


def _all_arrived(folder: Path) -> bool:
    """Whether both finished checks have reached the controlling process, which those of workers do a little later."""
    files = list(folder.glob(".quant/history.db.*.unfinished"))
    return bool(files) and files[0].read_bytes().count(b"\n") >= len(FINISHED)


def _stored(folder: Path) -> list[list[str]]:
    """Return the node ids of every run in the history, oldest run first."""
    return [[record.nodeid for record in records] for _, records in open_store(folder / ".quant/history.db").each_run()]


def test_what_a_killed_run_had_finished_is_added_by_the_next(pytester: pytest.Pytester) -> None:
    """Once, as a run of its own, and the next run says so; a third one finds nothing."""
    with _under_way(pytester, "-n", "2") as process:
        os.killpg(process.pid, signal.SIGKILL)
    assert not (pytester.path / ".quant/history.db").exists()
    source = "@mark.quant(output='PASS')\ndef test_next(): pass\n"
    result = run_fake_apart(pytester, source, "-n", "2")
    result.stdout.fnmatch_lines(["2 checks of 1 run that did not end well added to the history"])
    assert "did not end well" not in run_fake_apart(pytester, source).stdout.str()
    # Two workers finish in any order, and runs that began within one second have none.
    stored = sorted(sorted(run) for run in _stored(pytester.path))
    assert stored == [["test_it.py::test_next"], ["test_it.py::test_next"], FINISHED]
    parts = [run.partial for run, _ in open_store(pytester.path / ".quant/history.db").each_run()]
    assert sorted(parts) == [False, False, True]


def test_a_disk_that_takes_no_journal_is_told_and_loses_nothing(pytester: pytest.Pytester) -> None:
    """The checks are in the history at the end, as long as nobody kills the run."""
    full = "import os\nos.fdatasync = lambda _: os.write(-1, b'')\n"
    result = run_fake_apart(pytester, full + "@mark.quant(output='PASS')\ndef test_one(): pass\n")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["finished checks could not be kept on the disk while other tests ran: Bad file*"])
    assert _stored(pytester.path) == [["test_it.py::test_one"]]


def test_the_pytest_of_a_base_ends_with_a_run_that_was_killed(tmp_path: Path) -> None:
    """`--quant-against` starts it so, and nobody is left to end it."""
    (tmp_path / "test_it.py").write_text(WAITING, encoding="utf-8")
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_PYTEST!r}, 'test_it.py'])"
    with subprocess.Popen([sys.executable, "-c", start], cwd=tmp_path, text=True) as run:
        try:
            _wait(run, (tmp_path / "under_way").exists)
            (base,) = psutil.Process(run.pid).children()
        finally:
            run.kill()
    _, alive = psutil.wait_procs([base], timeout=30)
    for process in alive:
        process.kill()
    assert alive == []
