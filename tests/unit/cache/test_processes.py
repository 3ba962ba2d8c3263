"""Processes share a cache, and one that dies at any moment leaves whole entries only."""

from __future__ import annotations

import hashlib
import os
import random
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

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

BUILD_MANY = """
def large(folder):
    (folder / "sub").mkdir()
    for part in range(8):
        (folder / "sub" / f"{part}.bin").write_bytes(bytes([part]) * 200_000)
    return {"parts": 8}
say('started')
for number in range(10_000):
    cache.obtain('engine', 'slot', {'number': str(number % 7), 'round': str(number // 7)}, large)
"""
"""Builds entries without end."""


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
    """The entry that is built again at this moment stays, and is counted."""
    entry = cache.obtain("engine", "slot", {"model": "1"}, builder)
    (entry.folder / "model.onnx").unlink()
    other = start(BUILD_UNTIL_TOLD, root, "1")
    assert read_line(other) == "building"
    assert cache.clear() == ([], 1)
    assert finish(other) == "built\n"


def test_a_living_builders_folder_is_left_alone(root: Path, cache: Cache, builder: Builder) -> None:
    """Sweeping removes what the dead left, and nothing of the living."""
    living = start(BUILD_UNTIL_TOLD, root, "1")
    assert read_line(living) == "building"
    cache.obtain("engine", "s", {"v": "1"}, builder)
    assert len(temporary_names(root)) == 1
    assert finish(living) == "built\n"


def test_threads_with_a_cache_each_build_once(root: Path) -> None:
    """Several caches in one process keep out of each other's way as processes do."""
    builder, statuses = Builder(), []

    def use() -> None:
        statuses.append(Cache(root).obtain("engine", "s", {"v": "1"}, builder).status)

    threads = [threading.Thread(target=use) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == ["built", *["hit"] * 5]
    assert len(builder.calls) == 1


def test_a_forked_child_uses_the_cache_of_its_parent(cache: Cache, builder: Builder) -> None:
    """No lock is carried over."""
    cache.obtain("engine", "s", {"v": "1"}, builder)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if cache.obtain("engine", "s", {"v": "1"}, never).status == "hit" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.obtain("engine", "s", {"v": "1"}, never).status == "hit"


def kill_after(process: subprocess.Popen[str], delay_s: float) -> None:
    """Kill `process` so many seconds after it has started to build."""
    assert read_line(process) == "started"
    assert process.stdout is not None
    select.select([process.stdout], [], [], delay_s)
    process.kill()
    finish(process)


def is_whole(folder: Path) -> bool:
    """Whether the files of `BUILD_MANY` are all there, by their contents."""
    return all(
        hashlib.sha256((folder / "sub" / f"{part}.bin").read_bytes()).digest()
        == hashlib.sha256(bytes([part]) * 200_000).digest()
        for part in range(8)
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_writer_leaves_whole_entries(root: Path, seed: int) -> None:
    """Whenever it dies, every entry in the list is a hit with its right contents, and its rubbish goes."""
    delays = random.Random(seed)  # noqa: S311 - moments, not secrets
    for _ in range(3):
        delay_s = delays.uniform(0.0, 0.25)
        kill_after(start(BUILD_MANY, root), delay_s)
        cache = Cache(root)
        for entry in (entry for entry in cache.entries() if entry.kind == "engine"):
            found = cache.obtain("engine", entry.slot, entry.ingredients, never)
            assert is_whole(found.folder)
        assert cache.obtain("after", "s", {"delay": str(delay_s)}, Builder()).status == "built"
        assert temporary_names(root) == []
