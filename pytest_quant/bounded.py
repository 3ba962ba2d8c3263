"""What others may have written, read within bounds: ordinary files only, of limited size, and JSON of limited memory.

Whatever is wrong with a content is a `ValueError`, and whatever is wrong with a file an `OSError`, whose texts are
words for a message: the caller adds the file, the line or the run, and the next step.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import zlib
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path

MOST_JSON_VALUES = 10_000_000
"""Python takes some 80 bytes for each value, however short it is written: 800 MB in all."""

_NOT_FILES = (
    (stat.S_ISDIR, errno.EISDIR, "it is a folder, not a file"),
    (stat.S_ISFIFO, errno.EINVAL, "it is a named pipe, not a file"),
    (stat.S_ISSOCK, errno.EINVAL, "it is a socket, not a file"),
    (stat.S_ISCHR, errno.EINVAL, "it is a device, not a file"),
    (stat.S_ISBLK, errno.EINVAL, "it is a device, not a file"),
)


def open_file(path: Path) -> BufferedReader:
    """Open an ordinary file for reading; a link to one is one.

    Raises
    ------
    OSError : it cannot be opened, or it is something else, which is never waited for.
    """
    # Without it, opening a named pipe waits for a writer who may never come.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    for is_kind, number, words in _NOT_FILES:
        if is_kind(mode):
            os.close(descriptor)
            raise OSError(number, words, str(path))
    return os.fdopen(descriptor, "rb")


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
    ValueError : it is no JSON, is nested too deeply, or has more values than fit into memory.
    """
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    values = sum(map(content.count, (b",", b"[", b"{")))
    if values > MOST_JSON_VALUES:
        raise ValueError(f"it has {values} values, more than {MOST_JSON_VALUES}")
    try:
        found: object = json.loads(content.decode("utf-8-sig"), parse_int=parse_int)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    except RecursionError as error:
        raise ValueError("it is nested without end") from error
    except MemoryError as error:
        raise ValueError("it needs more memory than there is") from error
    return found
