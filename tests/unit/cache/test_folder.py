"""A folder that others may write to is refused; one that cannot be written is replaced by a temporary one."""

from __future__ import annotations

import gc
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_quant.cache import Cache
from pytest_quant.errors import CacheError
from tests.unit.cache.conftest import CONTENT, Builder, never


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777], ids=oct)
def test_a_folder_that_others_may_write_to_is_refused(root: Path, mode: int) -> None:
    """With the command that mends it, and used again after that."""
    Cache(root).obtain("engine", "s", {"v": "1"}, Builder())
    root.chmod(mode)
    with pytest.raises(CacheError) as caught:
        Cache(root).obtain("engine", "s", {"v": "1"}, never)
    assert f"chmod go-w {root}" in str(caught.value)
    assert "--quant-cache DIR" in str(caught.value)
    root.chmod(mode & ~0o022)
    assert Cache(root).obtain("engine", "s", {"v": "1"}, never).status == "hit"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(root: Path) -> None:
    """Though nobody but that user can write to it; root's own folder is root's."""
    Cache(root).obtain("engine", "s", {"v": "1"}, Builder())
    os.chown(root, 65534, 65534)
    with pytest.raises(CacheError, match="belongs to another user") as caught:
        Cache(root).obtain("engine", "s", {"v": "1"}, never)
    assert caught.value.value == "user 65534"


def test_a_new_folder_is_one_that_is_not_refused(tmp_path: Path) -> None:
    """Also for users whose mask leaves what they make to their group, as it is on many systems."""
    root = tmp_path / "cache"
    before = os.umask(0o002)
    try:
        Cache(root).obtain("engine", "s", {"v": "1"}, Builder())
    finally:
        os.umask(before)
    created = [root, root / "engine", root / ".locks", *root.glob("engine/*")]
    assert [stat.S_IMODE(folder.stat().st_mode) & 0o022 for folder in created] == [0, 0, 0, 0]
    assert Cache(root).obtain("engine", "s", {"v": "1"}, never).status == "hit"


LARGE = Builder(content=bytes(1_000_000))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB; skips where mounting is not allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("a full disk is tested on a tmpfs, and there is no mount command here")
    if mounted.returncode != 0:
        pytest.skip(f"a full disk is tested on a tmpfs, and mounting is not permitted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S607 - wherever the system keeps it


@pytest.fixture
def file_root(tmp_path: Path) -> Path:
    """A root that cannot be: a file lies in its place."""
    (tmp_path / "cache").write_text("a file")
    return tmp_path / "cache"


def test_a_file_in_the_folders_place(file_root: Path, said: list[str]) -> None:
    """The file stays as it is, and this run builds once, in a folder that the one message names with cause and fix."""
    cache = Cache(file_root, notify=said.append)
    entry = cache.obtain("engine", "s", {"v": "1"}, Builder())
    assert (entry.status, entry.reason) == ("built", "first build of s")
    assert (entry.folder / "model.onnx").read_bytes() == CONTENT
    assert cache.obtain("engine", "s", {"v": "1"}, never).status == "hit"
    assert file_root.read_text() == "a file"
    (message,) = said
    for part in (str(file_root), "File exists", str(cache.root), "--quant-cache DIR"):
        assert part in message


def test_the_temporary_folder_goes_with_the_cache(file_root: Path) -> None:
    """Nothing stays behind in the system's temporary folder."""
    cache = Cache(file_root)
    folder = cache.obtain("engine", "s", {"v": "1"}, Builder()).folder
    assert folder.exists()
    del cache
    # The error that sent the cache there may still hold it in a circle, which versions of Python see at other times.
    gc.collect()
    assert not folder.exists()


def test_no_temporary_folder_is_an_error(file_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When no folder at all can be written, the error names the cache and the fix."""
    monkeypatch.setattr(tempfile, "tempdir", str(file_root))
    with pytest.raises(CacheError, match="cannot be kept in the cache") as raised:
        Cache(file_root).obtain("engine", "s", {"v": "1"}, Builder())
    assert str(file_root) in str(raised.value)
    assert "--quant-cache DIR" in str(raised.value)


def test_a_disk_that_was_mounted_for_reading_only(small_disk: Path, said: list[str]) -> None:
    """Folders that are there do not make it one that can be written."""
    Cache(small_disk / "cache").obtain("engine", "s", {"v": "1"}, Builder())
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)  # noqa: S607
    entry = Cache(small_disk / "cache", notify=said.append).obtain("engine", "s", {"v": "1"}, Builder())
    assert not entry.folder.is_relative_to(small_disk)
    (message,) = said
    assert "Read-only file system" in message


def test_a_disk_that_is_full_in_the_middle_of_a_build(small_disk: Path) -> None:
    """The error says what to do, nothing half stays, and entries of before are still hits."""
    cache = Cache(small_disk / "cache")
    cache.obtain("engine", "s", {"v": "0"}, Builder())
    with pytest.raises(CacheError) as raised:
        cache.obtain("engine", "ort-int8 of net", {"v": "1"}, LARGE)
    for part in ("ort-int8 of net", str(small_disk / "cache"), "No space left on device", "make room", "--quant-cache"):
        assert part in str(raised.value)
    assert [entry.ingredients for entry in cache.entries()] == [{"v": "0"}]
    assert list(small_disk.rglob("*.tmp")) == []
    with pytest.raises(OSError, match="No space"):
        (small_disk / "rest").write_bytes(bytes(2_000_000))
    assert Cache(small_disk / "cache").obtain("engine", "s", {"v": "0"}, never).status == "hit"


def test_clearing_what_cannot_be_cleared_says_so(tmp_path: Path) -> None:
    """A root in which nothing can be locked is named, and its entries stay."""
    cache = Cache(tmp_path / "cache")
    cache.obtain("engine", "s", {"v": "1"}, Builder())
    shutil.rmtree(tmp_path / "cache" / ".locks")
    (tmp_path / "cache" / ".locks").write_text("a file")
    with pytest.raises(CacheError, match="cannot read or change"):
        cache.clear()
    assert len(cache.entries()) == 1
