"""Who holds a lock: a note beside it for each process, so that whoever waits can tell for whom."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pytest_quant.printable import clean
from pytest_quant.redact import redact

_SUFFIX = ".holder"
_LETTERS_SHOWN = 160
_CLOCK_S = 2.0
"""The start of a process is known to a tick, and the clock may be set."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a lock.

    Attributes
    ----------
    pid : its number.
    command : how it was called, without secrets.
    since : when it took the lock, UTC.
    stopped : it does not run until somebody continues it (SIGSTOP, Ctrl-Z, a debugger).
    """

    pid: int
    command: str
    since: datetime
    stopped: bool

    def __str__(self) -> str:
        """Return process, command and time, and what continues a stopped one."""
        stopped = f"; it is STOPPED, and kill -CONT {self.pid} lets it go on" if self.stopped else ""
        return f"process {self.pid} ({self.command}) since {self.since:%H:%M:%S} UTC{stopped}"


@contextmanager
def noted(lock: Path) -> Iterator[None]:
    """Note while the block runs that this process holds the lock; where no note can be written there is none."""
    # All of it is in the name, so that no reader sees a part.
    since_ms = round(datetime.now(UTC).timestamp() * 1000)
    note = lock.with_name(f"{lock.stem}.{os.getpid()}.{since_ms}.{secrets.token_hex(4)}{_SUFFIX}")
    with suppress(OSError):
        note.touch(mode=0o600)
    try:
        yield
    finally:
        with suppress(OSError):
            note.unlink(missing_ok=True)


def holders(lock: Path) -> list[Holder]:
    """Return the other processes that hold the lock, the longest first; the notes of dead ones are deleted."""
    found = []
    for note in lock.parent.glob(f"{lock.stem}.*{_SUFFIX}"):
        holder = _read(note)
        if holder is None:
            with suppress(OSError):
                note.unlink(missing_ok=True)
        elif holder.pid != os.getpid():
            found.append(holder)
    return sorted(found, key=lambda holder: holder.since)


def _read(note: Path) -> Holder | None:
    """Return the process of a note; ``None`` where it is dead, and its number perhaps another one's."""
    # Here, because only who waits needs it.
    import psutil

    try:
        _, pid, since_ms, _, _ = note.name.rsplit(".", 4)
        since = datetime.fromtimestamp(int(since_ms) / 1000, UTC)
        process = psutil.Process(int(pid))
        if process.create_time() > since.timestamp() + _CLOCK_S:
            return None
        state = process.status()
        command = clean(redact(shlex.join(process.cmdline())))
    except (ValueError, OverflowError, OSError, psutil.Error):
        return None
    stopped = state in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    shown = command if len(command) <= _LETTERS_SHOWN else f"{command[:_LETTERS_SHOWN]}..."
    return None if state == psutil.STATUS_ZOMBIE else Holder(int(pid), shown, since, stopped)
