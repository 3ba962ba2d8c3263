"""The list, the sum and clearing."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_quant.cache import Cache
from pytest_quant.cache.cache import _remove
from tests.unit.cache.conftest import CONTENT, Builder, never
from tests.unit.cache.processes import BUILD_UNTIL_TOLD, finish, read_line, start


def test_the_list_tells_all_about_an_entry(cache: Cache, builder: Builder) -> None:
    """Kind, slot, key, size, ingredients and facts are those of the build."""
    built = cache.obtain("engine", "s", {"v": "1"}, builder)
    (entry,) = cache.entries()
    assert (entry.kind, entry.slot, entry.key) == ("engine", "s", built.key)
    assert (entry.ingredients, entry.facts, entry.readable) == ({"v": "1"}, builder.facts, True)
    on_disk = sum(path.stat().st_size for path in entry.folder.rglob("*") if path.is_file())
    assert entry.size_bytes == on_disk > 2 * len(CONTENT)
    assert entry.created <= entry.last_used + 1


def test_the_last_used_comes_first(cache: Cache, builder: Builder) -> None:
    """Order follows use, and a hit is a use."""
    for number, used in enumerate([300.0, 100.0, 200.0]):
        entry = cache.obtain("engine", str(number), {"v": str(number)}, builder)
        os.utime(entry.folder.parent / "last-use", (used, used))
    assert [entry.slot for entry in cache.entries()] == ["0", "2", "1"]
    cache.obtain("engine", "1", {"v": "1"}, never)
    assert [entry.slot for entry in cache.entries()] == ["1", "0", "2"]


def test_the_sum_is_that_of_the_list(cache: Cache, builder: Builder) -> None:
    """Total bytes are the entries' bytes."""
    cache.obtain("engine", "a", {"v": "1"}, builder)
    cache.obtain("reference", "b", {"v": "2"}, builder)
    assert cache.total_bytes() == sum(entry.size_bytes for entry in cache.entries()) > 4 * len(CONTENT)


def test_clearing_removes_what_was_asked(cache: Cache, builder: Builder) -> None:
    """A kind, then everything; what is cleared is a first build again."""
    for kind in ("engine", "reference"):
        for slot in ("a", "b"):
            cache.obtain(kind, slot, {"slot": slot}, builder)
    before = cache.total_bytes()
    cleared = cache.clear(kind="engine")
    assert (cleared.removed, cleared.stayed) == (2, 0)
    assert cleared.freed_bytes == before - cache.total_bytes() > 0
    assert {entry.kind for entry in cache.entries()} == {"reference"}
    assert cache.clear().removed == 2
    assert (cache.entries(), cache.total_bytes()) == ((), 0)
    assert cache.obtain("engine", "a", {"v": "1"}, builder).reason == "first build of a"


def test_clearing_leaves_what_a_process_holds(root: Path, cache: Cache, builder: Builder) -> None:
    """The entry that is built again at this moment stays, and is counted."""
    entry = cache.obtain("engine", "slot", {"model": "1"}, builder)
    (entry.folder / "model.onnx").unlink()
    other = start(BUILD_UNTIL_TOLD, root, "1")
    assert read_line(other) == "building"
    cleared = cache.clear()
    assert (cleared.removed, cleared.stayed) == (0, 1)
    assert finish(other) == "built\n"


def test_clearing_leaves_what_was_used_since_it_was_listed(root: Path, builder: Builder) -> None:
    """A process that was given an entry meanwhile keeps it."""
    entry = Cache(root).obtain("engine", "s", {"v": "1"}, builder)
    os.utime(entry.folder.parent / "last-use", (1.0, 1.0))
    (listed,) = Cache(root).entries()
    Cache(root).obtain("engine", "s", {"v": "1"}, never)
    assert not _remove(listed)
    assert Cache(root).obtain("engine", "s", {"v": "1"}, never).status == "hit"
