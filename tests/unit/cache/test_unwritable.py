"""A root that cannot be written loses nothing: the build goes to a temporary folder."""

from __future__ import annotations

import gc
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_quant.cache import Cache, JsonScalar
from pytest_quant.errors import CacheError
from tests.unit.cache.conftest import CONTENT, Builder, never

LARGE = Builder(content=bytes(1_000_000))


def mount_small(folder: Path) -> Iterator[Path]:
    """Mount a file system of 1 MB at `folder`, or skip where that is not allowed."""
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
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB."""
    yield from mount_small(tmp_path / "disk")


@pytest.fixture
def file_root(tmp_path: Path) -> Path:
    """A root that cannot be: a file lies in its place."""
    (tmp_path / "cache").write_text("a file")
    return tmp_path / "cache"


def test_a_full_disk_builds_for_this_run(small_disk: Path, said: list[str]) -> None:
    """The files are whole, the message names place, cause and fix, and nothing half stays on the disk."""
    cache = Cache(small_disk / "cache", notify=said.append)
    entry = cache.obtain("engine", "ort-int8 of net", {"v": "1"}, LARGE)
    assert entry.status == "built"
    assert (entry.folder / "model.onnx").stat().st_size == 1_000_000
    assert not entry.folder.is_relative_to(small_disk)
    (message,) = said
    for part in ("ort-int8 of net", str(small_disk / "cache"), "No space left on device", "--quant-cache"):
        assert part in message
    assert list(small_disk.rglob("*.bin")) == []


def test_within_the_run_it_is_built_once(small_disk: Path, said: list[str]) -> None:
    """The temporary entry is a hit for the same process and is said once."""
    cache = Cache(small_disk / "cache", notify=said.append)
    cache.obtain("engine", "s", {"v": "1"}, LARGE)
    assert cache.obtain("engine", "s", {"v": "1"}, never).status == "hit"
    assert len(said) == 1


def test_what_is_on_the_full_disk_is_still_found(small_disk: Path) -> None:
    """Earlier entries stay usable, before and after a build did not fit."""
    small = Builder(content=b"small")
    Cache(small_disk / "cache").obtain("engine", "s", {"v": "0"}, small)
    cache = Cache(small_disk / "cache")
    entry = cache.obtain("engine", "s", {"v": "1"}, LARGE)
    assert entry.reason == "v changed (0 -> 1)"
    assert cache.obtain("engine", "s", {"v": "0"}, never).status == "hit"
    (small_disk / "rest").touch()
    with pytest.raises(OSError, match="No space"):
        (small_disk / "rest").write_bytes(bytes(2_000_000))
    assert Cache(small_disk / "cache").obtain("engine", "s", {"v": "0"}, never).status == "hit"


def test_a_builder_that_hides_the_full_disk_is_understood(small_disk: Path) -> None:
    """A runtime reports a full disk in its own words; the folder is asked."""

    def foreign(folder: Path) -> dict[str, JsonScalar]:
        with suppress(OSError):
            (folder / "model.onnx").write_bytes(bytes(2_000_000))
        if (folder / "model.onnx").stat().st_size != 2_000_000:
            raise RuntimeError("protobuf: serialization failed")
        return {}

    assert Cache(small_disk / "cache").obtain("engine", "s", {"v": "1"}, foreign).status == "built"


def test_a_builder_that_fails_for_its_own_reason_is_not_retried(small_disk: Path) -> None:
    """Only a full disk sends a build elsewhere."""
    calls: list[Path] = []

    def broken(folder: Path) -> dict[str, JsonScalar]:
        calls.append(folder)
        raise RuntimeError("unsupported operator")

    with pytest.raises(RuntimeError, match="unsupported operator"):
        Cache(small_disk / "cache").obtain("engine", "s", {"v": "1"}, broken)
    assert len(calls) == 1


def test_a_file_in_the_folders_place(file_root: Path, said: list[str]) -> None:
    """The file stays as it is, and the build is not lost."""
    cache = Cache(file_root, notify=said.append)
    entry = cache.obtain("engine", "s", {"v": "1"}, Builder())
    assert (entry.status, entry.reason) == ("built", "first build of s")
    assert (entry.folder / "model.onnx").read_bytes() == CONTENT
    assert file_root.read_text() == "a file"
    assert str(file_root) in said[0]
    assert (cache.entries(), cache.total_bytes()) == ((), 0)


def test_a_part_built_within_a_build_stays(file_root: Path) -> None:
    """A build that asks for its own part in a root that cannot be written keeps both."""
    cache = Cache(file_root)

    def outer(folder: Path) -> dict[str, JsonScalar]:
        part = cache.obtain("calibration", "s", {"v": "1"}, Builder())
        (folder / "engine").write_bytes((part.folder / "model.onnx").read_bytes())
        return {}

    assert (cache.obtain("engine", "s", {"v": "1"}, outer).folder / "engine").read_bytes() == CONTENT
    assert cache.obtain("calibration", "s", {"v": "1"}, never).status == "hit"


def test_a_part_that_meets_the_full_disk_first_stays(small_disk: Path) -> None:
    """The part goes to the temporary folder while the whole still fits, and then the whole does not."""
    cache = Cache(small_disk / "cache")
    builder = Builder(content=bytes(1_000_000))

    def outer(folder: Path) -> dict[str, JsonScalar]:
        part = cache.obtain("calibration", "s", {"v": "1"}, builder)
        (folder / "engine").write_bytes((part.folder / "model.onnx").read_bytes())
        (folder / "more").write_bytes(bytes(1_000_000))
        return {}

    assert (cache.obtain("engine", "s", {"v": "1"}, outer).folder / "engine").stat().st_size == 1_000_000
    assert cache.obtain("calibration", "s", {"v": "1"}, never).status == "hit"
    assert len(builder.calls) == 2  # on the full disk, and beside it


def test_no_folder_at_all_is_an_error(file_root: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the temporary folder is full too, the error names both places and the fix."""
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    with pytest.raises(CacheError) as raised:
        Cache(file_root).obtain("engine", "s", {"v": "1"}, LARGE)
    text = str(raised.value)
    for part in (str(file_root), str(small_disk), "No space left on device", "--quant-cache"):
        assert part in text


def test_no_temporary_folder_is_an_error(file_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When no temporary folder can be made the error says so."""
    monkeypatch.setattr(tempfile, "tempdir", str(file_root))
    with pytest.raises(CacheError, match="no folder can be written"):
        Cache(file_root).obtain("engine", "s", {"v": "1"}, Builder())


def test_the_temporary_folder_goes_with_the_cache(file_root: Path) -> None:
    """Nothing stays behind in the system's temporary folder."""
    cache = Cache(file_root)
    folder = cache.obtain("engine", "s", {"v": "1"}, Builder()).folder
    assert folder.exists()
    del cache
    # The error that sent the cache there may still hold it in a circle, which versions of Python see at other times.
    gc.collect()
    assert not folder.exists()


def test_clearing_what_cannot_be_cleared_says_so(tmp_path: Path) -> None:
    """A root in which nothing can be registered is named, and its entries stay."""
    Cache(tmp_path / "cache").obtain("engine", "s", {"v": "1"}, Builder())
    shutil.rmtree(tmp_path / "cache" / ".live")
    (tmp_path / "cache" / ".live").write_text("a file")
    cache = Cache(tmp_path / "cache")
    with pytest.raises(CacheError, match="cannot be read or changed"):
        cache.clear()
    assert cache.obtain("engine", "s", {"v": "1"}, never).status == "hit"
