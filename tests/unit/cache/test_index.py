"""A build looks at no entry but its own, however many the cache has."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.cache import Cache
from pytest_quant.cache.cache import trim
from pytest_quant.cache.files import LOCKS
from pytest_quant.cache.index import add_bytes, is_indexed, last_key, note_use, set_bytes
from pytest_quant.cache.store import Store, list_entries

KEYS = st.text("0123456789abcdef", min_size=64, max_size=64)


def build(folder: Path) -> Mapping[str, str]:
    """Write a file of 1000 bytes."""
    (folder / "file").write_bytes(b"x" * 1000)
    return {}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with the place of locks, as a cache has it."""
    (tmp_path / LOCKS).mkdir()
    return tmp_path


def obtain(root: Path, version: str, slot: str = "net") -> str:
    """Obtain an entry in a cache of a new process, and return why it was built."""
    return Cache(root).obtain("engine", slot, {"version": version, "of": slot}, build).reason


@given(st.text(min_size=1), KEYS, KEYS)
def test_the_last_key_of_a_slot(tmp_path_factory: pytest.TempPathFactory, slot: str, one: str, other: str) -> None:
    """Is the one that was noted last; other slots, and other kinds of the same name, are apart."""
    root = tmp_path_factory.mktemp("cache")
    assert last_key(root, "engine", slot) is None
    note_use(root, "engine", slot, one)
    note_use(root, "engine", slot, other)
    note_use(root, "engine", f"{slot}x", one)
    assert last_key(root, "engine", slot) == other
    assert last_key(root, "outputs", slot) is None


@given(st.lists(st.integers(-(10**9), 10**12), max_size=10))
def test_bytes_add_up(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    """From a count on; a sum below 0 cannot be, and asks for another count."""
    root = tmp_path_factory.mktemp("cache")
    (root / LOCKS).mkdir()
    assert add_bytes(root, 5) is None
    set_bytes(root, 0)
    total: int | None = 0
    for size in sizes:
        expected = None if total is None or total < 0 else total + size
        total = add_bytes(root, size)
        assert total == expected


@pytest.mark.parametrize("junk", [b"", b"much", b"-5", b"9" * 400, "\N{SUPERSCRIPT TWO}".encode(), b"\xff\0"])
def test_junk_counts_as_not_known(root: Path, junk: bytes) -> None:
    """As a file has it that somebody else wrote."""
    set_bytes(root, 7)
    note_use(root, "engine", "net", "a" * 64)
    for file in (root / ".index").iterdir():
        file.write_bytes(junk)
    assert add_bytes(root, 5) is None
    assert last_key(root, "engine", "net") is None


def test_a_pipe_is_not_waited_for(root: Path) -> None:
    """It has no writer."""
    (root / ".index").mkdir()
    os.mkfifo(root / ".index" / "bytes")
    assert add_bytes(root, 5) is None


def test_no_byte_is_lost_between_threads(root: Path) -> None:
    """Each addition reads what the last one wrote."""
    set_bytes(root, 0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: add_bytes(root, 3), range(60)))
    assert add_bytes(root, 0) == 180


def test_a_build_lists_no_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for its reason nor for the cap."""
    for version in "123":
        obtain(tmp_path, version)

    def refuse(*_: object) -> None:
        raise AssertionError("the entries are listed")

    for module in ("cache", "store"):
        monkeypatch.setattr(f"pytest_quant.cache.{module}.list_entries", refuse)
    assert obtain(tmp_path, "4") == "version changed (3 -> 4)"
    assert obtain(tmp_path, "1", slot="other") == "first build of other"


def test_the_size_is_that_of_the_entries(tmp_path: Path) -> None:
    """After builds and removals."""
    for version in "123":
        obtain(tmp_path, version)
    Cache(tmp_path).clear(slot="nothing of that name")
    listed = sum(entry.size_bytes for entry in list_entries(tmp_path))
    assert add_bytes(tmp_path, 0) == listed
    trim(Store(tmp_path, lambda _: None), 0)
    assert add_bytes(tmp_path, 0) == sum(entry.size_bytes for entry in list_entries(tmp_path))


def test_the_last_use_counts(tmp_path: Path) -> None:
    """A hit makes an older entry the last one of its slot."""
    for version in "121":
        obtain(tmp_path, version)
    assert obtain(tmp_path, "3") == "version changed (1 -> 3)"


def test_a_cache_of_an_older_version_is_looked_through_once(tmp_path: Path) -> None:
    """Then all its slots are known."""
    obtain(tmp_path, "1")
    obtain(tmp_path, "1", slot="other")
    shutil.rmtree(tmp_path / ".index")
    assert obtain(tmp_path, "2") == "version changed (1 -> 2)"
    assert is_indexed(tmp_path)
    assert obtain(tmp_path, "2", slot="other") == "version changed (1 -> 2)"


def test_an_entry_that_is_gone_leaves_the_others(tmp_path: Path) -> None:
    """The reason names what differs from the one that was used before it."""
    for version in "12":
        obtain(tmp_path, version)
    gone = last_key(tmp_path, "engine", "net")
    assert gone is not None
    shutil.rmtree(tmp_path / "engine" / gone)
    assert obtain(tmp_path, "3") == "version changed (1 -> 3)"
