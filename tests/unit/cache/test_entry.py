"""Keys follow contents and nothing else; damaged entries are built again; a rebuild says which ingredient differs."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.cache import Cache
from pytest_quant.cache.entry import explain_build, key_of
from tests.unit.cache.conftest import CONTENT, Builder, never

INGREDIENTS = st.dictionaries(st.text(), st.text(), min_size=1, max_size=6)


@given(ingredients=INGREDIENTS, seed=st.integers(0, 1000))
def test_the_order_of_ingredients_does_not_count(ingredients: dict[str, str], seed: int) -> None:
    """Equal ingredients in any order have one key."""
    items = list(ingredients.items())
    random.Random(seed).shuffle(items)  # noqa: S311 - an order, not a secret
    assert key_of("engine", dict(items)) == key_of("engine", ingredients)


@given(left=st.dictionaries(st.text(), st.text()), right=st.dictionaries(st.text(), st.text()))
def test_different_ingredients_have_different_keys(left: dict[str, str], right: dict[str, str]) -> None:
    """No separator inside a name or a value makes two sets of ingredients look alike."""
    assert (key_of("engine", left) == key_of("engine", right)) == (left == right)


def test_a_key_is_sha256_of_canonical_json() -> None:
    """Any program can compute a key."""
    assert key_of("engine", {"b": "2", "a": "1"}) == hashlib.sha256(b'["engine",{"a":"1","b":"2"}]').hexdigest()


OLD, NEW = "1a2b3c4d" + "0" * 56, "5e6f7a8b" + "0" * 56


def test_a_rebuild_names_every_change_and_nothing_else() -> None:
    """Changed, added and removed ingredients by name; digests and long values are shortened."""
    assert (
        explain_build("ort-int8-static of digits", None, {"model": NEW}) == "first build of ort-int8-static of digits"
    )
    old = {"a": "1", "b": "2", "same": "x", "model": OLD}
    new = {"a": "3", "c": "4", "same": "x", "model": f"sha256:{NEW}"}
    changes = "a changed (1 -> 3); b changed (2 -> nothing); c changed (nothing -> 4)"
    assert explain_build("s", old, new) == f"{changes}; model changed (1a2b3c4d.. -> 5e6f7a8b..)"
    assert len(explain_build("s", {"exclude": "n" * 1000}, {"exclude": ""})) < 120


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _flip(path: Path, at: int = 10, bit: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[at % len(content)] ^= bit
    path.write_bytes(content)


def _replaced(old: str, new: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(path.read_text().replace(old, new))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: list[tuple[str, Callable[[Path], object], str]] = [
    ("files/model.onnx", Path.unlink, "model.onnx: missing"),
    ("files/model.onnx", _truncate, f"model.onnx: {len(CONTENT) - 1} bytes in place of {len(CONTENT)}"),
    ("files/external", shutil.rmtree, "external/data.bin: missing"),
    ("manifest.json", Path.unlink, "manifest.json: missing"),
    ("manifest.json", _truncate, "manifest.json: "),
    ("manifest.json", lambda path: path.write_bytes(b"\xff\x00"), "manifest.json: "),
    ("manifest.json", lambda path: path.write_text('{"a":' * 100_000), "manifest.json: "),
    ("manifest.json", _replaced('"slot"', '"sort"'), "manifest.json: Object missing required field `slot`"),
    ("manifest.json", _replaced('"v": "1"', '"v": "2"'), "manifest.json: belongs to another entry"),
    ("files/model.onnx", _pipe, f"model.onnx: 0 bytes in place of {len(CONTENT)}"),
]


@pytest.mark.parametrize(("name", "damage", "reason"), DAMAGES, ids=[f"{row[0]}-{row[2]}" for row in DAMAGES])
def test_a_damaged_entry_is_built_again(
    cache: Cache, root: Path, name: str, damage: Callable[[Path], object], reason: str
) -> None:
    """The reason names the file; the new entry is whole and found again."""
    first = cache.obtain("engine", "s", {"v": "1"}, Builder())
    damage(first.folder.parent / name)
    assert [entry.readable for entry in cache.entries()] == [not reason.startswith("manifest")]
    again = cache.obtain("engine", "s", {"v": "1"}, Builder())
    assert again.status == "built"
    assert again.reason.startswith(f"cache entry damaged ({reason}")
    assert (again.folder / "model.onnx").read_bytes() == CONTENT
    assert Cache(root).obtain("engine", "s", {"v": "1"}, never).status == "hit"


def test_an_entry_under_another_key_is_not_used(cache: Cache) -> None:
    """A folder that was copied or renamed by hand does not pass for the entry it is not."""
    first = cache.obtain("engine", "s", {"v": "1"}, Builder())
    second = cache.obtain("engine", "s", {"v": "2"}, Builder())
    shutil.rmtree(second.folder.parent)
    shutil.copytree(first.folder.parent, second.folder.parent)
    again = cache.obtain("engine", "s", {"v": "2"}, Builder())
    assert again.reason == "cache entry damaged (manifest.json: belongs to another entry)"


def test_a_file_in_the_place_of_an_entry_is_replaced(cache: Cache) -> None:
    """Whatever lies where the entry should be goes."""
    first = cache.obtain("engine", "s", {"v": "1"}, Builder())
    shutil.rmtree(first.folder.parent)
    first.folder.parent.write_text("not a folder")
    assert [entry.readable for entry in cache.entries()] == [False]
    assert "cache entry damaged (manifest.json" in cache.obtain("engine", "s", {"v": "1"}, Builder()).reason


@settings(max_examples=40)
@given(at=st.integers(0, 10_000), bit=st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128]))
def test_a_flipped_bit_of_a_manifest_never_ends_a_run(at: int, bit: int) -> None:
    """After one flipped bit anywhere the entry is built again, or used as what its ingredients say that it is."""
    with TemporaryDirectory() as folder:
        cache = Cache(Path(folder))
        first = cache.obtain("engine", "s", {"v": "1"}, Builder())
        _flip(first.folder.parent / "manifest.json", at, bit)
        again = cache.obtain("engine", "s", {"v": "1"}, Builder())
        assert again.key == first.key
        assert (again.folder / "model.onnx").read_bytes() == CONTENT


def test_contents_are_not_read_again(cache: Cache) -> None:
    """A hit costs the same however large its files are; their sizes are those that were flushed to the disk."""
    first = cache.obtain("engine", "s", {"v": "1"}, Builder())
    _flip(first.folder / "model.onnx")
    assert cache.obtain("engine", "s", {"v": "1"}, never).status == "hit"
