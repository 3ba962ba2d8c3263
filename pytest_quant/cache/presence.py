"""Which living processes use a cache, and which of its entries."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from filelock import FileLock, Timeout

from pytest_quant.cache.files import IN_USE, LAST_USE

_FOLDER = ".live"


class Presence:
    """Registers this process as a user of a root, and checks which other registered processes are alive.

    A process id alone does not suffice: ids are reused, and mean nothing across containers that share a volume.

    Attributes
    ----------
    pid : of the process that made this object.
    token : name of the process in this root, ``<pid>-<random>``; registered as long as this object exists.
    """

    def __init__(self, root: Path) -> None:
        self._folder = root / _FOLDER
        self._folder.mkdir(exist_ok=True)
        self.pid = os.getpid()
        self.token = f"{self.pid}-{secrets.token_hex(4)}"
        self._lock = FileLock(self._folder / f"{self.token}.lock", thread_local=False)
        self._lock.acquire()

    def is_alive(self, token: str) -> bool:
        """Whether the process of `token` still runs; true when that cannot be determined."""
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
        """Unregister dead processes; the caller makes sure that none is being registered meanwhile."""
        for path in self._folder.glob("*.lock"):
            if not self.is_alive(path.stem):
                path.unlink(missing_ok=True)


def pid_of(token: str) -> str:
    """Return the process id that a token starts with."""
    return token.split("-")[0]


def mark_use(entry: Path, presence: Presence) -> None:
    """Mark `entry` as used by this process, and drop the marks of dead ones. Raises `OSError`."""
    markers = entry / IN_USE
    markers.mkdir(exist_ok=True)
    (markers / presence.token).touch()
    (entry / LAST_USE).touch()
    for marker in markers.iterdir():
        if not presence.is_alive(marker.name):
            marker.unlink(missing_ok=True)


def is_used(entry: Path, presence: Presence, *, by_others_only: bool) -> bool:
    """Whether a living process uses an entry.

    Parameters
    ----------
    entry : folder of the entry.
    presence : of this process in the root.
    by_others_only : do not count this process.
    """
    markers = entry / IN_USE
    if not markers.is_dir():
        return False
    tokens = [marker.name for marker in markers.iterdir()]
    return any(presence.is_alive(token) for token in tokens if not (by_others_only and token == presence.token))
