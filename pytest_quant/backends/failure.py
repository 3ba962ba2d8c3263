"""What a library raised, as one error of ours: the step, the library's own words in brief, and a file with all of it.

An exporter or a quantizer fails with hundreds of lines. The message shows the first of them; the whole, with
the traceback, goes into a file that the message names. Backends do not know the cache, so the file lies in a folder of
the user's own below the system's temporary one. Its name is made from its text, so that the same failure writes one
file, and only the latest are kept.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_quant.errors import BuildError, QuantError
from pytest_quant.whole_file import write_whole

KEPT_FILES = 50
_LINES_SHOWN = 4
_LETTERS_SHOWN = 600
_NEXT = "read the end of that file; run the float model alone in its runtime first"


def told(error: BaseException) -> str:
    """Return the type and the first line of the text of `error`; of a chain, those of the error that began it."""
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    lines = [line.strip() for line in str(first).splitlines() if line.strip()]
    return f"{type(first).__name__}: {lines[0]}" if lines else type(first).__name__


def failed(
    what: str,
    error: BaseException,
    *,
    value: str | None = None,
    allowed: str | None = None,
    fix: str | None = None,
    kind: type[QuantError] = BuildError,
) -> QuantError:
    """Return the error to raise in place of `error`, which a library raised.

    Parameters
    ----------
    what : the step that failed, in words; it begins the message.
    error : the exception of the library; its traceback is written to the file that the message names.
    value : the library's own words, of which the first lines are shown; ``None`` for those that `told` returns.
    allowed : what would have worked; ``None`` where that is not known.
    fix : what the user can do; ``None`` where nothing is known to help.
    kind : class of the error that is returned.
    """
    text = "".join(traceback.format_exception(error))
    return failed_with_text(what, text, value=value or told(error), allowed=allowed, fix=fix, kind=kind)


def failed_with_text(
    what: str,
    text: str,
    *,
    value: str,
    allowed: str | None = None,
    fix: str | None = None,
    kind: type[QuantError] = BuildError,
) -> QuantError:
    """Return the error to raise for a failure that left only text and no exception, as one of another process does.

    Parameters
    ----------
    what : the step that failed, in words; it begins the message.
    text : everything that the library wrote; it goes into the file that the message names.
    value : the library's own words, of which the first lines are shown, up to a traceback.
    allowed : what would have worked; ``None`` where that is not known.
    fix : what the user can do; ``None`` where nothing is known to help.
    kind : class of the error that is returned.
    """
    kept = keep_text(f"{what}\n\n{text}")
    return kind(what, value=_shortened(value), allowed=allowed, fix=fix, log=None if kept is None else str(kept))


@contextmanager
def failing_as(what: str, fix: str = _NEXT) -> Iterator[None]:
    """Turn whatever is raised in the block, except our own errors, into a `BuildError` whose message is `what`."""
    try:
        yield
    except QuantError:
        raise
    except Exception as error:
        raise failed(what, error, fix=fix) from error


def keep_text(text: str) -> Path | None:
    """Write `text` into a file of its own and return it; ``None`` where nothing can be written."""
    content = text.encode("utf-8", "replace")
    name = hashlib.sha256(content).hexdigest()[:12]
    try:
        folder = _folder()
        file = folder / f"{name}.txt"
        write_whole(file, content)
        _forget_old(folder)
    except OSError:
        return None
    return file


def _folder() -> Path:
    """A folder of that name that belongs to someone else is not used: what it holds could be read there."""
    folder = Path(tempfile.gettempdir()) / f"pytest-quant-errors-{_user()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or (hasattr(os, "getuid") and folder.stat().st_uid != os.getuid()):
        return Path(tempfile.mkdtemp(prefix="pytest-quant-errors-"))
    return folder


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else getpass.getuser()


def _forget_old(folder: Path) -> None:
    files = sorted(folder.glob("*.txt"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[KEPT_FILES:]:
        file.unlink(missing_ok=True)


def _shortened(text: str) -> str:
    """Return the first lines, up to where a traceback begins; the rest is in the file."""
    lines = [line for line in text.splitlines() if line.strip()]
    begins = next((place for place, line in enumerate(lines) if line.startswith("Traceback (most recent")), len(lines))
    shown = "\n".join(lines[:begins][:_LINES_SHOWN]) or "nothing but a traceback"
    return shown if len(shown) <= _LETTERS_SHOWN else f"{shown[:_LETTERS_SHOWN]} ..."
