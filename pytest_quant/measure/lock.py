"""One measurement at a time on each device, across the processes of this machine.

Builds and evaluation hold the device's lock shared, timing holds it exclusively: on a CPU the other worker's
build is the noise. The operating system frees the lock of a process that dies. A process must not ask for the
exclusive lock while it holds the shared one.

A run that measures no latency never waits: it holds the lock shared where that is free, so that a later timing waits
for it, and goes on without the lock while another process times. That timing is protected by its design: it is
interleaved with a null, so that a slowdown of all its engines cancels, any other one shows in the null and makes the
result INCONCLUSIVE, and a note with the figures names the load of other processes. It may need more rounds; its verdict
does not become wrong.
"""

from __future__ import annotations

import getpass
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import AcquireReturnProxy, ReadWriteLock, Timeout

from pytest_quant.errors import UsageError

FOLDER_VARIABLE = "PYTEST_QUANT_LOCKS"
"""Environment variable that names another folder for the locks."""

_WAIT_S = 2.0


def _folder() -> Path:
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    # The number comes first: in a container it often has no name.
    user = str(os.getuid()) if hasattr(os, "getuid") else re.sub(r"\W", "_", getpass.getuser())
    return Path(tempfile.gettempdir()) / f"pytest-quant-locks-{user}"


@contextmanager
def shared(device: str, notify: Callable[[str], None]) -> Iterator[None]:
    """Hold `device` together with other processes that build or evaluate; waits while one times on it."""
    lock = _lock(device)
    with _held(lock.acquire_read, f"waiting for {device}: another process times an engine on it", notify):
        yield


@contextmanager
def shared_if_free(device: str) -> Iterator[None]:
    """Hold `device` together with other processes that build or evaluate; not at all while one times on it."""
    try:
        held = _lock(device).acquire_read(timeout=0.0)
    except Timeout:
        yield
        return
    try:
        yield
    finally:
        held.lock.release()


@contextmanager
def exclusive(device: str, notify: Callable[[str], None]) -> Iterator[None]:
    """Hold `device` alone; waits while other processes build, evaluate or time on it."""
    lock = _lock(device)
    with _held(lock.acquire_write, f"waiting for {device}: another process uses it", notify):
        yield


def _lock(device: str) -> ReadWriteLock:
    folder = _folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return ReadWriteLock(folder / f"{re.sub(r'[^a-z0-9]+', '-', device.lower())}.lock", is_singleton=True)
    except (OSError, sqlite3.Error) as error:
        raise UsageError(
            "the locks of devices cannot be kept, and timing beside other work means nothing",
            value=f"{folder}: {error}",
            allowed="a folder of this user on a local disk",
            fix=f"set the environment variable {FOLDER_VARIABLE} to one",
        ) from error


@contextmanager
def _held(
    acquire: Callable[[float], AcquireReturnProxy[ReadWriteLock]], message: str, notify: Callable[[str], None]
) -> Iterator[None]:
    """Hold a lock; show `message` once when acquiring it takes longer than 2 s."""
    waited = 0
    while True:
        try:
            # One long wait inside SQLite could not be interrupted by Ctrl-C.
            held = acquire(_WAIT_S)
        except Timeout:
            waited += 1
            if waited == 1:
                notify(message)
        else:
            break
    try:
        yield
    finally:
        held.lock.release()
