"""kill -9 at random moments leaves whole entries only."""

from __future__ import annotations

import hashlib
import random
import select
import subprocess
from pathlib import Path

import pytest

from pytest_quant.cache import Cache
from tests.unit.cache.conftest import Builder, never, temporary_names
from tests.unit.cache.processes import BUILD_MANY, finish, read_line, start


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
