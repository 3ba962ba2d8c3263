"""Folders of a cache: ignored by git, trusted as code is, and written so that they survive a loss of power."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from pathlib import Path

from pytest_quant.errors import CacheError

OWN_FOLDER = 0o755
"""Mode of folders of the cache: where the user's own mask lets a group write, others could put engines into it."""

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


def refuse_others_folder(root: Path) -> None:
    """Raise `CacheError` for a cache that another user owns or may write to, because its engines can run any code."""
    try:
        status = root.stat()
    except OSError:
        return
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        raise CacheError(
            f"the cache {root} belongs to another user, who may have put any code into it",
            value=f"user {status.st_uid}",
            allowed=f"user {os.geteuid()}",
            fix="name a folder of your own with --quant-cache DIR",
        )
    if mode & 0o022:
        raise CacheError(
            f"the cache {root} may be written to by others, who may have put any code into it",
            value=f"mode {mode:04o}",
            allowed="a folder that neither its group nor others may write to",
            fix=f"chmod go-w {shlex.quote(str(root))} if you trust all who could, or name another with "
            "--quant-cache DIR",
        )


def flush_to_disk(folder: Path) -> None:
    """Return when every file and folder below `folder` would survive a loss of power. Raises `OSError`."""
    for path in [*folder.rglob("*"), folder]:
        _fsync(path)


def rename_durably(source: Path, target: Path) -> None:
    """Give `source` its final name, and return when the name would survive a loss of power. Raises `OSError`."""
    source.rename(target)
    _fsync(target.parent)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
