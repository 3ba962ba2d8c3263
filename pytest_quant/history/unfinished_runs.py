"""Runs that are not in the history: those that go on or were killed, and those that it could not take.

Finished checks are on the disk at once, so that a run that is killed loses at most the one under way. Each run has a
file of its own beside the history, one line for each check: the document of the run with that check alone, as an export
has it. The run deletes the file when its records are in the history. What is left is added by the next run, by the next
command that opens the history, or by an import. A run is added once, by its id, whoever adds it.
A process holds a lock on the file of its run as long as it lives.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from pytest_quant.errors import HistoryError
from pytest_quant.files import FOLDER, prepare_folder
from pytest_quant.history import open_store
from pytest_quant.history.json_lines import read_runs
from pytest_quant.history.rows import encode
from pytest_quant.host import flush_data
from pytest_quant.printable import redact_address
from pytest_quant.record import SCHEMA, Json, Run
from pytest_quant.record.record import plain

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

SUFFIX = ".unfinished"
"""Of the file of a run that is not in the history yet."""

_LOCK = ".lock"


def _path_prefix(place: str | Path, root: Path) -> Path:
    """Return folder and first letters of the files of all runs that belong in the history at `place`.

    Those of a server lie in the project, by a digest of its address without the password.
    """
    address = str(place)
    if "://" not in address:
        return Path(address)
    digest = hashlib.sha256(redact_address(address).encode("utf-8", "backslashreplace")).hexdigest()
    return root / FOLDER / f"server-{digest[:16]}"


class UnfinishedRun:
    """The finished checks of one run, written while it goes on.

    Parameters
    ----------
    place : file or database URL of the history that they belong in.
    root : of the project, for the files of a server's history.
    run : the run.

    Attributes
    ----------
    file : beside the history, or in the project for that of a server.

    Raises
    ------
    OSError, NotImplementedError : the file cannot be created or locked.
    """

    def __init__(self, place: str | Path, root: Path, run: Run) -> None:
        beginning = _path_prefix(place, root)
        prepare_folder(beginning.parent)
        self.file = beginning.with_name(f"{beginning.name}.{run.id}{SUFFIX}")
        self._run = encode(plain(run, "run"))
        self._lock = FileLock(f"{self.file}{_LOCK}")
        # Before there is a file that another process could take for that of a dead run.
        self._lock.acquire(timeout=0)
        self._stream = self.file.open("xb", buffering=0)

    def keep(self, record: dict[str, Json]) -> None:
        """Put the JSON of a finished check on the disk. Raises `OSError` when that fails."""
        line = f'{{"schema":{SCHEMA},"run":{self._run},"checks":[{encode(record)}]}}\n'.encode()
        if self._stream.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # All that reading needs; the times of the file, which `fsync` writes too, cost as much again.
        flush_data(self._stream.fileno())

    def close(self, *, stored: bool) -> None:
        """Give the file up: delete it if its checks are `stored`, else leave it to the next run."""
        self._stream.close()
        if stored:
            self.file.unlink(missing_ok=True)
        _release(self._lock)


def recover(place: str | Path, root: Path) -> tuple[str, list[str]]:
    """Add to the history at `place` the checks that earlier runs left; the files of those that live are left alone.

    Parameters
    ----------
    place : file or database URL of the history, which is created where there is none.
    root : of the project, for the files of a server's history.

    Returns
    -------
    What was added as a sentence, empty when nothing was, and a message for each file that was left as it is.
    """
    store: Store | None = None
    runs = checks = 0
    refused: list[str] = []
    for file in _list_left_files(_path_prefix(place, root)):
        try:
            with _own_file(file) as is_free:
                if not is_free:
                    continue
                # The check of a last line without an end was under way.
                size = file.read_bytes().rfind(b"\n") + 1
                os.truncate(file, size)
                for run, records in list(read_runs(file)) if size else ():
                    store = store or open_store(place)
                    if store.append(run, records):
                        runs, checks = runs + 1, checks + len(records)
                file.unlink(missing_ok=True)
        except (HistoryError, OSError, NotImplementedError) as error:
            refused.append(f"{file} holds checks of an earlier run, and they cannot be added: {error}")
    some_checks, some_runs = (f"{n} {word}{'' if n == 1 else 's'}" for n, word in ((checks, "check"), (runs, "run")))
    return f"{some_checks} of {some_runs} that did not end well added to the history" if runs else "", refused


def _list_left_files(beginning: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(beginning.parent))  # noqa: PTH208 - a name is all that is needed of most
    except OSError:
        return []
    # A run that died between its file and the lock of it left the lock alone.
    files = {name.removesuffix(_LOCK): None for name in names if name.startswith(f"{beginning.name}.")}
    return [beginning.with_name(name) for name in files if name.endswith(SUFFIX)]


def _release(lock: FileLock) -> None:
    lock.release()
    # Its name is that of one run, so that nobody who comes later waits for it.
    with suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)


@contextmanager
def _own_file(file: Path) -> Iterator[bool]:
    """Hold the lock of a run's file; ``False`` if the run lives, or another process has just added it."""
    lock = FileLock(f"{file}{_LOCK}")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        # Not what another user has put there: a pipe would be waited for.
        yield file.is_file() and not file.is_symlink()
    finally:
        _release(lock)
