"""Files: what others may have written is read within bounds, and what is written is written whole or not at all.

Whatever is wrong with a content is a `ValueError`, and whatever is wrong with a file an `OSError`, whose texts are
words for a message: the caller adds the file, the line or the run, and the next step, see `file_errors`. What is no
file is written through: a device, a named pipe, ``/dev/stdout``.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from pytest_quant.clocks import now
from pytest_quant.errors import QuantError
from pytest_quant.host import hold_folder, is_owned, is_shared, rename, user

FOLDER = ".quant"
"""Folder of the package below the root; a .gitignore inside excludes it from version control."""

_IGNORE = ".gitignore"
_NEW_S = 60.0
"""Age up to which a folder may be one that is not held yet."""


def open_file(path: Path) -> BufferedReader:
    """Open an ordinary file for reading; a link to an ordinary file counts.

    Raises
    ------
    OSError : it cannot be opened, or it is something else, which is never waited for.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file", str(path))
    return path.open("rb")


def prepare_folder(folder: Path) -> None:
    """Create a folder; a folder of ours is excluded from version control. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    # Any other folder is the user's, who may want its files under version control.
    if folder.name == FOLDER and not (folder / _IGNORE).exists():
        ignore(folder)


def ignore(folder: Path) -> None:
    """Exclude a folder from version control. Raises `OSError`."""
    (folder / _IGNORE).write_bytes(b"# Created by pytest-quant: nothing here belongs into version control.\n*\n")


def is_own(folder: Path) -> bool:
    """Tell whether nobody but this user can put files into a folder; into one behind a link who made that can.

    Raises `OSError` where it is not there.
    """
    state = folder.lstat()
    return stat.S_ISDIR(state.st_mode) and is_owned(state) and not is_shared(state)


def own_folder(purpose: str, place: Path | None = None) -> Path:
    """Return a folder of this user that others can neither read nor change, in the temporary one or in `place`.

    Raises `OSError` where it cannot be created, or somebody else made it.
    """
    folder = (place or Path(tempfile.gettempdir())) / f"pytest-quant-{purpose}-{user()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or not is_owned(folder.stat()):
        raise OSError(f"{folder} is a link, or belongs to another user")
    folder.chmod(0o700)
    return folder


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder that is removed with the block; folders that killed processes left are removed first."""
    place = None
    with suppress(OSError):
        place = own_folder("work")
        _remove_left(place)
    # What cannot be removed now, as a file that is still mapped, is removed by a later process.
    with tempfile.TemporaryDirectory(prefix="pytest-quant-", dir=place, ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        with hold_folder(folder):
            yield folder


def _remove_left(place: Path) -> None:
    for folder in place.iterdir():
        with suppress(OSError):
            if folder.is_dir() and now().timestamp() - folder.stat().st_mtime > _NEW_S:
                with hold_folder(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def read_file(path: Path, most_bytes: int) -> bytes:
    """Return the content of an ordinary file of at most `most_bytes`. Raises `OSError`."""
    with open_file(path) as stream:
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes", str(path))
    return content


def inflate(packed: bytes, most_bytes: int) -> bytes:
    """Return what zlib compressed into `packed`. Raises `ValueError` when it is damaged, or more than `most_bytes`."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(packed, most_bytes + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(content) > most_bytes:
        raise ValueError(f"it inflates to more than {most_bytes} bytes")
    if not unpacking.eof:
        raise ValueError("its end is missing")
    return content


def parse_json(text: bytes | str) -> object:
    """Return the value of a JSON text; bytes are UTF-8, with or without a mark at their beginning.

    Parameters
    ----------
    text : of any content.

    Raises
    ------
    ValueError : it is no JSON, as NaN is none, or is nested too deeply.
    """
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        value: object = json.loads(content.decode("utf-8-sig"), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    except RecursionError as error:
        raise ValueError("it is nested without end") from error
    return value


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no number of JSON")


@contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """Give a stream whose bytes take the place of the file at `path` in one step when the block ends.

    They are on the disk before they get the name. Where the block raises, the disk is full, or the process is killed,
    what was at `path` stays. A link keeps pointing to the file, and the file keeps its rights. What is written to a
    device, a named pipe or ``/dev/stdout`` goes out as it comes; a pipe waits for its reader, as in a shell.

    Raises
    ------
    PermissionError : the file at `path` is read-only; a folder that can be written would let it be replaced.
    OSError : it cannot be written.
    """
    number = {"/dev/stdout": 1, "/dev/stderr": 2}.get(path.as_posix())
    mode = path.stat().st_mode if path.exists() else 0
    if number or (mode and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)):
        sys.stdout.flush()
        sys.stderr.flush()
        # Opened by its name, a file would be written from its beginning, over what the process has written there.
        with os.fdopen(os.dup(number), "wb") if number else path.open("wb") as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))
    # The superuser may write any file; that its owner wants it kept is told by the rights alone.
    if stat.S_ISREG(mode) and not (mode & 0o222 and os.access(target, os.W_OK)):
        words = f"it is read-only, mode {stat.S_IMODE(mode):04o}, and is kept as it is"
        raise PermissionError(errno.EACCES, words, str(path))
    # Beside it, because only a name on the same file system can be given in one step.
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if mode:
            draft.chmod(stat.S_IMODE(mode) & 0o777)
        rename(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Put `content` in the place of the file at `path`, as `replace_file` does, in a folder that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as stream:
        stream.write(content)


def next_step(error: OSError, otherwise: str) -> str:
    """Return what to do after writing failed with `error`: make room on a full disk, else what the caller says."""
    return "make room on the disk, or use another disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else otherwise


@contextmanager
def file_errors(kind: type[QuantError], what: str, fix: str) -> Iterator[None]:
    """Raise an error of ours for an `OSError` of the block.

    A pipe that its reader has closed, such as head, is none: click ends without a message.

    Parameters
    ----------
    kind : of the error.
    what : sentence that names the file.
    fix : next step, unless the disk is full.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise kind(what, value=error.strerror or str(error), fix=next_step(error, fix)) from error
