"""Processes of their own: their answers, and that none is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from pytest_quant.backends.child_process import ChildError, call_in_child, end_children


def start_child(pipe: str) -> None:
    """Start a process that waits for ever, write its number into `pipe`, and wait for it."""
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    Path(pipe).write_text(str(child.pid), encoding="utf-8")
    child.wait()


def test_a_call_returns_its_value_and_what_was_written() -> None:
    """In a process whose environment can be given."""
    assert call_in_child(divmod, 7, 2) == ((3, 1), "")
    assert call_in_child(os.write, 2, b"a warning") == (9, "a warning")
    value, _ = call_in_child(os.getenv, "GIVEN", environment={**os.environ, "GIVEN": "here"})
    assert value == "here"
    assert call_in_child(os.getpid)[0] != os.getpid()


def test_what_a_call_raises_is_handed_back() -> None:
    """The exception itself, with its traceback as text."""
    with pytest.raises(ChildError, match="invalid literal") as caught:
        call_in_child(int, "seven")
    assert isinstance(caught.value.error, ValueError)
    assert "Traceback" in caught.value.said


@pytest.mark.parametrize(
    ("function", "argument", "how"),
    [
        (signal.raise_signal, signal.SIGSEGV, "crashed (SIGSEGV)"),
        (sys.exit, 3, "ended with exit code 3"),
        (time.sleep, 60, "took more than 0.05 s, and was ended"),
    ],
)
def test_a_call_whose_process_dies(function: Callable[[int], object], argument: int, how: str) -> None:
    """The one that called lives to say how."""
    with pytest.raises(ChildError) as caught:
        call_in_child(function, argument, limit_s=0.05 if function is time.sleep else 600)
    assert (caught.value.error, caught.value.how) == (None, how)


def test_one_that_takes_too_long_is_ended() -> None:
    """Nothing of it is left."""
    with pytest.raises(ChildError):
        call_in_child(time.sleep, 61, limit_s=0.5)
    assert not [child for child in psutil.Process().children() if "backends.apart" in " ".join(child.cmdline())]
    assert not end_children()


def test_another_thread_ends_it_with_what_it_started(tmp_path: Path) -> None:
    """The one that called is answered, with the signal; the child is gone too, though nobody signalled it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(call_in_child, start_child, str(pipe))
        child = psutil.Process(int(pipe.read_text()))
        assert end_children()
        assert isinstance(ended := waiting.exception(), ChildError)
    assert ended.how == "crashed (SIGKILL)"
    gone, left = psutil.wait_procs([child], timeout=60)
    assert (gone, left) == ([child], [])
