"""One measurement at a time on each device, across the processes of this machine.

Builds and evaluation hold the device's lock shared, timing holds it exclusively: on a CPU the other worker's
build is the noise. A build that chooses kernels by their time holds it exclusively too. The operating system frees the
lock of a process that dies. A process must not ask for the exclusive lock while it holds the shared one, see
`DeviceLocks.hold_alone`.

The lock of a GPU is named by the UUID of its card: what is ``cuda:0`` in one process may be ``cuda:1`` in another. An
instance of a split card (MIG) has memory and cores of its own, and yet the lock is the card's: clocks, power limit and
heat are shared, so that work on one instance changes the times of the others.

A run that measures no latency waits for the device only where it builds so: else it holds the lock shared where that is
free, so that a later timing waits for it, and goes on without the lock while another process times. That timing is
protected by its design: it is interleaved with a null, so that a slowdown of all its engines cancels, any other one
shows in the null and makes the result INCONCLUSIVE, and a note with the figures names the load of other processes. It
may need more rounds; its verdict does not become wrong.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
from filelock import ReadWriteLock, Timeout

from pytest_quant.clocks import REAL, now
from pytest_quant.environment.gpu import cuda_gpu
from pytest_quant.errors import QuantError, UsageError
from pytest_quant.files import own_folder
from pytest_quant.host import common_folder, join_words
from pytest_quant.printable import clean, redact, shorten

FOLDER_VARIABLE = "PYTEST_QUANT_LOCKS"
"""Environment variable that names another folder for the locks of devices."""

LOCK_TIMEOUT_S = 600.0
"""Longest wait for a device, unless an option says otherwise."""

_WAIT_S = 2.0
_NOTE = ".holder"
"""Suffix of the file beside a lock that names its holder."""


def _folder() -> Path:
    """Return the folder of the locks: one of this user, in which nobody else can hold or replace a lock.

    Raises `OSError` where somebody else made the usual one.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return own_folder("locks", common_folder())
    Path(named).mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(named)


class DeviceLocks:
    """The locks of devices, as one run takes them.

    Parameters
    ----------
    notify : shows who is waited for, once a wait takes longer than 2 s.
    timeout_s : longest wait for a device in seconds.
    """

    def __init__(self, notify: Callable[[str], None], timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self._notify = notify
        self._timeout_s = timeout_s
        self._shares: Counter[Path] = Counter()

    @contextmanager
    def shared(self, *devices: str, waits: bool = True) -> Iterator[None]:
        """Hold devices together with other processes that build or evaluate.

        While another process times on one, this waits, or goes on without that device where `waits` is false.

        Raises
        ------
        QuantError : a device was not free in time; the message names who holds it.
        """
        with ExitStack() as shares:
            for device in sorted(set(devices)):
                lock, file = _lock(device)
                if waits:
                    self._take_share(lock, file, device)
                else:
                    with suppress(Timeout):
                        lock.acquire_read(0.0)
                        self._shares[file] += 1
                shares.callback(self._give_share_back, lock, file)
            yield

    @contextmanager
    def exclusive(self, *devices: str) -> Iterator[None]:
        """Hold devices alone; waits while other processes build, evaluate or time there. Raises as `shared` does."""
        with ExitStack() as held:
            for device in sorted(set(devices)):
                lock, file = _lock(device)
                self._wait(lock.acquire_write, file, f"waiting for {device}: another process uses it")
                held.callback(lock.release)
                held.enter_context(_note_holder(file))
            yield

    @contextmanager
    def hold_alone(self, device: str) -> Iterator[None]:
        """Hold `device` alone inside a block that shares it; nothing may run on it here in between.

        What this run shares is given back, since two that share a device and both want it alone would wait for each
        other, and taken again behind the block. Raises as `shared` does.
        """
        lock, file = _lock(device)
        shares = self._shares.pop(file, 0)
        for _ in range(shares):
            lock.release()
        try:
            with self.exclusive(device):
                yield
        finally:
            for _ in range(shares):
                self._take_share(lock, file, device)

    def _give_share_back(self, lock: ReadWriteLock, file: Path) -> None:
        # None is left where the device was not free, or was not taken again behind a block that had it alone.
        if self._shares[file]:
            self._shares[file] -= 1
            lock.release()

    def _take_share(self, lock: ReadWriteLock, file: Path, device: str) -> None:
        self._wait(lock.acquire_read, file, f"waiting for {device}: another process times an engine on it")
        self._shares[file] += 1

    def _wait(self, acquire: Callable[[float], object], file: Path, message: str) -> None:
        started, shown = REAL.perf_counter(), False
        while True:
            left_s = self._timeout_s - (REAL.perf_counter() - started)
            try:
                # One long wait inside SQLite could not be interrupted by Ctrl-C.
                acquire(max(0.0, min(_WAIT_S, left_s)))
            except Timeout as error:
                if left_s <= _WAIT_S:
                    raise QuantError(
                        f"{message}, and did so for {self._timeout_s:g} s",
                        value=_holder(file),
                        allowed="one measurement at a time on a device, builds and evaluations beside each other",
                        fix="end that process or let it go on; --quant-lock-timeout SECONDS waits longer",
                    ) from error
                if not shown:
                    self._notify(f"{message}: {_holder(file)}")
                shown = True
            else:
                return


def _lock(device: str) -> tuple[ReadWriteLock, Path]:
    gpu = cuda_gpu(device)
    name = device if gpu is None else gpu.card or device
    try:
        file = _folder() / f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}.lock"
        return ReadWriteLock(file, is_singleton=True), file
    except (OSError, RuntimeError, sqlite3.Error) as error:
        raise UsageError(
            "the locks of devices cannot be kept, and timing beside other work means nothing",
            value=str(error),
            allowed="a folder of this user on a local disk",
            fix=f"set the environment variable {FOLDER_VARIABLE} to one",
        ) from error


@contextmanager
def _note_holder(file: Path) -> Iterator[None]:
    """Write beside an exclusive lock, while the block runs, who holds it; if that cannot be written, write nothing."""
    shown = shorten(clean(redact(join_words(sys.orig_argv))), 160)
    note = file.with_suffix(_NOTE)
    with suppress(OSError):
        note.write_text(f"{os.getpid()} ({shown}) since {now():%H:%M:%S} UTC", "utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            note.unlink(missing_ok=True)


def _holder(file: Path) -> str:
    """Return the process that holds a lock alone, which `_note_holder` has written down; others are not known."""
    with suppress(OSError):
        note = file.with_suffix(_NOTE).read_text("utf-8")
        number = note.partition(" ")[0]
        # A process that was killed has left its note.
        if number.isdigit() and psutil.pid_exists(int(number)):
            return f"process {note}"
    return "it builds or evaluates, or runs in another container, and left no name"
