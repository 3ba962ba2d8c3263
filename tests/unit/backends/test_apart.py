"""Processes of their own: their answers, and that none is left."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from pytest_quant.backends.apart import end_running, run_apart

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
