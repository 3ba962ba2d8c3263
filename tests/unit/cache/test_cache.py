"""Built once, found ever after, never half there."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.cache import Cache, JsonScalar
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


def test_an_entry_lies_under_its_kind_and_key(cache: Cache, root: Path, builder: Builder) -> None:
    """The folder is what the docs say it is, and the manifest beside it says what it was made from."""
    entry = cache.obtain("engine", "s", {"model": "1"}, builder)
    assert entry.folder.parent == root / "engine" / entry.key
    manifest = json.loads((root / "engine" / entry.key / "manifest.json").read_text())
    assert manifest["ingredients"] == {"model": "1"}
    assert manifest["files"]["model.onnx"] == len(CONTENT)


def test_a_changed_ingredient_builds_again_and_says_which(cache: Cache, builder: Builder) -> None:
    """The reason compares with the entry of the slot that was used last."""
    cache.obtain("engine", "s", {"model": "1", "option reduce_range": "False"}, builder)
    entry = cache.obtain("engine", "s", {"model": "1", "option reduce_range": "True"}, builder)
    assert (entry.status, entry.reason) == ("built", "option reduce_range changed (False -> True)")
    assert len(builder.calls) == 2


def test_going_back_is_a_hit_and_the_next_change_is_told_against_it(cache: Cache, builder: Builder) -> None:
    """Both versions stay, and `last` means last used."""
    cache.obtain("engine", "s", {"v": "1"}, builder)
    cache.obtain("engine", "s", {"v": "2"}, builder)
    assert cache.obtain("engine", "s", {"v": "1"}, never).status == "hit"
    assert cache.obtain("engine", "s", {"v": "3"}, builder).reason == "v changed (1 -> 3)"


def test_slots_and_kinds_do_not_explain_each_other(cache: Cache, builder: Builder) -> None:
    """Another slot or kind is a first build, whatever else is there."""
    cache.obtain("engine", "a", {"v": "1"}, builder)
    assert cache.obtain("engine", "b", {"v": "2"}, builder).reason == "first build of b"
    assert cache.obtain("calibration", "a", {"v": "2"}, builder).reason == "first build of a"


def test_a_build_may_ask_the_cache_for_a_part(cache: Cache, builder: Builder) -> None:
    """An engine's build obtains its calibration from the same cache."""

    def outer(folder: Path) -> dict[str, JsonScalar]:
        part = cache.obtain("calibration", "s", {"data": "1"}, builder)
        (folder / "engine").write_bytes((part.folder / "model.onnx").read_bytes())
        return {}

    entry = cache.obtain("engine", "s", {"v": "1"}, outer)
    assert (entry.folder / "engine").read_bytes() == CONTENT


@pytest.mark.parametrize("error", [ValueError("no"), OSError(2, "gone"), KeyboardInterrupt(), SystemExit(1)])
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


def test_a_failed_build_keeps_what_was_there(cache: Cache, builder: Builder) -> None:
    """The entry of yesterday survives today's broken build."""
    cache.obtain("engine", "s", {"v": "1"}, builder)
    with pytest.raises(ZeroDivisionError):
        cache.obtain("engine", "s", {"v": "2"}, lambda _: {"x": 1 / 0})
    assert cache.obtain("engine", "s", {"v": "1"}, never).status == "hit"


@pytest.mark.parametrize("value", [np.float32(1.0), float("nan"), float("inf"), [1], {"a": 1}, np.int64(3)])
def test_a_fact_that_is_no_plain_json_is_refused(cache: Cache, root: Path, value: object) -> None:
    """A numpy scalar or NaN in a third party's figures is named, and nothing is kept."""
    with pytest.raises(CacheError, match="cannot be kept") as raised:
        cache.obtain("engine", "s", {"v": "1"}, lambda _: {"speed": value})  # type: ignore[dict-item]
    assert raised.value.value is not None
    assert raised.value.value.startswith("speed=")
    assert temporary_names(root) == []


@pytest.mark.parametrize("kind", ["", "../x", "Engine", ".locks", "a/b"])
def test_a_kind_is_a_plain_word(cache: Cache, builder: Builder, kind: str) -> None:
    """It becomes a folder's name."""
    with pytest.raises(CacheError, match="kind"):
        cache.obtain(kind, "s", {"v": "1"}, builder)


def test_nothing_is_written_before_it_is_needed(cache: Cache, root: Path) -> None:
    """Making, listing and clearing a cache creates no folder."""
    assert (cache.entries(), cache.total_bytes(), cache.clear().removed) == ((), 0, 0)
    assert not root.exists()


def test_git_ignores_the_cache(tmp_path: Path, builder: Builder) -> None:
    """Git sees no new file in a repository that holds a cache."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)  # noqa: S607 - whatever git the user has
    Cache(tmp_path / "cache").obtain("engine", "s", {"v": "1"}, builder)
    command = ["git", "-C", str(tmp_path), "status", "--porcelain", "-uall"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == ""
    assert (tmp_path / "cache" / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55")


def test_somebody_elses_folder_is_not_ignored(tmp_path: Path, builder: Builder) -> None:
    """A folder that already holds files stays visible to git, and its files stay."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    cache = Cache(tmp_path / "mine")
    cache.obtain("engine", "s", {"v": "1"}, builder)
    cache.clear()
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"
    assert not (tmp_path / "mine" / ".gitignore").exists()
