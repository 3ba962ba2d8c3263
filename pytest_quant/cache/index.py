"""What a cache remembers about itself, so that a build need not look at each of its entries.

::

    <root>/.index/<digest of kind and slot>   key of the slot's last entry
    <root>/.index/bytes                       size of all entries, no less than it is

Both are hints: where one is missing or wrong, the entries themselves are asked.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

from pytest_quant.bounded import read_file
from pytest_quant.cache.files import LOCKS, OWN_FOLDER, is_key

_FOLDER = ".index"
_BYTES = "bytes"
_MOST_DIGITS = 18
_MOST_BYTES = 100


def last_key(root: Path, kind: str, slot: str) -> str | None:
    """Return the key of the last entry of a slot, which may be gone; ``None`` for a slot that is new.

    Parameters
    ----------
    root, kind, slot : folder of the cache, and kind and slot of the entry.
    """
    key = _read(_of_slot(root, kind, slot))
    return key if is_key(key) else None


def is_indexed(root: Path) -> bool:
    """Whether every slot of the cache is remembered: a cache of an older version has to be looked through first."""
    return (root / _FOLDER / _BYTES).exists()


def note_use(root: Path, kind: str, slot: str, key: str) -> None:
    """Remember an entry as the last one of its slot; where that cannot be written, nothing is remembered.

    Parameters
    ----------
    root, kind, slot, key : folder of the cache, and kind, slot and key of the entry.
    """
    path = _of_slot(root, kind, slot)
    if _read(path) != key:
        with suppress(OSError):
            _write(path, key)


def add_bytes(root: Path, size_bytes: int) -> int | None:
    """Add the size of a new entry, and return that of all entries; ``None`` where it is not known. Raises `OSError`.

    The size of entries that were removed is below 0.
    """
    with FileLock(root / LOCKS / "bytes.lock"):
        known = _read(root / _FOLDER / _BYTES)
        if not (known.isascii() and known.isdigit() and len(known) <= _MOST_DIGITS):
            return None
        _write(root / _FOLDER / _BYTES, str(int(known) + size_bytes))
        return int(known) + size_bytes


def set_bytes(root: Path, size_bytes: int) -> None:
    """Remember the size of all entries, as it was counted. Raises `OSError`."""
    with FileLock(root / LOCKS / "bytes.lock"):
        _write(root / _FOLDER / _BYTES, str(size_bytes))


def _of_slot(root: Path, kind: str, slot: str) -> Path:
    return root / _FOLDER / hashlib.sha256(f"{kind}\0{slot}".encode("utf-8", "backslashreplace")).hexdigest()


def _read(path: Path) -> str:
    try:
        return read_file(path, _MOST_BYTES).decode("ascii", "replace")
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=OWN_FOLDER, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    draft.write_text(text, encoding="ascii")
    draft.replace(path)
