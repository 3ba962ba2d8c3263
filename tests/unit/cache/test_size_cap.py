"""The cap is kept by removing what was not used for longest."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pytest_quant.cache import Cache
from tests.unit.cache.conftest import Builder, never

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
