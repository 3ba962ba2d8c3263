"""Files that are whole or absent, whatever happens to the process or the machine."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path


def files_below(folder: Path) -> list[Path]:
    """Every file below `folder`, sorted."""
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


def flush_to_disk(folder: Path) -> None:
    """Return when every file and folder below `folder` would survive a loss of power."""
    for path in [*folder.rglob("*"), folder]:
        _fsync(path)


def rename_durably(source: Path, target: Path) -> None:
    """Give `source` its final name, and return when the name would survive a loss of power."""
    source.rename(target)
    _fsync(target.parent)


def write_atomically(file: Path, content: bytes) -> None:
    """Put `content` in the place of `file` in one step: a reader sees the old file or the new one."""
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", delete=False) as temporary:
        temporary.write(content)
    try:
        Path(temporary.name).chmod(0o644)
        Path(temporary.name).replace(file)
    except OSError:
        remove(Path(temporary.name))
        raise


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
    """Sha256 of a file in hex, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def size_below(path: Path) -> int:
    """Bytes of every file below `path`; a file that vanishes meanwhile counts as none."""
    total = 0
    for found in [path, *path.rglob("*")]:
        try:
            total += 0 if found.is_dir() else found.lstat().st_size
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
