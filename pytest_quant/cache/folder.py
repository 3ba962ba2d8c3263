"""Folders that keep themselves out of git and out of backups."""

from __future__ import annotations

from pathlib import Path

_MARKS = {
    ".gitignore": b"# Created by pytest-quant: nothing here belongs into version control.\n*\n",
    "CACHEDIR.TAG": (
        b"Signature: 8a477f597d28d172789f06886806bc55\n"
        b"# This file marks a cache directory, see https://bford.info/cachedir/\n"
    ),
}


def create_ignored_folder(folder: Path) -> None:
    """Create `folder` with its parents and let it ignore itself for git.

    A folder that already holds something else is somebody's own: it is left as it is.
    Raises `OSError` when it cannot be created.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if {path.name for path in folder.iterdir()} <= _MARKS.keys():
        for name, content in _MARKS.items():
            (folder / name).write_bytes(content)
