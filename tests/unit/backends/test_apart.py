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

from pytest_quant.backends.apart import ApartError, call_apart, end_running, run_apart

FOREVER = "import signal; signal.pause()"
WITH_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
with open(sys.argv[1], "w") as pipe:
    pipe.write(str(child.pid))
child.wait()
"""


def python(code: str, *arguments: str) -> tuple[str, ...]:
    """A command that runs `code`."""
    return (sys.executable, "-c", code, *arguments)


def test_a_call_returns_its_value_and_what_was_written_as_errors() -> None:
    """In a process whose environment can be given."""
    assert call_apart(divmod, 7, 2) == ((3, 1), "")
    assert call_apart(os.write, 2, b"a warning") == (9, "a warning")
    value, _ = call_apart(os.getenv, "GIVEN", environment={**os.environ, "GIVEN": "here"})
    assert value == "here"
    assert call_apart(os.getpid)[0] != os.getpid()


def test_what_a_call_raises_is_handed_back() -> None:
    """The exception itself, with its traceback as text."""
    with pytest.raises(ApartError, match="invalid literal") as caught:
        call_apart(int, "seven")
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
    with pytest.raises(ApartError) as caught:
        call_apart(function, argument, limit_s=0.05 if function is time.sleep else 600)
    assert (caught.value.error, caught.value.how) == (None, how)


def test_what_it_wrote_and_how_it_ended() -> None:
    """Both streams and the exit code."""
    ended = run_apart(python("import sys; print('out'); sys.stderr.write('told'); sys.exit(3)"), 600)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "out\n", "told")
    assert not end_running()


def test_one_that_takes_too_long() -> None:
    """It is ended, and the limit is told."""
    with pytest.raises(subprocess.TimeoutExpired, match=r"0\.05 seconds"):
        run_apart(python(FOREVER), 0.05)
    assert not [child for child in psutil.Process().children() if "signal.pause" in " ".join(child.cmdline())]


def test_another_thread_ends_it_with_what_it_started(tmp_path: Path) -> None:
    """The process that started it is answered, with the signal; its child is gone too, though it was never told."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run_apart, python(WITH_CHILD, str(pipe)), 600)
        child = psutil.Process(int(pipe.read_text()))
        assert end_running()
        assert waiting.result().returncode == -9
    gone, left = psutil.wait_procs([child], timeout=60)
    assert (gone, left) == ([child], [])
