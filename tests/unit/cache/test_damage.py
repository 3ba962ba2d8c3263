"""Damaged entries are built again: never used, never a crash."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.cache import Cache
from pytest_quant.cache.entry import canonical_json
from tests.unit.cache.conftest import CONTENT, Builder, never


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _flip(path: Path, at: int = 10, bit: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[at % len(content)] ^= bit
    path.write_bytes(content)


def _with(**changed: object) -> Callable[[Path], object]:
    """Return a change of a manifest's fields, ``None`` for one that goes, with a checksum that fits."""

    def change(path: Path) -> None:
        document = json.loads(path.read_text()) | changed
        body = {name: value for name, value in document.items() if value is not None}
        schema = {"schema": body.pop("schema")} if "schema" in body else {}
        del body["checksum"]
        checksum = hashlib.sha256(canonical_json(body)).hexdigest()
        path.write_text(json.dumps({**schema, **body, "checksum": checksum}))

    return change


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(target: str) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        path.unlink()
        path.symlink_to(target)

    return change


DAMAGES: list[tuple[str, Callable[[Path], object], str]] = [
    ("files/model.onnx", Path.unlink, "model.onnx: missing"),
    ("files/model.onnx", _truncate, f"model.onnx: {len(CONTENT) - 1} bytes in place of {len(CONTENT)}"),
    ("files/external", shutil.rmtree, "external/data.bin: missing"),
    ("manifest.json", Path.unlink, "manifest.json: missing"),
    ("manifest.json", _truncate, "manifest.json: cannot be read"),
    ("manifest.json", _flip, "manifest.json: "),
    ("manifest.json", lambda path: path.write_bytes(b"\xff\x00"), "manifest.json: cannot be read"),
    ("manifest.json", lambda path: path.write_text("[]"), "manifest.json: schema None in place of 2"),
    ("manifest.json", lambda path: path.write_text("NaN"), "manifest.json: cannot be read"),
    ("manifest.json", _with(schema=1), "manifest.json: schema 1 in place of 2"),
    ("manifest.json", lambda path: path.write_text("[" * 100_000), "manifest.json: cannot be read"),
    ("manifest.json", lambda path: path.write_text('{"a":' * 100_000), "manifest.json: cannot be read"),
    ("manifest.json", lambda path: path.write_text('{"n": ' + "9" * 5000 + "}"), "manifest.json: cannot be read"),
    ("manifest.json", _with(schema=None), "manifest.json: schema None in place of 2"),
    ("manifest.json", _with(files=None), "manifest.json: Object missing required field `files`"),
    ("manifest.json", _with(key=None), "manifest.json: Object missing required field `key`"),
    ("manifest.json", _with(files=[]), "manifest.json: Expected `object`, got `array`"),
    ("manifest.json", _with(files={"a": "much"}), "manifest.json: Expected `int`, got `str`"),
    ("manifest.json", _with(files={"\0": 1}), "\0: cannot be read"),
    ("manifest.json", _with(created="x"), "manifest.json: Expected `float`, got `str`"),
    ("manifest.json", _with(created=10**400), "manifest.json: "),
    ("manifest.json", _with(facts={"a": [1]}), "manifest.json: Expected "),
    ("manifest.json", _pipe, "manifest.json: it is a device or a pipe, not a file"),
    ("manifest.json", _link("/dev/zero"), "manifest.json: it is a device or a pipe, not a file"),
    ("files/model.onnx", _pipe, "model.onnx: no ordinary file"),
    ("files/model.onnx", _link("/dev/zero"), "model.onnx: no ordinary file"),
]


@pytest.mark.parametrize(("name", "damage", "reason"), DAMAGES, ids=[f"{row[0]}-{row[2]}" for row in DAMAGES])
def test_clearing_goes_on_where_an_entry_is_damaged(
    cache: Cache, name: str, damage: Callable[[Path], object], reason: str
) -> None:
    """It is listed and removed, and so are the others."""
    damage(cache.obtain("engine", "s", {"v": "1"}, Builder()).folder.parent / name)
    cache.obtain("engine", "s", {"v": "2"}, Builder())
    listed = {entry.readable for entry in cache.entries()}
    assert listed == ({True, False} if reason.startswith("manifest") else {True})
    assert cache.clear().removed == 2
    assert cache.entries() == ()


@pytest.mark.parametrize(("name", "damage", "reason"), DAMAGES, ids=[f"{row[0]}-{row[2]}" for row in DAMAGES])
def test_a_damaged_entry_is_built_again(
    cache: Cache, root: Path, name: str, damage: Callable[[Path], object], reason: str
) -> None:
    """The reason names the file; the new entry is whole and found again."""
    first = cache.obtain("engine", "s", {"v": "1"}, Builder())
    damage(first.folder.parent / name)
    assert len(cache.entries()) == 1
    again = cache.obtain("engine", "s", {"v": "1"}, Builder())
    assert again.status == "built"
    assert again.reason.startswith(f"cache entry damaged ({reason}")
    assert (again.folder / "model.onnx").read_bytes() == CONTENT
    assert Cache(root).obtain("engine", "s", {"v": "1"}, never).status == "hit"


def test_an_entry_under_another_key_is_not_used(cache: Cache) -> None:
    """A folder that was copied or renamed by hand does not pass for the entry it is not."""
    one = cache.obtain("engine", "s", {"v": "1"}, Builder())
    two = cache.obtain("engine", "s", {"v": "2"}, Builder())
    shutil.rmtree(two.folder.parent)
    shutil.copytree(one.folder.parent, two.folder.parent)
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
def test_a_flipped_bit_of_a_manifest_is_never_used(at: int, bit: int) -> None:
    """After one flipped bit anywhere the entry is built again, or nothing it says has changed."""
    with TemporaryDirectory() as folder:
        cache = Cache(Path(folder))
        first = cache.obtain("engine", "s", {"v": "1"}, Builder())
        _flip(first.folder.parent / "manifest.json", at, bit)
        again = cache.obtain("engine", "s", {"v": "1"}, Builder())
        assert again.facts == first.facts
        assert (again.folder / "model.onnx").read_bytes() == CONTENT


def test_contents_are_not_read_again(cache: Cache) -> None:
    """A hit costs the same however large its files are; their sizes are those that were flushed to the disk."""
    first = cache.obtain("engine", "s", {"v": "1"}, Builder())
    _flip(first.folder / "model.onnx")
    assert cache.obtain("engine", "s", {"v": "1"}, never).status == "hit"
