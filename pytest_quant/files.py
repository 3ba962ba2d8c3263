"""Files: what others may have written is read within bounds, and what is written is written whole or not at all.

Whatever is wrong with a content is a `ValueError`, and whatever is wrong with a file an `OSError`, whose texts are
words for a message: the caller adds the file, the line or the run, and the next step. What is no file is written
through: a device, a named pipe, an open stream of this process such as ``/dev/stdout``.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

MOST_JSON_VALUES = 10_000_000
"""Python takes some 80 bytes for each value, however short it is written: 800 MB in all."""

FOLDER = ".quant"
"""Folder of the package below the root; a .gitignore inside excludes it from version control."""

_OWN_STREAM = re.compile(r"/proc/(?:self|thread-self|(?P<process>\d+)(?:/task/\d+)?)/fd/(?P<number>\d+)")
_MOST_LINKS = 40
_RIGHTS = 0o777


def open_file(path: Path) -> BufferedReader:
    """Open an ordinary file for reading; a link to one is one.

    Raises
    ------
    OSError : it cannot be opened, or it is something else, which is never waited for.
    """
    # Without it, opening a named pipe waits for a writer who may never come.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file", str(path))
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file", str(path))
    return os.fdopen(descriptor, "rb")


def prepare_folder(folder: Path) -> None:
    """Create a folder; one that is ours is excluded from version control. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    # Any other folder is the user's, who may want its files under version control.
    if folder.name == FOLDER and not ignore.exists():
        ignore.write_text(
            "# Created by pytest-quant: nothing here belongs into version control.\n*\n", encoding="utf-8"
        )


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


def parse_json(text: bytes | str, parse_int: Callable[[str], int] = int) -> object:
    """Return the value of a JSON text; bytes are UTF-8, with or without a mark at their beginning.

    Parameters
    ----------
    text : of any content; a comma or a bracket in a text inside counts as a value too.
    parse_int : reads a whole number; it raises `ValueError` for one that is not wanted.

    Raises
    ------
    ValueError : it is no JSON, as NaN is none, is nested too deeply, or has more values than fit into memory.
    """
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    values = sum(map(content.count, (b",", b"[", b"{")))
    if values > MOST_JSON_VALUES:
        raise ValueError(f"it has {values} values, more than {MOST_JSON_VALUES}")
    try:
        value: object = json.loads(content.decode("utf-8-sig"), parse_int=parse_int, parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    except RecursionError as error:
        raise ValueError("it is nested without end") from error
    except MemoryError as error:
        raise ValueError("it needs more memory than there is") from error
    return value


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no number of JSON")


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Give a stream whose bytes take the place of the file at `path` in one step when the block ends.

    They are on the disk before they get the name. Where the block raises, the disk is full, or the process is killed,
    what was at `path` stays. A link keeps pointing to the file, and the file keeps its rights. What is written to a
    device, a named pipe or an open stream goes out as it comes; a pipe waits for its reader, as in a shell.

    Raises
    ------
    PermissionError : the file at `path` is read-only; a folder that can be written would let it be replaced.
    OSError : it cannot be written.
    """
    target = _followed(path)
    number = _own_stream(target)
    if number is not None:
        # Opened by its name, a file would be written from its beginning, over what the process has written there.
        with os.fdopen(os.dup(number), "wb") as stream:
            for text in (sys.stdout, sys.stderr):
                text.flush()
            yield stream
        return
    there = _state(target)
    if there is not None and not stat.S_ISREG(there.st_mode) and not stat.S_ISDIR(there.st_mode):
        with os.fdopen(os.open(target, os.O_WRONLY), "wb") as stream:
            yield stream
        return
    if there is not None and stat.S_ISREG(there.st_mode):
        _refuse_read_only(target, there)
    # Beside it, because only a name on the same file system can be given in one step.
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if there is not None:
            draft.chmod(stat.S_IMODE(there.st_mode) & _RIGHTS)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Put `content` in the place of the file at `path`, as `whole_file` does."""
    with whole_file(path) as stream:
        stream.write(content)


def next_step(error: OSError, otherwise: str) -> str:
    """Return what to do where writing failed with `error`: make room where there is none, else what the caller says."""
    return "make room on the disk, or use another one" if error.errno in (errno.ENOSPC, errno.EDQUOT) else otherwise


def _followed(path: Path) -> Path:
    """Return what the links at `path` lead to, up to an open stream, whose own link would lead to its file."""
    for _ in range(_MOST_LINKS):
        path = Path(os.path.realpath(path.parent)) / path.name
        if _OWN_STREAM.fullmatch(str(path)) or not path.is_symlink():
            return path
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _own_stream(path: Path) -> int | None:
    """Return the descriptor that `path` names, where it is one of this process."""
    match = _OWN_STREAM.fullmatch(str(path))
    if match is None or match["process"] not in (None, str(os.getpid())):
        return None
    return int(match["number"])


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _refuse_read_only(path: Path, there: os.stat_result) -> None:
    # The superuser may write any file; that its owner wants it kept is told by the rights alone.
    if not there.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(path, os.W_OK):
        rights = stat.S_IMODE(there.st_mode)
        raise PermissionError(errno.EACCES, f"it is read-only, mode {rights:04o}, and is kept as it is", str(path))
