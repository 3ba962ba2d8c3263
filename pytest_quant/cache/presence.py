"""What other processes see of a process: a lock that the operating system drops when the process dies."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from filelock import FileLock, Timeout

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
