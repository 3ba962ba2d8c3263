"""Processes share a cache, and one that dies at any moment leaves whole entries only."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from pytest_quant.cache import Cache
from tests.unit.cache.conftest import Builder, never, temporary_names

WAITS = "waiting for another process, which builds slot"

_PRELUDE = """
import pathlib, sys, time
from pytest_quant.cache import Cache
root = pathlib.Path(sys.argv[1])
def say(text):
    print(text, flush=True)
def build(folder, content=b"theirs"):
    (folder / "weights.bin").write_bytes(content)
    return {"build_s": 1.5}
cache = Cache(root, notify=say)
"""

BUILD_UNTIL_TOLD = """
def slow(folder):
    say('building')
    sys.stdin.readline()
    return build(folder)
entry = cache.obtain('engine', 'slot', {'model': sys.argv[2]}, slow)
say(entry.status)
"""
"""Builds one entry, and ends the build when it reads a line."""


def start(script: str, root: Path, argument: str = "") -> subprocess.Popen[str]:
    """Start `script` in a process of its own over the cache at `root`; its lines can be read and written."""
    return subprocess.Popen(
        [sys.executable, "-c", _PRELUDE + script, str(root), argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_line(process: subprocess.Popen[str]) -> str:
    """Wait for the next line that `process` prints; empty when it has ended."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def finish(process: subprocess.Popen[str]) -> str:
    """Let a waiting process go on to its end, and return what else it printed."""
    return process.communicate("\n", timeout=60)[0]


def test_one_builds_and_the_others_wait_say_so_and_hit(root: Path) -> None:
    """The waiting process says what is built, and finds the entry then."""
    builder = start(BUILD_UNTIL_TOLD, root, "1")
    assert read_line(builder) == "building"
    waiting = start(BUILD_UNTIL_TOLD, root, "1")
    assert read_line(waiting) == WAITS
    assert finish(builder) == "built\n"
    assert finish(waiting) == "hit\n"


def test_a_builder_killed_in_the_middle_blocks_nobody(root: Path, cache: Cache) -> None:
    """Its lock dies with it: the one that waits builds, and what it left is removed by the next process."""
    killed = start(BUILD_UNTIL_TOLD, root, "1")
    assert read_line(killed) == "building"
    waiting = start(BUILD_UNTIL_TOLD, root, "1")
    assert read_line(waiting) == WAITS
    killed.send_signal(signal.SIGKILL)
    finish(killed)
    assert read_line(waiting) == "building"
    assert finish(waiting) == "built\n"
    assert cache.obtain("engine", "slot", {"model": "1"}, never).status == "hit"
    assert temporary_names(root) == []


def test_clearing_leaves_what_a_process_holds(root: Path, cache: Cache, builder: Builder) -> None:
    """The entry that is built again at this moment stays, and is counted; a sweep leaves its folder too."""
    entry = cache.obtain("engine", "slot", {"model": "1"}, builder)
    (entry.folder / "model.onnx").unlink()
    other = start(BUILD_UNTIL_TOLD, root, "1")
    assert read_line(other) == "building"
    assert cache.clear() == ([], 1)
    Cache(root).obtain("engine", "s", {"v": "1"}, Builder())
    assert len(temporary_names(root)) == 1
    assert finish(other) == "built\n"
