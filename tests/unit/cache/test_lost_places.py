"""A cache that is removed while it is used is made again, and one that cannot be written gives what it has."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from pytest_quant.cache import Cache, JsonScalar
from pytest_quant.errors import BuildError, CacheError
from tests.unit.cache.conftest import Builder, never


@pytest.mark.parametrize("what", ["root", "parent", "locks", "kind"])
def test_what_was_removed_between_two_checks_is_made_again(root: Path, what: str) -> None:
    """``rm -rf .quant/cache`` or ``git clean -xfd`` in another terminal costs a build, and no error."""
    cache = Cache(root)
    cache.obtain("engine", "s", {"v": "1"}, Builder())
    shutil.rmtree({"root": root, "parent": root.parent, "locks": root / ".locks", "kind": root / "engine"}[what])
    again = cache.obtain("engine", "s", {"v": "1"}, never if what == "locks" else Builder())
    assert (again.folder / "model.onnx").is_file()
    assert again.status == ("hit" if what == "locks" else "built")
    assert cache.obtain("engine", "s", {"v": "1"}, never).status == "hit"
    assert what == "kind" or what == "locks" or (root / ".gitignore").is_file()


def _removing(root: Path, times: int, error: Exception | None) -> Callable[[Path], Mapping[str, JsonScalar]]:
    """A builder during whose first calls somebody removes the cache; what it then raises is the runtime's affair."""
    calls: list[Path] = []

    def build(folder: Path) -> Mapping[str, JsonScalar]:
        calls.append(folder)
        if len(calls) <= times:
            shutil.rmtree(root)
            if error is not None:
                raise error
        else:
            (folder / "model.onnx").write_bytes(b"weights")
        return {"calls": len(calls)}

    return build


ERRORS = [None, FileNotFoundError("model.onnx"), BuildError("the runtime could not write"), RuntimeError("open failed")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_what_was_removed_during_a_build_is_built_again_once(root: Path, error: Exception | None) -> None:
    """Whatever the runtime makes of a folder that is gone; one that goes again and again is an error."""
    entry = Cache(root).obtain("engine", "s", {"v": "1"}, _removing(root, 1, error))
    assert (entry.status, entry.facts) == ("built", {"calls": 2})
    assert Cache(root).obtain("engine", "s", {"v": "1"}, never).status == "hit"
    with pytest.raises(CacheError if error is None else type(error)):
        Cache(root).obtain("engine", "s", {"v": "2"}, _removing(root, 2, error))


def test_an_error_of_a_build_is_raised_at_once(root: Path) -> None:
    """Where the folder is still there, nothing is tried again."""
    calls = []

    def build(folder: Path) -> Mapping[str, JsonScalar]:
        calls.append(folder)
        raise BuildError("no such operator")

    with pytest.raises(BuildError, match="no such operator"):
        Cache(root).obtain("engine", "s", {"v": "1"}, build)
    assert len(calls) == 1


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Path]:
    """A cache with one entry on a read-only disk, as a layer of an image is; skips where mounting is not allowed."""
    folder = tmp_path / "image"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    Cache(folder / "cache").obtain("engine", "s", {"v": "1"}, Builder())
    shutil.rmtree(folder / "cache" / ".locks")
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)  # noqa: S607 - wherever the system keeps it
    yield folder / "cache"
    subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S607


def test_a_read_only_cache_gives_what_it_has(image: Path) -> None:
    """No lock can be made, and none is needed; what it does not have is the error that it was."""
    entry = Cache(image, max_bytes=1).obtain("engine", "s", {"v": "1"}, never)
    assert (entry.status, (entry.folder / "model.onnx").is_file()) == ("hit", True)
    with pytest.raises(CacheError, match="cannot be kept in the cache") as caught:
        Cache(image).obtain("engine", "s", {"v": "2"}, never)
    assert "Read-only file system" in str(caught.value)


@pytest.mark.parametrize("place", [".locks", ".locks/engine-{key}.lock"])
def test_an_entry_without_a_lock_of_its_own_is_used_while_it_is_whole(root: Path, place: str) -> None:
    """Something else in the place of the locks: what is there counts, what is damaged is not used."""
    entry = Cache(root).obtain("engine", "s", {"v": "1"}, Builder())
    blocked = root / place.format(key=entry.key)
    shutil.rmtree(blocked) if blocked.is_dir() else blocked.unlink()
    blocked.write_text("") if place == ".locks" else blocked.mkdir()
    assert Cache(root).obtain("engine", "s", {"v": "1"}, never).status == "hit"
    os.truncate(entry.folder / "model.onnx", 1)
    with pytest.raises(CacheError, match="cannot be kept in the cache"):
        Cache(root).obtain("engine", "s", {"v": "1"}, never)
