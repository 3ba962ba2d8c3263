"""The manifest of an entry: what it was made from and what its files must be."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_quant.cache.durable import files_below, sha256_of
from pytest_quant.cache.entry import JsonScalar
from pytest_quant.cache.key import canonical_json, key_of

SCHEMA = 1
MANIFEST = "manifest.json"
FILES = "files"
"""Folder inside an entry that holds what the builder wrote."""


class DamagedEntryError(Exception):
    """An entry that must not be used; the text names the file and what is wrong with it."""


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
    folder: Path, *, kind: str, slot: str, ingredients: Mapping[str, str], facts: Mapping[str, JsonScalar]
) -> Manifest:
    """Describe the files that lie in `folder` and write that beside them.

    The manifest carries a checksum of itself, so that a fact changed by a broken disk is noticed too.
    """
    root = folder / FILES
    files = {
        path.relative_to(root).as_posix(): FileSum(path.stat().st_size, sha256_of(path)) for path in files_below(root)
    }
    key = key_of(kind, ingredients)
    manifest = Manifest(kind, slot, key, dict(ingredients), dict(facts), time.time(), files)
    body = {"schema": SCHEMA, **asdict(manifest)}
    document = {**body, "checksum": hashlib.sha256(canonical_json(body)).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps(document, indent=1, sort_keys=True, allow_nan=False), encoding="utf-8")
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of the entry in `folder`. Raises `DamagedEntryError`."""
    try:
        document = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        checksum = document.pop("checksum") if isinstance(document, dict) and "checksum" in document else ""
        actual = hashlib.sha256(canonical_json(document)).hexdigest()
    except (OSError, ValueError) as error:
        raise DamagedEntryError(f"{MANIFEST}: {_words(error)}") from error
    if checksum != actual:
        raise DamagedEntryError(f"{MANIFEST}: contents changed")
    if document["schema"] != SCHEMA:
        raise DamagedEntryError(f"{MANIFEST}: schema {document['schema']} in place of {SCHEMA}")
    del document["schema"]
    files = {name: FileSum(**file) for name, file in document.pop("files").items()}
    return Manifest(files=files, **document)


def verify(folder: Path, key: str) -> Manifest:
    """Read every byte of the entry in `folder` and return its manifest. Raises `DamagedEntryError`."""
    manifest = read_manifest(folder)
    if manifest.key != key:
        raise DamagedEntryError(f"{MANIFEST}: belongs to another entry")
    for name, expected in manifest.files.items():
        path = folder / FILES / name
        try:
            size_bytes = path.stat().st_size
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
