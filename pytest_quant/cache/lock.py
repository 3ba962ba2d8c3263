"""One builder for each cache entry, and locks that vanish when their process dies."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from pytest_quant.cache.files import lock_path, temporary_paths

_FOLDER = ".live"


class Presence:
    """Tells the living from the dead among the processes that use one root.

    A process id alone would not do: ids are reused, and mean nothing across containers that share a volume.

    Attributes
    ----------
    pid : the process it stands for.
    token : its name in this root, ``<pid>-<random>``; in use until this object goes.
    """

    def __init__(self, root: Path) -> None:
        self._folder = root / _FOLDER
        self._folder.mkdir(exist_ok=True)
        self.pid = os.getpid()
        self.token = f"{self.pid}-{secrets.token_hex(4)}"
        self._lock = FileLock(self._folder / f"{self.token}.lock", thread_local=False)
        self._lock.acquire()

    def is_alive(self, token: str) -> bool:
        """Whether the process behind `token` still runs; when that cannot be told it is taken to."""
        path = self._folder / f"{token}.lock"
        if token == self.token:
            return True
        if not path.exists():
            return False
        lock = FileLock(path)
        try:
            lock.acquire(blocking=False)
        except (Timeout, OSError):
            return True
        lock.release()
        return False

    def remove_dead(self) -> None:
        """Forget processes that are gone; the caller sees to it that none is being registered meanwhile."""
        for path in self._folder.glob("*.lock"):
            if not self.is_alive(path.stem):
                path.unlink(missing_ok=True)


def pid_of(token: str) -> str:
    """The process id inside a token."""
    return token.split("-")[0]


_LOOK_EVERY_S = 0.25
_POLL_S = 0.02


def hold_entry(
    root: Path, kind: str, key: str, slot: str, presence: Presence, notify: Callable[[str], None]
) -> BaseFileLock:
    """Return the lock of an entry, held; the operating system frees it when a holder dies.

    Says once, through `notify`, which process builds the entry meanwhile. Raises `OSError` when the root cannot
    be written.
    """
    lock = FileLock(lock_path(root, kind, key))
    said = False
    while True:
        try:
            lock.acquire(timeout=_LOOK_EVERY_S, poll_interval=_POLL_S)
        except Timeout:
            builder = None if said else _builder(root, key, presence)
            if builder is not None:
                notify(f"waiting for process {builder} which builds {slot}")
                said = True
        else:
            return lock


def try_hold_entry(root: Path, kind: str, key: str) -> BaseFileLock | None:
    """Return the lock of an entry, held, or ``None`` when another process holds it."""
    lock = FileLock(lock_path(root, kind, key))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock


def _builder(root: Path, key: str, presence: Presence) -> str | None:
    """The id of the living process that builds `key`."""
    tokens = (token for _, building, token in temporary_paths(root) if building == key)
    return next((pid_of(token) for token in tokens if presence.is_alive(token)), None)
