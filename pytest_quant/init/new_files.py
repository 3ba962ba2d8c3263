"""Files that are written where there is none; the first line says that they were written here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_quant.errors import UsageError
from pytest_quant.files import next_step, write_whole

MARKER = "# written by pytest-quant init\n"
"""The first line; every format that is written here has comments with a hash sign."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to write: its path, relative to the root with slashes, and its text."""

    path: str
    text: str


def content(file: Path) -> bytes:
    """Return what is in a file; nothing of one that cannot be read."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


def write_new(root: Path, files: Iterable[NewFile], *, dry: bool = False) -> tuple[str, ...]:
    """Write the files whose place is free, and return their paths. A link that leads nowhere is not free.

    Parameters
    ----------
    root : of the repository.
    files : to write.
    dry : write nothing, and return what would be written.

    Raises
    ------
    UsageError : a place cannot be written.
    """
    free = [file for file in files if not (root / file.path).exists() and not (root / file.path).is_symlink()]
    for file in () if dry else free:
        place = root / file.path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, file.text.encode())
        except OSError as error:
            step = next_step(error, "look at what is in its way, and at your right to write there")
            raise UsageError(
                f"{file.path} cannot be written", value=error.strerror or str(error), fix=f"{step}, and run it again"
            ) from error
    return tuple(file.path for file in free)
