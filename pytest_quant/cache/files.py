"""Files of the cache: durable writes, and the path of each file.

::

    <root>/<kind>/<key>/manifest.json     ingredients, facts and checksums of the entry
    <root>/<kind>/<key>/files/            output of the builder
    <root>/<kind>/<key>/last-use          its modification time is the last use
    <root>/<kind>/<key>/in-use/<token>    one for each process that uses the entry
    <root>/<kind>/.<key>.<token>.<random>.tmp   an entry being built, or being removed (key ``gone``)
    <root>/.locks/<kind>-<key>.lock       held while the entry is built, read or removed
    <root>/.index/                        what the cache remembers, see `pytest_quant.cache.index`
    <root>/.live/<token>.lock             held by the process of that token as long as it lives
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from pytest_quant.bounded import open_file


def files_below(folder: Path) -> list[Path]:
    """Return every file below `folder`, sorted."""
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


def flush_to_disk(folder: Path) -> None:
    """Return when every file and folder below `folder` would survive a loss of power."""
    for path in [*folder.rglob("*"), folder]:
        _fsync(path)


def rename_durably(source: Path, target: Path) -> None:
    """Give `source` its final name, and return when the name would survive a loss of power."""
    source.rename(target)
    _fsync(target.parent)


def _fsync(path: Path) -> None:
    # Windows opens no folder and refuses to flush what is open for reading only.
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file in hex, read in pieces."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def size_of(path: Path) -> int:
    """Return the bytes of an ordinary file. Raises `OSError` for anything else."""
    with open_file(path) as file:
        return os.fstat(file.fileno()).st_size


def size_below(path: Path) -> int:
    """Return the bytes of all files below `path`; a file that vanishes meanwhile counts as 0."""
    total = 0
    for file in [path, *path.rglob("*")]:
        try:
            total += 0 if file.is_dir() else file.lstat().st_size
        except FileNotFoundError:
            continue
    return total


def remove(path: Path) -> None:
    """Remove a file or a folder; one that cannot be removed now is left for a later sweep."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return


OWN_FOLDER = 0o755
"""Mode of folders of the cache: where the user's own mask lets a group write, others could put engines into it."""

LOCKS = ".locks"
LAST_USE = "last-use"
IN_USE = "in-use"

_KIND = re.compile(r"[a-z][a-z0-9-]*")
_KEY = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = re.compile(r"\.(?P<key>[0-9a-f]{64}|gone)\.(?P<token>[0-9]+-[0-9a-f]+)\.[0-9a-f]+\.tmp")


def is_kind(name: str) -> bool:
    """Whether `name` can be a kind of entry: it becomes a folder's name."""
    return _KIND.fullmatch(name) is not None


def is_key(name: str | None) -> bool:
    """Whether `name` can be the key of an entry: it is the name of the entry's folder."""
    return name is not None and _KEY.fullmatch(name) is not None


def lock_path(root: Path, kind: str, key: str) -> Path:
    """Return the path of an entry's lock.

    Parameters
    ----------
    root : folder of the cache.
    kind : of the entry.
    key : of the entry, sha256 in hex.
    """
    return root / LOCKS / f"{kind}-{key}.lock"


def temporary_path(root: Path, kind: str, key: str, token: str) -> Path:
    """Return a new path in the folder of an entry, on its file system, that no list of entries shows.

    Parameters
    ----------
    root : folder of the cache.
    kind : of the entry.
    key : of the entry, sha256 in hex.
    token : of this process, see `Presence`.
    """
    return root / kind / f".{key}.{token}.{secrets.token_hex(4)}.tmp"


def gone_path(entry: Path, token: str) -> Path:
    """Return a new path in the folder of `entry`, to rename it to before its removal."""
    return entry.with_name(f".gone.{token}.{secrets.token_hex(4)}.tmp")


def entry_paths(root: Path, kind: str | None = None) -> Iterator[Path]:
    """Yield the folder of every entry, of one kind or all; foreign files below the root are skipped."""
    yield from (path for path in _children(root, kind) if is_key(path.name))


def temporary_paths(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield every temporary folder with its key and the token of the process that made it."""
    for path in _children(root, None):
        if match := _TEMPORARY.fullmatch(path.name):
            yield path, match["key"], match["token"]


def _children(root: Path, kind: str | None) -> Iterator[Path]:
    if not root.is_dir():
        return
    for folder in [root / kind] if kind else sorted(root.iterdir()):
        if is_kind(folder.name) and folder.is_dir():
            yield from sorted(folder.iterdir())


_MARKS = {
    ".gitignore": b"# Created by pytest-quant: nothing here belongs into version control.\n*\n",
    "CACHEDIR.TAG": (
        b"Signature: 8a477f597d28d172789f06886806bc55\n"
        b"# This file marks a cache directory, see https://bford.info/cachedir/\n"
    ),
}


def create_ignored_folder(folder: Path) -> None:
    """Create `folder` with its parents, and mark it as a cache that git and backups skip.

    A folder that already contains other files belongs to the user and gets no marks. Raises `OSError` when the folder
    cannot be created.
    """
    folder.mkdir(mode=OWN_FOLDER, parents=True, exist_ok=True)
    if {path.name for path in folder.iterdir()} <= _MARKS.keys():
        for name, content in _MARKS.items():
            (folder / name).write_bytes(content)
