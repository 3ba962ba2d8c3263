"""Telling a folder that cannot be written from a build that went wrong."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_PROBE_BYTES = 1 << 16


class StorageFault(Exception):  # noqa: N818 - it never leaves the package; a fault of the folder, not of the caller
    """The folder cannot be written; the text is the operating system's reason."""


@contextmanager
def storage() -> Iterator[None]:
    """Turn the `OSError` of our own file operations into a `StorageFault`."""
    try:
        yield
    except OSError as error:
        raise StorageFault(error.strerror or str(error)) from error


def storage_cause(error: BaseException, folder: Path) -> str | None:
    """Return why `folder` cannot be written when that is what made a builder fail, else ``None``.

    Runtimes report a full disk in words of their own, so the folder itself is asked by writing to it.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _NO_SPACE:
            return cause.strerror or str(cause)
        cause = cause.__cause__ or cause.__context__
    probe = folder / ".probe"
    try:
        probe.write_bytes(bytes(_PROBE_BYTES))
        probe.unlink()
    except OSError as refused:
        return refused.strerror or str(refused)
    return None
