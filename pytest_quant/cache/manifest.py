"""The manifest of a cache entry: its ingredients, which determine its key, and the checksums of its files."""

from __future__ import annotations

import errno
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from pytest_quant.bounded import parse_json, read_file
from pytest_quant.cache.files import files_below, sha256_of, size_of
from pytest_quant.cache.trust import is_signed, sign


def canonical_json(value: object) -> bytes:
    """Return JSON that is equal for equal values: keys sorted, no spaces, ASCII only. Raises `ValueError` on NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def key_of(kind: str, ingredients: Mapping[str, str]) -> str:
    """Return the sha256 in hex over the kind and the sorted ingredients."""
    return hashlib.sha256(canonical_json([kind, dict(ingredients)])).hexdigest()


_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_PROBE_BYTES = 1 << 16


class StorageFault(Exception):  # noqa: N818 - it never leaves the package; a fault of the folder, not of the caller
    """The folder cannot be written; the message is the operating system's reason."""


@contextmanager
def storage() -> Iterator[None]:
    """Turn the `OSError` of our own file operations into a `StorageFault`."""
    try:
        yield
    except OSError as error:
        raise StorageFault(error.strerror or str(error)) from error


def storage_cause(error: BaseException, folder: Path) -> str | None:
    """Return the reason why `folder` cannot be written if that made a builder fail, else ``None``.

    Runtimes report a full disk in their own words, so the folder is probed by writing to it.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _NO_SPACE:
            return cause.strerror or str(cause)
        cause = cause.__cause__ or cause.__context__
    probe = folder / ".probe"
    try:
        probe.write_bytes(bytes(_PROBE_BYTES))
        probe.unlink()
    except OSError as refused:
        return refused.strerror or str(refused)
    return None


JsonScalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the cache, ready to be used.

    Attributes
    ----------
    kind : type of the entry, for example ``engine``.
    slot : purpose of the entry, in words; entries of one slot replace each other as ingredients change.
    key : sha256 of the kind and every ingredient, in hex.
    folder : contains the builder's output; nothing may be written to it.
    status : ``built`` just now, or ``hit``.
    reason : why it had to be built; empty for a hit.
    facts : values that the builder returned when it built the entry.
    """

    kind: str
    slot: str
    key: str
    folder: Path
    status: Literal["built", "hit"]
    reason: str
    facts: dict[str, JsonScalar]


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as the list of the cache shows it; its files have not been verified.

    Attributes
    ----------
    folder : of the whole entry, manifest included.
    size_bytes : bytes on disk of all its files.
    created, last_used : seconds since the epoch.
    readable : ``False`` when the manifest is damaged; then slot, ingredients and facts are empty.
    """

    kind: str
    slot: str
    key: str
    folder: Path
    size_bytes: int
    created: float
    last_used: float
    ingredients: dict[str, str]
    facts: dict[str, JsonScalar]
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Cleared:
    """Entries that clearing removed, their bytes, and the entries that stayed because another process uses them."""

    removed: int
    freed_bytes: int
    in_use: int


SCHEMA = 1
MANIFEST = "manifest.json"
FILES = "files"
"""Folder inside an entry with the builder's output."""

_MOST_BYTES = 16_000_000
"""Of a manifest; one of ours has some kilobytes."""


class DamagedEntryError(Exception):
    """An entry that must not be used; the message names the file and what is wrong with it."""


class UnsignedEntryError(DamagedEntryError):
    """An entry that is whole, and that somebody else may have built."""


@dataclass(frozen=True, slots=True)
class FileSum:
    """Size and sha256 of one file."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything known about an entry; `created` is seconds since the epoch, `files` is by path below `FILES`."""

    kind: str
    slot: str
    key: str
    ingredients: dict[str, str]
    facts: dict[str, JsonScalar]
    created: float
    files: dict[str, FileSum]


def write_manifest(
    folder: Path,
    *,
    kind: str,
    slot: str,
    ingredients: Mapping[str, str],
    facts: Mapping[str, JsonScalar],
    signing_key: bytes,
) -> Manifest:
    """Write the manifest of an entry whose files are complete.

    The manifest contains a checksum of itself, so that facts changed by a broken disk are noticed too, and a signature,
    so that an entry that somebody else wrote is told from one of this user.

    Parameters
    ----------
    folder : of the entry; the builder's output is in its folder `FILES`.
    kind : type of the entry.
    slot : purpose of the entry, in words.
    ingredients : name -> value or digest of everything the entry was made from.
    facts : values that the builder returned.
    signing_key : of this user.
    """
    root = folder / FILES
    files = {
        path.relative_to(root).as_posix(): FileSum(path.stat().st_size, sha256_of(path)) for path in files_below(root)
    }
    key = key_of(kind, ingredients)
    manifest = Manifest(kind, slot, key, dict(ingredients), dict(facts), time.time(), files)
    body = {"schema": SCHEMA, **asdict(manifest)}
    content = canonical_json(body)
    document = {
        **body,
        "checksum": hashlib.sha256(content).hexdigest(),
        "signature": sign(signing_key, content),
    }
    (folder / MANIFEST).write_text(json.dumps(document, indent=1, sort_keys=True, allow_nan=False), encoding="utf-8")
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of the entry in `folder`, whoever wrote it. Raises `DamagedEntryError`."""
    return _read(folder)[0]


def _read(folder: Path) -> tuple[Manifest, bytes, str]:
    """Return the manifest, what its signature is of, and the signature, which is empty where there is none."""
    try:
        document = parse_json(read_file(folder / MANIFEST, _MOST_BYTES))
        written = document if isinstance(document, dict) else {}
        checksum, signature = (str(written.pop(name, "")) for name in ("checksum", "signature"))
        content = canonical_json(document)
        actual = hashlib.sha256(content).hexdigest()
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedEntryError(f"{MANIFEST}: {_words(error)}") from error
    if checksum != actual:
        raise DamagedEntryError(f"{MANIFEST}: contents changed")
    schema = written.pop("schema", None)
    if schema != SCHEMA:
        raise DamagedEntryError(f"{MANIFEST}: schema {str(schema)[:20]} in place of {SCHEMA}")
    try:
        return msgspec.convert(written, Manifest), content, signature
    except (ValueError, OverflowError, RecursionError) as error:
        raise DamagedEntryError(f"{MANIFEST}: {error}") from error


def verify(folder: Path, key: str, signing_key: bytes | None) -> Manifest:
    """Read every byte of an entry and return its manifest.

    Parameters
    ----------
    folder : of the entry.
    key : sha256 of kind and ingredients, in hex.
    signing_key : the key that must have signed it; ``None`` takes an entry of whoever wrote it.

    Raises
    ------
    DamagedEntryError : the entry is not what its manifest says.
    UnsignedEntryError : it is not signed with `signing_key`.
    """
    manifest, content, signature = _read(folder)
    if manifest.key != key:
        raise DamagedEntryError(f"{MANIFEST}: belongs to another entry")
    if signing_key is not None and not is_signed(signing_key, content, signature):
        raise UnsignedEntryError(
            f"{MANIFEST}: {'signed with another key' if signature else 'not signed'}, so others may have written it"
        )
    for name, expected in manifest.files.items():
        path = folder / FILES / name
        try:
            size_bytes = size_of(path)
            if size_bytes != expected.size_bytes:
                raise DamagedEntryError(f"{name}: {size_bytes} bytes in place of {expected.size_bytes}")
            if sha256_of(path) != expected.sha256:
                raise DamagedEntryError(f"{name}: contents changed")
        except OSError as error:
            raise DamagedEntryError(f"{name}: {_words(error)}") from error
    return manifest


def _words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "missing"
    return (error.strerror or str(error)) if isinstance(error, OSError) else "cannot be read"
