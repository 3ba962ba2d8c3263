"""The list, the sum, clearing, and the cap on the size."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

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


LARGE = Builder(content=bytes(50_000))
"""About 100 kB in two files."""


def fill(root: Path, count: int) -> list[str]:
    """Leave entries 0, 1, ... of an earlier run behind, each used one hour after the one before; give the keys."""
    cache = Cache(root)
    keys = []
    for number in range(count):
        entry = cache.obtain("engine", "s", {"v": str(number)}, LARGE)
        os.utime(entry.folder.parent / "last-use", (1e9 + 3600 * number,) * 2)
        keys.append(entry.key)
    return keys


def kept(root: Path) -> set[str]:
    """Keys of what is there."""
    return {entry.key for entry in Cache(root).entries()}


def test_the_least_recently_used_goes_first(root: Path) -> None:
    """Three fit under the cap: of five, the two that were used longest ago and the older ones go."""
    keys = fill(root, 4)
    new = Cache(root, max_bytes=350_000).obtain("engine", "s", {"v": "new"}, LARGE)
    assert kept(root) == {keys[2], keys[3], new.key}


def test_a_hit_counts_as_a_use(root: Path) -> None:
    """The oldest entry survives when it was used meanwhile."""
    keys = fill(root, 3)
    Cache(root).obtain("engine", "s", {"v": "0"}, never)
    new = Cache(root, max_bytes=250_000).obtain("engine", "s", {"v": "new"}, LARGE)
    assert kept(root) == {keys[0], new.key}


def test_under_the_cap_everything_stays(root: Path) -> None:
    """Nothing is removed before there is need."""
    keys = fill(root, 3)
    new = Cache(root, max_bytes=10**6).obtain("engine", "s", {"v": "new"}, LARGE)
    assert kept(root) == {*keys, new.key}


def test_what_was_used_today_stays(root: Path, said: list[str]) -> None:
    """A running test may use it. Everything else goes, and the user is told once that the cap is not kept."""
    fill(root, 2)
    cache = Cache(root, max_bytes=1000, notify=said.append)
    new = cache.obtain("engine", "s", {"v": "new"}, LARGE)
    newer = cache.obtain("engine", "s", {"v": "newer"}, LARGE)
    assert kept(root) == {new.key, newer.key}
    (message,) = said
    assert "above its cap of 0 MB: the 1 entries that are left were used in the last 24 h" in message


def test_a_day_after_its_last_use_an_entry_may_go(root: Path) -> None:
    """23 hours after it, it may not."""
    keys = fill(root, 2)
    for key, hours in zip(keys, (25, 23), strict=True):
        used = time.time() - 3600 * hours
        os.utime(root / "engine" / key / "last-use", (used, used))
    assert Cache(root).shrink(0).stayed == 1
    assert kept(root) == {keys[1]}


def test_an_unreadable_entry_counts_and_can_go(root: Path) -> None:
    """Garbage does not fill the disk for ever."""
    (key,) = fill(root, 1)
    (root / "engine" / key / "manifest.json").write_text("broken")
    os.utime(root / "engine" / key / "last-use", (1.0, 1.0))
    new = Cache(root, max_bytes=150_000).obtain("engine", "s", {"v": "new"}, LARGE)
    assert kept(root) == {new.key}


def test_the_default_cap_is_ten_gigabytes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """10 GB are 10^10 bytes: one byte more is removed."""
    keys = fill(root, 1)
    monkeypatch.setattr("pytest_quant.cache.entry.size_below", lambda _: 5 * 10**9)
    second = Cache(root).obtain("engine", "s", {"v": "second"}, LARGE)
    assert kept(root) == {keys[0], second.key}
    os.utime(second.folder.parent / "last-use", (1.1e9, 1.1e9))
    monkeypatch.setattr("pytest_quant.cache.entry.size_below", lambda _: 5 * 10**9 + 1)
    third = Cache(root).obtain("engine", "s", {"v": "third"}, LARGE)
    assert kept(root) == {third.key}


def test_shrinking_leaves_what_was_used_last(root: Path) -> None:
    """Of four, the two that fit; the counts are those of what went."""
    keys = fill(root, 4)
    before = Cache(root).total_bytes()
    # Entries differ by a few bytes, the digits of their times.
    cleared = Cache(root).shrink(before * 5 // 8)
    assert kept(root) == set(keys[2:])
    assert (cleared.removed, cleared.freed_bytes) == (2, before - Cache(root).total_bytes())


def test_there_is_nothing_to_shrink_in_a_cache_that_does_not_exist(tmp_path: Path) -> None:
    """A first job of CI has none; no folder is made."""
    assert Cache(tmp_path / "none").shrink(0).removed == 0
    assert not (tmp_path / "none").exists()
