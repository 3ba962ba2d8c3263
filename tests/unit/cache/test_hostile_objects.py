"""Whoever may write to a bucket is trusted with engines, and still costs a run no minutes, no disk and no figure."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_quant.cache import Cache
from pytest_quant.cache import remote as module
from pytest_quant.cache.entry import MANIFEST, key_of
from pytest_quant.cache.remote import Remote
from tests.unit.cache.conftest import Builder, temporary_names

INGREDIENTS = {"model": "sha256:1"}
TERABYTE = 10**12

Write = Callable[[tarfile.TarFile], None]


def add(tar: tarfile.TarFile, name: str, content: bytes = b"", type: bytes = tarfile.REGTYPE) -> None:  # noqa: A002
    """Put a member into a tar."""
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = type, len(content), "manifest.json"
    tar.addfile(member, io.BytesIO(content))


def manifest(files: dict[str, int], ingredients: dict[str, str] = INGREDIENTS) -> bytes:
    """A manifest of the entry, which names these files."""
    return json.dumps({"slot": "s", "ingredients": ingredients, "facts": {}, "created": 0.0, "files": files}).encode()


def add_hole(tar: tarfile.TarFile, name: str, size_bytes: int) -> None:
    """Put a file of nothing but a hole into a tar, as GNU tar writes it: it has its size only when it is extracted."""
    member = tarfile.TarInfo(name)
    member.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    # One part, of no bytes at the end; and the size of the file. Behind them the sum of the header.
    end = b"\x80" + size_bytes.to_bytes(11, "big")
    header[386:410], header[483:495] = end + b"%011o\0" % 0, end
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    assert tar.fileobj is not None
    tar.fileobj.write(bytes(header))
    tar.offset += len(header)


def _named(*names: str, files: dict[str, int] | None = None) -> Write:
    def write(tar: tarfile.TarFile) -> None:
        add(tar, MANIFEST, manifest(dict.fromkeys(names, 0) if files is None else files))
        for name in names:
            add(tar, f"files/{name}")

    return write


def _hole(files: dict[str, int]) -> Write:
    def write(tar: tarfile.TarFile) -> None:
        add(tar, MANIFEST, manifest(files))
        add_hole(tar, "files/hole", TERABYTE)

    return write


def _late_manifest(tar: tarfile.TarFile) -> None:
    add(tar, "files/a")
    add(tar, MANIFEST, manifest({"a": 0}))


def _instead(name: str, kind: bytes) -> Write:
    def write(tar: tarfile.TarFile) -> None:
        add(tar, MANIFEST, manifest({"a": 0}))
        add(tar, name, type=kind)

    return write


def _of_another_entry(tar: tarfile.TarFile) -> None:
    add(tar, MANIFEST, manifest({}, {"model": "sha256:2"}))


def _long_manifest(tar: tarfile.TarFile) -> None:
    add(tar, MANIFEST, manifest({}) + b" " * module.SMALL_BYTES)


def _folders(tar: tarfile.TarFile) -> None:
    add(tar, MANIFEST, manifest({}))
    for number in range(3_000):
        add(tar, f"files/{number}", type=tarfile.DIRTYPE)
    add(tar, "files/last")


OBJECTS: dict[str, tuple[Write, bytes]] = {
    "files that nobody named": (_named("a", "b", files={"a": 0}), b""),
    "a file of another size": (_named("a", files={"a": 1}), b""),
    "a file twice": (_named("a", "a", files={"a": 0}), b""),
    "a file too few": (_named(files={"a": 0}), b""),
    "three thousand files": (_named(*map(str, range(3_000))), b""),
    "three thousand folders": (_folders, b""),
    "a hole that nobody named": (_hole({}), b""),
    "a hole that does not fit": (_hole({"hole": TERABYTE}), b""),
    "a link in the place of a file": (_instead("files/a", tarfile.SYMTYPE), b""),
    "a hard link in the place of a file": (_instead("files/a", tarfile.LNKTYPE), b""),
    "a pipe in the place of a file": (_instead("files/a", tarfile.FIFOTYPE), b""),
    "a file above the entry": (_instead("../outside", tarfile.REGTYPE), b""),
    "a manifest at the end": (_late_manifest, b""),
    "a manifest without end": (_long_manifest, b""),
    "the manifest of another entry": (_of_another_entry, b""),
    "no manifest": (lambda tar: add(tar, "files/a"), b""),
    "nothing": (lambda _: None, b""),
    "made in no time": (_named("a"), b"00000000000.000\n"),
    "made in endless time": (_named("a"), b"            inf\n"),
    "made in no number": (_named("a"), b"            nan\n"),
    "made before it began": (_named("a"), b"           -1.0\n"),
    "made in words": (_named("a"), b"         a while\n"[:16]),
}


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[tuple[Remote, Path]]:
    """A folder as a store, and the place of the entry's object in it."""
    store = tmp_path / "store"
    remote = Remote(store.as_uri())
    place = store / "engine" / key_of("engine", INGREDIENTS)
    place.parent.mkdir(parents=True)
    yield remote, place
    remote.finish()


def put(place: Path, write: Write, head: bytes = b"") -> None:
    """Write an object whose digest is right."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        write(tar)
    digest = hashlib.sha256(stream.getvalue()).hexdigest().encode()
    place.write_bytes(digest + (head or b"00000000001.000\n") + stream.getvalue())


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_of_anything_else_than_an_entry_is_not_used(
    bucket: tuple[Remote, Path], tmp_path: Path, kind: str
) -> None:
    """The entry is built here, and nothing of the object is left or counted."""
    remote, place = bucket
    put(place, *OBJECTS[kind])
    said: list[str] = []
    cache = Cache(tmp_path / "cache", max_bytes=10**9, notify=said.append, remote=remote)
    assert cache.obtain("engine", "s", INGREDIENTS, Builder()).status == "built"
    traffic = remote.finish()
    assert (traffic.read, traffic.saved_s) == (0, 0.0)
    assert "is not used" in "".join((*traffic.notes, *said))
    assert temporary_names(cache.root) == []
    assert not list(tmp_path.rglob("outside"))
    assert sum(entry.size_bytes for entry in cache.entries()) < 10**6


def test_an_object_as_we_write_it_is_used(bucket: tuple[Remote, Path], tmp_path: Path) -> None:
    """What the tests above write is an object, but for what they change."""
    remote, place = bucket
    put(place, _named("a", "b/c"))
    entry = Cache(tmp_path / "cache", remote=remote).obtain("engine", "s", INGREDIENTS, Builder())
    assert (entry.status, (entry.folder / "b" / "c").read_bytes()) == ("hit", b"")
    assert remote.finish().read == 1
