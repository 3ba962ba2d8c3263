"""Files that are to be written: what they would replace, and how a file of ours is known again.

The first line of each file says that it was written here, with a digest of the rest. So one that was changed since is
its author's, and no option lets it be overwritten.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_quant.errors import UsageError
from pytest_quant.whole_file import next_step, write_whole

State = Literal["new", "same", "ours", "changed", "theirs"]
"""What is at the place of a draft: nothing, the same file, another of ours, one of ours that was changed, any other."""

_MARKER = re.compile(r"# written by pytest-quant init \(([0-9a-f]{12})\)\n")


@dataclass(frozen=True, slots=True)
class Draft:
    """A file: its path, relative to the root with slashes, and its text with the marker line."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Put:
    """A draft, what is at its place, and whether it was written there."""

    draft: Draft
    state: State
    written: bool


def marked(path: str, body: str) -> Draft:
    """Return the draft of a file; every format that is written here has comments with a hash sign."""
    return Draft(path, f"# written by pytest-quant init ({_digest(body)})\n{body}")


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8")).hexdigest()[:12]


def is_ours(file: Path) -> bool:
    """Whether the file was written here, whatever became of it since."""
    try:
        return bool(_MARKER.match(file.read_bytes().decode("utf-8", "replace")))
    except OSError:
        return False


def state_of(root: Path, draft: Draft) -> State:
    """Return what is at the place of `draft`. Raises `UsageError` when it cannot be read, a folder for one."""
    file = root / draft.path
    # A link that leads nowhere is something, too.
    if not file.exists() and not file.is_symlink():
        return "new"
    try:
        text = file.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise _failed(draft.path, "read", error) from error
    if text == draft.text:
        return "same"
    marker = _MARKER.match(text)
    if marker is None:
        return "theirs"
    return "ours" if marker[1] == _digest(text[marker.end() :]) else "changed"


def put(root: Path, drafts: Iterable[Draft], *, force: bool, dry: bool = False) -> tuple[Put, ...]:
    """Write the drafts whose place is free, and look at all places before the first is written.

    Parameters
    ----------
    root : of the repository.
    drafts : the files.
    force : also overwrite files that were written here and not changed since.
    dry : write nothing.

    Raises
    ------
    UsageError : a place cannot be read or written.
    """
    found = [(draft, state_of(root, draft)) for draft in drafts]
    wanted: tuple[State, ...] = ("new", "ours") if force else ("new",)
    done = tuple(Put(draft, state, state in wanted and not dry) for draft, state in found)
    writing = [one.draft for one in done if one.written]
    for draft in writing:
        _check_folder(root, draft)
    for draft in writing:
        _write(root, draft)
    return done


def _check_folder(root: Path, draft: Draft) -> None:
    """Refuse a file whose folder cannot be made, because something else has its name."""
    above = next(folder for folder in (root / draft.path).parents if folder.exists())
    if not above.is_dir():
        raise _failed(draft.path, "written", NotADirectoryError(errno.ENOTDIR, f"{above} is a file"))


def _write(root: Path, draft: Draft) -> None:
    file = root / draft.path
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, draft.text.encode("utf-8"))
    except OSError as error:
        raise _failed(draft.path, "written", error) from error


def _failed(path: str, what: str, error: OSError) -> UsageError:
    no_right = isinstance(error, PermissionError)
    step = next_step(error, "give your user the right to write there" if no_right else "move what is there away")
    return UsageError(f"{path} cannot be {what}", value=error.strerror or str(error), fix=f"{step}, and run it again")
