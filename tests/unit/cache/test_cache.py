"""Built once, kept, never half there; listed, cleared and capped; in no folder that others may write to."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_quant.cache import Cache, JsonScalar
from pytest_quant.cache.cache import _remove
from pytest_quant.errors import CacheError
from tests.unit.cache.conftest import CONTENT, Builder, never, temporary_names


def test_the_second_time_is_a_hit(cache: Cache, builder: Builder) -> None:
    """The same ingredients give the same files and facts, without a build."""
    built = cache.obtain("engine", "s", {"model": "1"}, builder)
    hit = cache.obtain("engine", "s", {"model": "1"}, never)
    assert (built.status, built.reason) == ("built", "first build of s")
    assert (hit.status, hit.reason) == ("hit", "")
    assert hit.facts == built.facts == builder.facts
    assert hit.folder == built.folder
    assert (hit.folder / "model.onnx").read_bytes() == CONTENT
    assert (hit.folder / "external" / "data.bin").read_bytes() == CONTENT[::-1]


def test_a_changed_ingredient_builds_again_and_says_which(cache: Cache, builder: Builder) -> None:
    """Compared with the entry of the slot that was used last; both versions stay."""
    cache.obtain("engine", "s", {"v": "1"}, builder)
    entry = cache.obtain("engine", "s", {"v": "2"}, builder)
    assert (entry.status, entry.reason) == ("built", "v changed (1 -> 2)")
    assert cache.obtain("engine", "s", {"v": "1"}, never).status == "hit"
    assert cache.obtain("engine", "s", {"v": "3"}, builder).reason == "v changed (1 -> 3)"


def test_a_build_may_ask_the_cache_for_a_part(cache: Cache, builder: Builder) -> None:
    """An engine's build obtains its calibration from the same cache."""

    def outer(folder: Path) -> dict[str, JsonScalar]:
        part = cache.obtain("calibration", "s", {"data": "1"}, builder)
        (folder / "engine").write_bytes((part.folder / "model.onnx").read_bytes())
        return {}

    entry = cache.obtain("engine", "s", {"v": "1"}, outer)
    assert (entry.folder / "engine").read_bytes() == CONTENT


@pytest.mark.parametrize("error", [OSError(2, "gone"), KeyboardInterrupt()])
def test_a_build_that_raises_leaves_nothing(cache: Cache, root: Path, error: BaseException) -> None:
    """The error passes through unchanged, Ctrl-C included, and the next build starts from nothing."""

    def broken(folder: Path) -> dict[str, JsonScalar]:
        (folder / "half").write_text("half")
        raise error

    with pytest.raises(type(error)) as raised:
        cache.obtain("engine", "s", {"v": "1"}, broken)
    assert raised.value is error
    assert temporary_names(root) == []
    assert cache.entries() == ()
    assert cache.obtain("engine", "s", {"v": "1"}, Builder()).reason == "first build of s"


def test_nothing_is_written_before_it_is_needed(cache: Cache, root: Path) -> None:
    """Making, listing and clearing a cache creates no folder."""
    assert (cache.entries(), cache.clear()) == ((), ([], 0))
    assert not root.exists()


def test_git_ignores_the_cache(tmp_path: Path, builder: Builder) -> None:
    """It sees no new file in a repository that holds a cache; a folder with files of somebody else's stays as it is."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)  # noqa: S607 - whatever git the user has
    Cache(tmp_path / "cache").obtain("engine", "s", {"v": "1"}, builder)
    command = ["git", "-C", str(tmp_path), "status", "--porcelain", "-uall"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == ""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    Cache(tmp_path / "mine").obtain("engine", "s", {"v": "1"}, builder)
    Cache(tmp_path / "mine").clear()
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"
    assert not (tmp_path / "mine" / ".gitignore").exists()


def test_the_list_tells_all_about_an_entry(cache: Cache, builder: Builder) -> None:
    """Kind, slot, key, size and ingredients are those of the build, and so is the folder."""
    built = cache.obtain("engine", "s", {"v": "1"}, builder)
    (entry,) = cache.entries()
    assert built.folder.parent == entry.folder == cache.root / "engine" / built.key
    assert (entry.kind, entry.slot, entry.key) == ("engine", "s", built.key)
    assert (entry.ingredients, entry.readable) == ({"v": "1"}, True)
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


def test_clearing_removes_what_was_asked(cache: Cache, builder: Builder) -> None:
    """A kind, then everything; what is cleared is a first build again."""
    for kind in ("engine", "reference"):
        for slot in ("a", "b"):
            cache.obtain(kind, slot, {"slot": slot}, builder)
    removed, stayed = cache.clear(kind="engine")
    assert ([entry.kind for entry in removed], stayed) == (["engine"] * 2, 0)
    assert {entry.kind for entry in cache.entries()} == {"reference"}
    assert len(cache.clear()[0]) == 2
    assert cache.entries() == ()
    assert cache.obtain("engine", "a", {"v": "1"}, builder).reason == "first build of a"


def test_what_lies_behind_a_link_is_not_ours(cache: Cache, root: Path, builder: Builder, tmp_path: Path) -> None:
    """Neither listed nor removed: it may be anything with such names."""
    precious = tmp_path / "elsewhere" / ("a" * 64)
    precious.mkdir(parents=True)
    root.mkdir(parents=True)
    (root / "engine").symlink_to(tmp_path / "elsewhere")
    assert (cache.entries(), cache.clear(), cache.shrink(0)) == ((), ([], 0), ([], 0))
    assert precious.is_dir()


MEDIUM = Builder(content=bytes(50_000))
"""About 100 kB in two files."""


def fill(root: Path, count: int) -> list[str]:
    """Leave entries 0, 1, ... of an earlier run behind, each used one hour after the one before; give the keys."""
    cache = Cache(root)
    keys = []
    for number in range(count):
        entry = cache.obtain("engine", "s", {"v": str(number)}, MEDIUM)
        os.utime(entry.folder.parent / "last-use", (1e9 + 3600 * number,) * 2)
        keys.append(entry.key)
    return keys


def stored_keys(root: Path) -> set[str]:
    """Keys of what is there."""
    return {entry.key for entry in Cache(root).entries()}


def test_the_least_recently_used_goes_first(root: Path) -> None:
    """Three fit under the cap: of five, the two that were used longest ago go, and none that was used today."""
    keys = fill(root, 4)
    new = Cache(root, max_bytes=350_000).obtain("engine", "s", {"v": "new"}, MEDIUM)
    assert stored_keys(root) == {keys[2], keys[3], new.key}
    newer = Cache(root, max_bytes=1000).obtain("engine", "s", {"v": "newer"}, MEDIUM)
    assert stored_keys(root) == {new.key, newer.key}


def test_a_day_after_its_last_use_an_entry_may_go(root: Path) -> None:
    """23 hours after it, it may not, nor where it was used again since it was listed; the counts say so."""
    keys = fill(root, 2)
    for key, hours in zip(keys, (25, 23), strict=True):
        used = time.time() - 3600 * hours
        os.utime(root / "engine" / key / "last-use", (used, used))
    listed = Cache(root).entries()[-1]
    Cache(root).obtain("engine", "s", {"v": "0"}, never)
    assert not _remove(listed)
    os.utime(listed.folder / "last-use", (1e9, 1e9))
    removed, stayed = Cache(root).shrink(0)
    assert ([entry.key for entry in removed], stayed) == ([keys[0]], 1)
    assert stored_keys(root) == {keys[1]}


def test_an_unreadable_entry_counts_and_can_go(root: Path) -> None:
    """Garbage does not fill the disk for ever."""
    (key,) = fill(root, 1)
    (root / "engine" / key / "manifest.json").write_text("broken")
    os.utime(root / "engine" / key / "last-use", (1.0, 1.0))
    new = Cache(root, max_bytes=150_000).obtain("engine", "s", {"v": "new"}, MEDIUM)
    assert stored_keys(root) == {new.key}


@pytest.mark.parametrize("mode", [0o775, 0o757], ids=oct)
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
    with pytest.raises(CacheError, match="may be written to by others") as caught:
        Cache(root).obtain("engine", "s", {"v": "1"}, never)
    assert str(caught.value.value).startswith("user 65534")


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


def test_a_folder_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    """It names the folder, the cause and the option for another one, and what is there stays."""
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(CacheError) as raised:
        Cache(tmp_path / "cache").obtain("engine", "s", {"v": "1"}, Builder())
    for part in (str(tmp_path / "cache"), "File exists", "--quant-cache DIR"):
        assert part in str(raised.value)
    assert (tmp_path / "cache").read_text() == "a file"


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
