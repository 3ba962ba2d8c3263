"""Entries of the cache: where they lie, what they were made from, whether they are whole, and why an entry is built.

::

    <root>/<kind>/<key>/manifest.json           ingredients, facts and sizes of the files
    <root>/<kind>/<key>/files/                  output of the builder
    <root>/<kind>/<key>/last-use                its modification time is the last use
    <root>/<kind>/.<key>.<random>.tmp           an entry that is being built or removed
    <root>/.locks/<kind>-<key>.lock             held while the entry is looked up, built or removed
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from pytest_quant.clocks import now

JsonScalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Entry:
    """An entry of the cache, ready to be used.

    Attributes
    ----------
    key : sha256 of the kind and every ingredient, in hex.
    folder : contains the builder's output; nothing may be written to it.
    status : ``built`` just now, or ``hit``.
    reason : why it had to be built; empty for a hit.
    facts : values that the builder returned when it built the entry.
    """

    key: str
    folder: Path
    status: Literal["built", "hit"]
    reason: str
    facts: dict[str, JsonScalar]


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as the list of the cache shows it; its files have not been looked at.

    Attributes
    ----------
    folder : of the whole entry, manifest included.
    size_bytes : bytes on disk of all its files.
    created, last_used : seconds since the epoch.
    kind : type of the entry, for example ``engine``.
    slot : purpose of the entry, in words; entries of one slot replace each other as ingredients change.
    readable : ``False`` when the manifest is damaged; then slot and ingredients are empty.
    """

    kind: str
    slot: str
    key: str
    folder: Path
    size_bytes: int
    created: float
    last_used: float
    ingredients: dict[str, str]
    readable: bool = True


MANIFEST = "manifest.json"
FILES = "files"
"""Folder inside an entry with the builder's output."""

LAST_USE = "last-use"


class DamagedEntryError(Exception):
    """An entry that must not be used; the message names the file and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything known about an entry; `created` is seconds since the epoch, `files` has bytes by path in `FILES`."""

    slot: str
    ingredients: dict[str, str]
    facts: dict[str, JsonScalar]
    created: float
    files: dict[str, int]


def key_of(kind: str, ingredients: Mapping[str, str]) -> str:
    """Return the sha256 in hex over the kind and the sorted ingredients."""
    canonical = json.dumps([kind, dict(ingredients)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def write_manifest(folder: Path, slot: str, ingredients: Mapping[str, str], facts: Mapping[str, JsonScalar]) -> None:
    """Write the manifest of the entry in `folder`, whose files are complete. Raises `OSError`."""
    root = folder / FILES
    files = {path.relative_to(root).as_posix(): path.stat().st_size for path in root.rglob("*") if not path.is_dir()}
    manifest = asdict(Manifest(slot, dict(ingredients), dict(facts), now().timestamp(), files))
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False), encoding="utf-8")


def read_manifest(folder: Path, entry: Path | None = None) -> Manifest:
    """Read the manifest in `folder`, of what is or shall become the folder `entry`. Raises `DamagedEntryError`."""
    entry = entry or folder
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedEntryError(f"{MANIFEST}: {_words(error)}") from error
    if key_of(entry.parent.name, manifest.ingredients) != entry.name:
        raise DamagedEntryError(f"{MANIFEST}: belongs to another entry")
    return manifest


def verify(folder: Path) -> Manifest:
    """Return the manifest of the entry in `folder`, whose files are all there, with their sizes.

    Contents are not read again: an entry gets its name once all of it is on the disk. Raises `DamagedEntryError` when
    the entry is not what its manifest says.
    """
    manifest = read_manifest(folder)
    for name, size_bytes in manifest.files.items():
        try:
            present_bytes = (folder / FILES / name).stat().st_size
        except (OSError, ValueError) as error:
            raise DamagedEntryError(f"{name}: {_words(error)}") from error
        if present_bytes != size_bytes:
            raise DamagedEntryError(f"{name}: {present_bytes} bytes in place of {size_bytes}")
    return manifest


def _words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "missing"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def last_use(folder: Path) -> float:
    """Return when the entry in `folder` was last used, in seconds since the epoch. Raises `OSError`."""
    file = folder / LAST_USE
    return (file if file.exists() else folder).stat().st_mtime


_KEY = re.compile(r"[0-9a-f]{64}")


def list_entries(root: Path, kind: str = "*") -> tuple[StoredEntry, ...]:
    """Return the entries of a kind, or all, most recently used first; damaged ones are listed too, as not readable.

    Files in it that are not of the cache are skipped. Raises `OSError` when a folder cannot be read.
    """
    # Not through a link, behind which lies somebody else's.
    paths = [path for path in root.glob(f"{kind}/*") if _KEY.fullmatch(path.name) and not path.parent.is_symlink()]
    entries = [entry for path in sorted(paths) if (entry := _describe(path)) is not None]
    return tuple(sorted(entries, key=lambda entry: entry.last_used, reverse=True))


def _describe(folder: Path) -> StoredEntry | None:
    """Return an entry as the list shows it, ``None`` when it was removed meanwhile."""
    kind, key = folder.parent.name, folder.name
    try:
        last_used = last_use(folder)
        size_bytes = sum(path.lstat().st_size for path in [folder, *folder.rglob("*")] if not path.is_dir())
        manifest = read_manifest(folder)
    except OSError:
        return None
    except DamagedEntryError:
        return StoredEntry(kind, "", key, folder, size_bytes, last_used, last_used, {}, readable=False)
    return StoredEntry(kind, manifest.slot, key, folder, size_bytes, manifest.created, last_used, manifest.ingredients)


_HEX_DIGEST = re.compile(r"(?:[a-z0-9]+:)?([0-9a-f]{32,128})")
_MAX_TEXT = 60


def explain_build(slot: str, previous: Mapping[str, str] | None, ingredients: Mapping[str, str]) -> str:
    """Explain why an entry is built, by every ingredient that differs from the slot's last one.

    Parameters
    ----------
    slot : purpose of the entry, for the text.
    previous : ingredients of the most recently used entry of the slot; ``None`` when there is none.
    ingredients : of the entry to build.
    """
    if previous is None:
        return f"first build of {slot}"
    both = {name: (previous.get(name), ingredients.get(name)) for name in sorted(previous.keys() | ingredients.keys())}
    changes = ((name, _short(old), _short(new)) for name, (old, new) in both.items() if old != new)
    return "; ".join(f"{name} changed ({old} -> {new})" for name, old, new in changes)


def _short(text: str | None) -> str:
    """Return the beginning of a digest or of a long value; ``nothing`` for an ingredient that is not there."""
    text = "nothing" if text is None else text
    if digest := _HEX_DIGEST.fullmatch(text):
        return f"{digest[1][:8]}.."
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 2]}.."
