"""Processes share a cache, and one that dies at any moment leaves whole entries only."""

from __future__ import annotations

import hashlib
import os
import random
import select
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from pytest_quant.cache import Cache
from tests.unit.cache.conftest import Builder, never, temporary_names
from tests.unit.cache.processes import BUILD_MANY, BUILD_UNTIL_TOLD, finish, read_line, start


def test_one_builds_and_the_others_wait_say_so_and_hit(root: Path) -> None:
    """The waiting process names the builder and its work, and finds the entry then."""
    builder = start(BUILD_UNTIL_TOLD, root, "1")
    assert read_line(builder) == "building"
    waiting = start(BUILD_UNTIL_TOLD, root, "1")
    assert read_line(waiting) == f"waiting for process {builder.pid} which builds slot"
    assert finish(builder) == "built\n"
    assert finish(waiting) == "hit\n"


def test_other_keys_are_built_at_the_same_time(root: Path) -> None:
    """Two builds of different entries do not wait for each other."""
    first, second = start(BUILD_UNTIL_TOLD, root, "1"), start(BUILD_UNTIL_TOLD, root, "2")
    assert read_line(first) == read_line(second) == "building"
    assert finish(second) == finish(first) == "built\n"


def test_other_roots_are_independent(root: Path, tmp_path: Path) -> None:
    """The same entry in another root is built at the same time."""
    other = tmp_path / "other"
    first, second = start(BUILD_UNTIL_TOLD, root, "1"), start(BUILD_UNTIL_TOLD, other, "1")
    assert read_line(first) == read_line(second) == "building"
    assert finish(second) == finish(first) == "built\n"


def test_a_builder_killed_in_the_middle_blocks_nobody(root: Path, cache: Cache) -> None:
    """Its lock dies with it: the one that waits builds, and what it left is removed by the next process."""
    killed = start(BUILD_UNTIL_TOLD, root, "1")
    assert read_line(killed) == "building"
    waiting = start(BUILD_UNTIL_TOLD, root, "1")
    assert read_line(waiting) == f"waiting for process {killed.pid} which builds slot"
    killed.send_signal(signal.SIGKILL)
    finish(killed)
    assert read_line(waiting) == "building"
    assert finish(waiting) == "built\n"
    assert cache.obtain("engine", "slot", {"model": "1"}, never).status == "hit"
    assert temporary_names(root) == []


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


def test_the_half_built_entry_of_a_killed_writer_is_built_again(root: Path) -> None:
    """Files without a manifest are no entry."""
    with pytest.raises(KeyboardInterrupt):
        Cache(root).obtain("engine", "s", {"v": "1"}, _interrupted)
    assert Cache(root).obtain("engine", "s", {"v": "1"}, Builder()).reason == "first build of s"


def _interrupted(folder: Path) -> dict[str, None]:
    (folder / "model.onnx").write_bytes(b"half")
    raise KeyboardInterrupt
