"""Files that are written whole or not at all: a reader sees the old one or the new one, never a part."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Give a stream whose bytes take the place of the file at `path` in one step when the block ends.

    They are on the disk before they get the name. Where the block raises, the disk is full, or the process is killed,
    what was at `path` stays.
    """
    # Beside it, because only a name on the same file system can be given in one step.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Put `content` in the place of the file at `path`, as `whole_file` does."""
    with whole_file(path) as stream:
        stream.write(content)
