"""The cache as the rest of the package sees it: entries are looked up, built, listed and removed."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from filelock import BaseFileLock, FileLock, Timeout

from pytest_quant.cache.entry import (
    FILES,
    LAST_USE,
    DamagedEntryError,
    Entry,
    JsonScalar,
    StoredEntry,
    explain_build,
    key_of,
    last_use,
    list_entries,
    verify,
    write_manifest,
)
from pytest_quant.clocks import REAL, now
from pytest_quant.errors import CacheError
from pytest_quant.files import ignore
from pytest_quant.host import flush, is_owned, is_shared, quote, rename, user

if TYPE_CHECKING:
    from pytest_quant.cache.remote import Remote

Build: TypeAlias = Callable[[Path], Mapping[str, JsonScalar]]
"""Writes into the empty folder it is given and returns facts about the output."""

LOCKS = ".locks"
_REMOVED = "the cache was removed while it was built"

_TEMPORARY = re.compile(r"\.(?P<key>[0-9a-f]{64})\.[0-9a-f]+\.tmp")
_SILENT_S = 0.25
_POLL_S = 0.02
_OWN_FOLDER = 0o755
"""Mode of folders of the cache: where the user's own mask lets a group write, others could put engines into it."""


@dataclass(eq=False)
class Cache:
    """Keeps results that are slow to build, under a key of everything they were made from.

    Several processes may use one root: one builds an entry, the others wait for it. An entry is published by one
    rename, so that a process that dies at any moment leaves complete entries only. A damaged entry is built again.

    Parameters
    ----------
    root : folder of the cache; it is created when first needed, with a .gitignore that excludes it.
    max_bytes : cap on the size of all entries; the least recently used ones are removed first, and none that was used
        in the last 24 h.
    notify : shows a message to the user: what this process waits for, and what could not be kept.
    remote : is asked for what is not here, and given what is built here; ``None`` for this folder alone.

    Attributes
    ----------
    root : the folder that entries are in.
    """

    root: Path
    max_bytes: int = 10 * 10**9
    notify: Callable[[str], object] = lambda _: None
    remote: Remote | None = None
    _is_open: bool = field(default=False, init=False)

    def obtain(
        self, kind: str, slot: str, ingredients: Mapping[str, str], build: Build, *, shared: bool = True
    ) -> Entry:
        """Return the entry made from `ingredients`, building it when the cache does not have it.

        Parameters
        ----------
        kind : type of the entry, a lower-case word such as ``engine``.
        slot : purpose of the entry, in words; the reason of a rebuild names what differs from the slot's last entry.
        ingredients : name -> value or digest of everything that determines what `build` writes.
        build : writes into the empty folder it is given and returns facts to keep: name -> plain JSON scalar.
        shared : it may come from another machine, and go to others: `ingredients` say of which kind it has to be.

        Raises
        ------
        CacheError : the folder belongs to others, is full or cannot be written.
            What `build` raises otherwise passes through, and leaves nothing behind.
        """
        folder, damage = self.root / kind / key_of(kind, ingredients), ""
        try:
            self._open(folder.parent)
            lock = self._hold(folder, slot)
        except OSError as error:
            # Nothing has to be kept where it is there: in the layers of an image, on a disk that is full.
            if (entry := self.find(kind, ingredients)) is not None:
                return entry
            raise self._fault(f"{slot} cannot be kept in", error) from error
        try:
            try:
                if (entry := _use_entry(folder)) is not None:
                    return entry
            except DamagedEntryError as error:
                damage = f"cache entry damaged ({error})"
            remote = self.remote if shared else None
            entry = None if remote is None else self._fetch(folder, slot, remote)
            if entry is None:
                began_s = REAL.perf_counter()
                entry = self._build(folder, slot, ingredients, build, damage)
                if remote is not None:
                    remote.send(folder, REAL.perf_counter() - began_s)
        finally:
            lock.release()
        try:
            self.shrink(self.max_bytes)
        except CacheError as error:
            self.notify(str(error))
        return entry

    def find(self, kind: str, ingredients: Mapping[str, str]) -> Entry | None:
        """Return the entry made from `ingredients` if it is here and whole, else ``None``; waits for nobody."""
        with suppress(DamagedEntryError):
            return _use_entry(self.root / kind / key_of(kind, ingredients))
        return None

    def _open(self, place: Path) -> None:
        """Create the root, which others may remove at any time, with the folder `place` in it. Raises `OSError`.

        What killed processes left in it is removed the first time.
        """
        _refuse_others_folder(self.root)
        self.root.mkdir(mode=_OWN_FOLDER, parents=True, exist_ok=True)
        # A folder that contains files already belongs to the user.
        if not any(self.root.iterdir()):
            ignore(self.root)
        for folder in (self.root / LOCKS, place):
            folder.mkdir(mode=_OWN_FOLDER, exist_ok=True)
        if self._is_open:
            return
        for path in self.root.glob("*/.*.tmp"):
            if match := _TEMPORARY.fullmatch(path.name):
                # A living process holds the lock of the entry that it builds.
                with suppress(Timeout), _lock_of(path.with_name(match["key"])).acquire(blocking=False):
                    _delete(path)
        self._is_open = True

    def _hold(self, folder: Path, slot: str) -> BaseFileLock:
        """Wait for the lock of an entry and return it, held; the operating system frees it when a holder dies."""
        lock = _lock_of(folder)
        try:
            lock.acquire(timeout=_SILENT_S, poll_interval=_POLL_S)
        except Timeout:
            self.notify(f"waiting for another process, which builds {slot}")
            lock.acquire(poll_interval=_POLL_S)
        return lock

    def _fetch(self, folder: Path, slot: str, remote: Remote) -> Entry | None:
        """Return an entry of the remote, whose lock is held; ``None`` if the remote has no usable entry."""
        temporary = _temporary_path(folder)
        try:
            with self._storage(f"{slot} cannot be kept in"):
                temporary.mkdir(mode=_OWN_FOLDER)
                if not remote.fetch(folder, temporary, self.max_bytes):
                    return None
                _publish(temporary, folder)
                return _use_entry(folder)
        except DamagedEntryError as error:
            self.notify(f"{slot} of the shared cache is not used: {error}")
            return None
        finally:
            _delete(temporary)

    def quiet(self) -> AbstractContextManager[None]:
        """Let nothing work in the background while the block measures time."""
        return nullcontext() if self.remote is None else self.remote.quiet()

    def _build(self, folder: Path, slot: str, ingredients: Mapping[str, str], build: Build, damage: str) -> Entry:
        """Build in a temporary folder, then rename it to the entry's path.

        Parameters
        ----------
        folder : of the entry, whose lock is held.
        slot, ingredients, build : as for `obtain`.
        damage : what is wrong with the entry that is there; empty when there is none.
        """
        kind, key = folder.parent.name, folder.name
        temporary = _temporary_path(folder)
        try:
            with self._storage(f"{slot} cannot be kept in"):
                self._open(folder.parent)
                temporary.mkdir(mode=_OWN_FOLDER)
                (temporary / FILES).mkdir(mode=_OWN_FOLDER)
            try:
                facts = dict(build(temporary / FILES))
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise self._fault(f"{slot} cannot be kept in", error) from error
                raise
            with self._storage(f"{slot} cannot be kept in"):
                stored = list_entries(self.root, kind)
                same = (entry.ingredients for entry in stored if entry.readable and entry.slot == slot)
                reason = damage or explain_build(slot, next(same, None), ingredients)
                write_manifest(temporary, slot, ingredients, facts)
                (temporary / LAST_USE).touch()
                _publish(temporary, folder)
        except BaseException as error:
            if isinstance(error, Exception) and damage != _REMOVED and not os.path.lexists(temporary):
                return self._build(folder, slot, ingredients, build, _REMOVED)
            _delete(temporary)
            raise
        return Entry(key, folder / FILES, "built", reason, facts)

    def entries(self) -> tuple[StoredEntry, ...]:
        """Return all entries, the most recently used first."""
        with self._storage("cannot read or change"):
            return list_entries(self.root)

    def clear(self, kind: str | None = None) -> tuple[list[StoredEntry], int]:
        """Remove the entries of one kind, or all, except those that a process builds or looks up at this moment.

        Return those that were removed, and the number of the others.
        """
        entries = [entry for entry in self.entries() if kind in (None, entry.kind)]
        with self._storage("cannot read or change"):
            removed = [entry for entry in entries if _remove(entry)]
        return removed, len(entries) - len(removed)

    def shrink(self, max_bytes: int) -> tuple[list[StoredEntry], int]:
        """Remove the least recently used entries until at most `max_bytes` are left.

        What was used in the last 24 h stays, because a running test may use it. Return what was removed, and the
        number of entries that stay although they are too large together; 0 where they fit into `max_bytes`.
        """
        removed: list[StoredEntry] = []
        day_ago = now().timestamp() - 24 * 3600.0
        with self._storage("cannot read or change"):
            entries = list_entries(self.root)
            left = sum(entry.size_bytes for entry in entries)
            for entry in reversed(entries):
                if left <= max_bytes or entry.last_used > day_ago:
                    break
                if _remove(entry):
                    removed.append(entry)
                    left -= entry.size_bytes
        return removed, len(entries) - len(removed) if left > max_bytes else 0

    @contextmanager
    def _storage(self, what: str) -> Iterator[None]:
        """Turn an `OSError` of our own file operations into a `CacheError` that begins with `what`."""
        try:
            yield
        except OSError as error:
            raise self._fault(what, error) from error

    def _fault(self, what: str, error: OSError) -> CacheError:
        return CacheError(
            f"{what} the cache {self.root}",
            value=error.strerror or str(error),
            allowed="a folder that can be written and has room",
            fix="make room, check the folder's permissions, or name another folder with --quant-cache DIR",
        )


def _refuse_others_folder(root: Path) -> None:
    """Raise `CacheError` for a cache that another user owns or may write to, because its engines can run any code."""
    try:
        status = root.stat()
    except OSError:
        return
    is_own = is_owned(status)
    if is_own and not is_shared(status):
        return
    mend = f"chmod go-w {quote(str(root))} if you trust all who could, or " if is_own else ""
    raise CacheError(
        f"the cache {root} may be written to by others, who may have put any code into it",
        value=f"user {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}",
        allowed=f"a folder of user {user()} that neither its group nor others may write to",
        fix=f"{mend}name a folder of your own with --quant-cache DIR",
    )


def _lock_of(folder: Path) -> BaseFileLock:
    """Return the lock of the entry in `folder`, which is not held yet."""
    return FileLock(folder.parents[1] / LOCKS / f"{folder.parent.name}-{folder.name}.lock")


def _temporary_path(folder: Path) -> Path:
    """Return a new path beside the entry in `folder`, on its file system, that no list of entries shows."""
    return folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.tmp")


def _use_entry(folder: Path) -> Entry | None:
    """Return the entry in a folder, marked as used now; ``None`` without an entry. Raises `DamagedEntryError`."""
    if not os.path.lexists(folder):
        return None
    manifest = verify(folder)
    with suppress(OSError):
        (folder / LAST_USE).touch()
    return Entry(folder.name, folder / FILES, "hit", "", manifest.facts)


def _publish(temporary: Path, folder: Path) -> None:
    """Give a whole entry its name, in place of a damaged entry. Raises `OSError`."""
    for path in (*temporary.rglob("*"), temporary):
        flush(path)
    _discard(folder)
    rename(temporary, folder)
    flush(folder.parent)


def _discard(folder: Path) -> None:
    """Remove an entry whose lock is held, atomically for other processes. Raises `OSError`."""
    gone = _temporary_path(folder)
    with suppress(FileNotFoundError):
        rename(folder, gone)
        _delete(gone)


def _remove(entry: StoredEntry) -> bool:
    """Remove a listed entry, unless a process holds its lock or used it since. Raises `OSError`."""
    with suppress(Timeout, FileNotFoundError), _lock_of(entry.folder).acquire(blocking=False):
        if last_use(entry.folder) <= entry.last_used:
            _discard(entry.folder)
            return True
    return False


def _delete(path: Path) -> None:
    """Remove a file or a folder; if that fails now, a later sweep removes it."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()
