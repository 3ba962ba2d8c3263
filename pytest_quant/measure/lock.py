"""One measurement at a time on each device, across the processes of this machine.

Builds and evaluation hold the device's lock shared, timing holds it exclusively: on a CPU the other worker's
build is the noise. A build that chooses kernels by their time holds it exclusively too, see `alone_meanwhile`. The
operating system frees the lock of a process that dies. A process must not ask for the exclusive lock while it holds the
shared one.

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
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from filelock import AcquireReturnProxy, ReadWriteLock, Timeout

from pytest_quant.environment.gpu import cuda_gpu
from pytest_quant.errors import QuantError, UsageError
from pytest_quant.measure.holders import holders, noted

FOLDER_VARIABLE = "PYTEST_QUANT_LOCKS"
"""Environment variable that names another folder for the locks of devices."""

LOCK_TIMEOUT_S = 600.0
"""Longest wait for a device, unless an option says otherwise."""

_WAIT_S = 2.0
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OWNER_ONLY = 0o700


def _folder() -> Path:
    """Return the folder of the locks: one of this user, in which nobody else can hold or replace a lock."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return _made(Path(chosen))
    # The user's number: in a container it often has no name.
    name = f"pytest-quant-locks-{os.getuid()}"
    usual = _made(Path(tempfile.gettempdir()) / name)
    # Anybody may create a folder of that name; then all processes of this user go elsewhere.
    return usual if _is_own(usual) else _made(Path.home() / ".cache" / name)


def _made(folder: Path) -> Path:
    folder.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
    return folder


def _is_own(folder: Path) -> bool:
    """Whether the folder, and no link to one, belongs to this user; others are kept from writing to it."""
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
        return False
    if state.st_mode & _OTHERS_MAY_WRITE:
        folder.chmod(_OWNER_ONLY)
    return True


@contextmanager
def shared(device: str, notify: Callable[[str], None], timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold `device` together with other processes that build or evaluate; waits while one times on it.

    Raises
    ------
    QuantError : the device was not free within `timeout_s` seconds; the message names who holds it.
    """
    lock, file = _lock(device)
    waiting = f"waiting for {device}: another process times an engine on it"
    with _sharing(file, lambda: _held(lock.acquire_read, file, waiting, notify, timeout_s)):
        yield


@contextmanager
def shared_if_free(device: str) -> Iterator[None]:
    """Hold `device` together with other processes that build or evaluate; not at all while one times on it."""
    lock, file = _lock(device)
    with _sharing(file, lambda: _held_if_free(lock, file)):
        yield


@contextmanager
def alone_meanwhile(device: str, notify: Callable[[str], None], timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold `device` alone inside a block within one that shares it; nothing may run on it here in between.

    What this process shares is given back, since two that share a device and both want it alone would wait for each
    other, and taken again behind the block. Raises as `shared` does.
    """
    _, file = _lock(device)
    shares = tuple(_SHARES.get(file, ()))
    for share in shares:
        share.give_back()
    try:
        with exclusive(device, notify, timeout_s):
            yield
    finally:
        for share in shares:
            share.take()


class _Share:
    """A device that a block shares; `hold` makes the context that holds the lock."""

    def __init__(self, hold: Callable[[], AbstractContextManager[None]]) -> None:
        self._hold = hold
        self._held = ExitStack()

    def take(self) -> None:
        self._held.enter_context(self._hold())

    def give_back(self) -> None:
        self._held.close()


_SHARES: dict[Path, list[_Share]] = {}
"""What this process shares, by the file of the lock."""


@contextmanager
def _sharing(file: Path, hold: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    share = _Share(hold)
    share.take()
    _SHARES.setdefault(file, []).append(share)
    try:
        yield
    finally:
        _SHARES[file].remove(share)
        share.give_back()


@contextmanager
def _held_if_free(lock: ReadWriteLock, file: Path) -> Iterator[None]:
    try:
        held = lock.acquire_read(timeout=0.0)
    except Timeout:
        yield
        return
    try:
        with noted(file):
            yield
    finally:
        held.lock.release()


@contextmanager
def exclusive(device: str, notify: Callable[[str], None], timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold `device` alone; waits while other processes build, evaluate or time on it. Raises as `shared` does."""
    lock, file = _lock(device)
    with _held(lock.acquire_write, file, f"waiting for {device}: another process uses it", notify, timeout_s):
        yield


def _lock(device: str) -> tuple[ReadWriteLock, Path]:
    gpu = cuda_gpu(device)
    name = device if gpu is None else gpu.card or gpu.pci_bus_id or device
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
def _held(
    acquire: Callable[[float], AcquireReturnProxy[ReadWriteLock]],
    file: Path,
    message: str,
    notify: Callable[[str], None],
    timeout_s: float,
) -> Iterator[None]:
    """Hold a lock; show `message` with who holds it when that takes longer than 2 s, and again when one is stopped."""
    started = time.monotonic()
    told_stopped: set[int] | None = None
    while True:
        left_s = timeout_s - (time.monotonic() - started)
        try:
            # One long wait inside SQLite could not be interrupted by Ctrl-C.
            held = acquire(max(0.0, min(_WAIT_S, left_s)))
        except Timeout as error:
            now = holders(file)
            who = ", ".join(map(str, now)) or "a process that cannot be seen from here, in another container for one"
            if left_s <= _WAIT_S:
                raise _too_long(message, who, timeout_s) from error
            stopped = {holder.pid for holder in now if holder.stopped}
            if told_stopped is None or stopped - told_stopped:
                notify(f"{message}: {who}")
                told_stopped = stopped
        else:
            break
    try:
        with noted(file):
            yield
    finally:
        held.lock.release()


def _too_long(message: str, who: str, timeout_s: float) -> QuantError:
    return QuantError(
        f"{message}, and did so for {timeout_s:g} s",
        value=who,
        allowed="one measurement at a time on a device, builds and evaluations beside each other",
        fix="end that process or let it go on; --quant-lock-timeout SECONDS waits longer",
    )
