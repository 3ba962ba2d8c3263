"""One builder for each entry; the others wait and say for whom."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from pytest_quant.cache.layout import lock_path, temporary_paths
from pytest_quant.cache.presence import Presence, pid_of

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
