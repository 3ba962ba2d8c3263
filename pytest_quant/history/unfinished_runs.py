"""Runs that are not in the history: those that go on or were killed, and those that it could not take.

Finished checks are on the disk at once, so that a run that is killed loses at most the one under way. Each run has a
file of its own beside the history, one line for each check: the document of the run with that check alone, as an export
has it. The run deletes the file when its records are in the history. What a dead run left is added by the next one, or
by the next command that opens the history. A run is added once, by its id, whoever adds it.
A process holds a lock on the file of its run as long as it lives.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from pytest_quant.errors import HistoryError
from pytest_quant.files import write_whole
from pytest_quant.history.database import FOLDER, open_store, prepare_folder
from pytest_quant.history.json_lines import read_runs, run_line
from pytest_quant.history.rows import encode
from pytest_quant.printable import redact_address
from pytest_quant.record import SCHEMA, Encoded, Json, Record, Run
from pytest_quant.record.codec import plain

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

_SUFFIX = ".unfinished"
_LOCK = ".lock"
_READ_BYTES = 1 << 20


def _beginning(place: str | Path, root: Path) -> Path:
    """Return folder and first letters of the files of all runs that belong in the history at `place`.

    Those of a server lie in the project, by a digest of its address without the password.
    """
    address = str(place)
    if "://" not in address:
        return Path(address)
    digest = hashlib.sha256(redact_address(address).encode("utf-8", "backslashreplace")).hexdigest()
    return root / FOLDER / f"server-{digest[:16]}"


class Journal:
    """The finished checks of one run, written while it goes on.

    Parameters
    ----------
    place : file or database URL of the history that they belong in.
    root : of the project, for the files of a server's history.
    run : the run.

    Raises
    ------
    OSError, NotImplementedError : the file cannot be created or locked.
    """

    def __init__(self, place: str | Path, root: Path, run: Run) -> None:
        beginning = _beginning(place, root)
        prepare_folder(beginning.parent)
        self._file = beginning.with_name(f"{beginning.name}.{run.id}{_SUFFIX}")
        self._run = encode(plain(run, "run"))
        self._lock = _lock_of(self._file)
        # Before there is a file that another process could take for that of a dead run.
        self._lock.acquire(timeout=0)
        self._stream = self._file.open("xb", buffering=0)

    def keep(self, record: dict[str, Json]) -> None:
        """Put the JSON of a finished check on the disk. Raises `OSError` when that fails."""
        line = f'{{"schema":{SCHEMA},"run":{self._run},"checks":[{encode(record)}]}}\n'.encode()
        if self._stream.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # All that reading needs; the times of the file, which `fsync` writes too, cost as much again.
        os.fdatasync(self._stream.fileno())

    def close(self, *, stored: bool) -> None:
        """Give the file up: delete it where its checks are `stored`, else leave it to the next run."""
        self._stream.close()
        if stored:
            self._file.unlink(missing_ok=True)
        _release(self._lock)


@dataclass(frozen=True, slots=True)
class Recovered:
    """The checks of dead runs that were added to the history, and why files of others could not be.

    Attributes
    ----------
    runs, checks : how many were added.
    refused : a message for each file that was left as it is.
    """

    runs: int = 0
    checks: int = 0
    refused: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return what was added as a sentence, empty when nothing was."""
        if not self.runs:
            return ""
        many = f"{self.runs} runs that were" if self.runs > 1 else "1 run that was"
        have = "check of {} killed has" if self.checks == 1 else "checks of {} killed have"
        return f"{self.checks} finished {have.format(many)} been added to the history"


def recover(place: str | Path, root: Path) -> Recovered:
    """Add to the history at `place` the checks of runs that died; the files of those that live are left alone.

    Parameters
    ----------
    place : file or database URL of the history, which is created where there is none.
    root : of the project, for the files of a server's history.
    """
    store: Store | None = None
    runs = checks = 0
    refused: list[str] = []
    for file in _left(_beginning(place, root)):
        try:
            with _owned(file) as dead:
                if not dead:
                    continue
                unfinished = _read(file)
                if unfinished:
                    store = store or open_store(place)
                added = [store.append(run, records) for run, records in unfinished] if store else []
                runs += sum(added)
                checks += sum(len(records) for new, (_, records) in zip(added, unfinished, strict=True) if new)
                file.unlink(missing_ok=True)
        except (HistoryError, OSError, NotImplementedError) as error:
            refused.append(f"{file} holds checks of a run that was killed, and they cannot be added: {error}")
    return Recovered(runs, checks, tuple(refused))


def _left(beginning: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(beginning.parent))  # noqa: PTH208 - a name is all that is needed of most
    except OSError:
        return []
    # A run that died between its file and the lock of it left the lock alone.
    files = {name.removesuffix(_LOCK): None for name in names if name.startswith(f"{beginning.name}.")}
    return [beginning.with_name(name) for name in files if name.endswith(_SUFFIX)]


def _lock_of(file: Path) -> FileLock:
    return FileLock(f"{file}{_LOCK}")


def _release(lock: FileLock) -> None:
    lock.release()
    # Its name is that of one run, so that nobody who comes later waits for it.
    with suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)


@contextmanager
def _owned(file: Path) -> Iterator[bool]:
    """Hold the lock of a run's file; ``False`` where the run lives, or another process has just added it."""
    lock = _lock_of(file)
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


def _read(file: Path) -> list[tuple[Run, tuple[Record, ...]]]:
    """Return the runs of a file, in fact one, with the last record of each test. Raises `HistoryError`."""
    if not _cut_torn_line(file):
        return []
    runs: dict[str, Run] = {}
    last: dict[str, dict[str, Record]] = {}
    for run, records in read_runs(file):
        runs[run.id] = run
        for record in records:
            last.setdefault(run.id, {})[record.nodeid] = record
    return [(run, tuple(last.get(run.id, {}).values())) for run in runs.values()]


def _cut_torn_line(file: Path) -> int:
    """Cut off a last line without an end, whose check was under way, and return the bytes that are left."""
    size = at = 0
    with file.open("r+b") as stream:
        while chunk := stream.read(_READ_BYTES):
            end = chunk.rfind(b"\n")
            size = at + end + 1 if end >= 0 else size
            at += len(chunk)
        stream.truncate(size)
    return size


def set_aside(place: str | Path, run: Run, records: Sequence[Record | Encoded]) -> Path:
    """Write a run to a file of its own in the folder of the history, else in the temporary folder.

    Parameters
    ----------
    place : file or database URL of the history; for a URL the file goes to the working directory.
    run : the run.
    records : of all its checks.

    Returns
    -------
    The file, which ``pytest-quant history import`` reads.

    Raises
    ------
    HistoryError : neither folder can be written.
    """
    name, line = f"history-{run.id}.jsonl", run_line(run, records)
    beside = Path.cwd() if "://" in str(place) else Path(place).parent
    try:
        return _write(beside / name, line)
    except HistoryError:
        return _write(Path(tempfile.gettempdir()) / name, line)


def _write(file: Path, line: bytes) -> Path:
    """Write `line` to a file as a whole or not at all, and return the file. Raises `HistoryError`."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, line)
    except OSError as error:
        raise HistoryError(
            f"the records of this run cannot be written to {file}",
            value=error.strerror or str(error),
            fix="make room or make the folder writable, and run the tests again",
        ) from error
    return file
