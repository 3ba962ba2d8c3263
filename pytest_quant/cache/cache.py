"""The cache as the rest of the package sees it, kept below its cap by removing the least recently used entries."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_quant.cache.files import is_kind, size_below
from pytest_quant.cache.index import add_bytes, is_indexed, note_use, set_bytes
from pytest_quant.cache.manifest import Cleared, Entry, StorageFault, StoredEntry, key_of
from pytest_quant.cache.presence import is_used
from pytest_quant.cache.store import Build, Store, list_entries, try_hold_entry
from pytest_quant.cache.trust import is_below, refuse_others_folder
from pytest_quant.errors import CacheError


def trim(store: Store, max_bytes: int) -> int:
    """Remove entries until at most `max_bytes` are left, and return what is left. Raises `OSError`."""
    stored = list_entries(store.root)
    total = sum(entry.size_bytes for entry in stored)
    if not is_indexed(store.root):
        for entry in reversed(stored):
            note_use(store.root, entry.kind, entry.slot, entry.key)
    for entry in reversed(stored):
        if total <= max_bytes:
            break
        if _remove(store, entry, by_others_only=False):
            total -= entry.size_bytes
    set_bytes(store.root, total)
    return total


def clear(store: Store, kind: str | None, slot: str | None) -> Cleared:
    """Remove entries, except those that another process uses.

    Parameters
    ----------
    store : the folder of the cache.
    kind : remove entries of this kind only; ``None`` for every kind.
    slot : remove entries of this slot only; ``None`` for every slot.

    Raises
    ------
    OSError : the folder cannot be read or changed.
    """
    asked = [entry for entry in list_entries(store.root, kind) if slot is None or entry.slot == slot]
    removed = [entry for entry in asked if _remove(store, entry, by_others_only=True)]
    size_bytes = sum(entry.size_bytes for entry in removed)
    if removed:
        add_bytes(store.root, -size_bytes)
    return Cleared(len(removed), size_bytes, len(asked) - len(removed))


def _remove(store: Store, entry: StoredEntry, *, by_others_only: bool) -> bool:
    presence = store.presence()
    lock = try_hold_entry(store.root, entry.kind, entry.key)
    if lock is None:
        return False
    try:
        if is_used(entry.folder, presence, by_others_only=by_others_only):
            return False
        store.discard(entry.folder)
        return True
    finally:
        lock.release()


_MB = 10**6


def _silent(_: str) -> None:
    """Drop the message."""


class Cache:
    """Keeps results that are slow to build, under a key of everything they were made from.

    Several processes may use one root: one builds an entry, the others wait for it. An entry is published by one
    rename, so that a process that dies at any moment leaves complete entries only. A damaged entry is built again.
    Where the root cannot be written, builds go to a temporary folder of this process.

    Parameters
    ----------
    root : folder of the cache; it is created when first needed, with a .gitignore that excludes it.
    max_bytes : cap on the size of all entries; the least recently used ones are removed first. Entries in use by
        living processes stay, as long as the `Cache` that returned them exists.
    notify : shows a message to the user: which process this one waits for, and what could not be kept.
    trusted : folders that may be written to by others, and whose entries are taken though this user did not sign them.
    """

    def __init__(
        self,
        root: Path,
        max_bytes: int = 10 * 10**9,
        notify: Callable[[str], None] = _silent,
        trusted: Sequence[Path] = (),
    ) -> None:
        self.root = root
        self._max_bytes = max_bytes
        self._notify = notify
        self._is_trusted = is_below(root, trusted)
        self._store = Store(root, notify, is_trusted=self._is_trusted)
        self._spare: Store | None = None
        self._spare_folder: tempfile.TemporaryDirectory[str] | None = None
        self._cause = ""
        self._said_over_cap = False

    def obtain(self, kind: str, slot: str, ingredients: Mapping[str, str], build: Build) -> Entry:
        """Return the entry made from `ingredients`, building it when the cache does not have it.

        Parameters
        ----------
        kind : type of the entry, a lower-case word such as ``engine``.
        slot : purpose of the entry, in words; the reason of a rebuild names what differs from the slot's last entry.
        ingredients : name -> value or digest of everything that determines what `build` writes.
        build : writes into the empty folder it is given and returns facts to keep: name -> plain JSON scalar.

        Raises
        ------
        CacheError : the folder belongs to others, not even a temporary one can be written, or a fact is no plain JSON
            scalar.
            What `build` raises passes through, and leaves nothing behind.
        """
        if not is_kind(kind):
            raise CacheError(f"'{kind}' cannot be a kind of cache entry", allowed="lower-case letters, digits and '-'")
        if not self._is_trusted:
            refuse_others_folder(self.root)
        if self._spare is None:
            try:
                entry = self._store.obtain(kind, slot, ingredients, build)
            except StorageFault as fault:
                # A build may have asked this cache for a part of its own, and met the fault first.
                self._spare = self._spare or self._open_spare(slot, str(fault))
            else:
                if entry.status == "built":
                    self._trim(entry)
                return entry
        kept = self._store.look(kind, slot, key_of(kind, ingredients))
        return kept or self._obtain_spare(self._spare, kind, slot, ingredients, build)

    def _obtain_spare(self, spare: Store, kind: str, slot: str, ingredients: Mapping[str, str], build: Build) -> Entry:
        made = spare.look(kind, slot, key_of(kind, ingredients))
        if made is not None:
            return made
        self._notify(
            f"{slot} cannot be kept in {self.root}: {self._cause}. It is built for this run only, in {spare.root}. "
            "Next: make room or make the folder writable, or name another one with --quant-cache DIR"
        )
        try:
            reason = self._store.reason(kind, slot, ingredients)
        except OSError:
            reason = f"first build of {slot}"
        try:
            return spare.obtain(kind, slot, ingredients, build, reason)
        except StorageFault as fault:
            raise self._unwritable(slot, f"{spare.root}: {fault}") from fault

    def _open_spare(self, slot: str, cause: str) -> Store:
        self._cause = cause
        try:
            self._spare_folder = tempfile.TemporaryDirectory(prefix="pytest-quant-")
        except OSError as error:
            raise self._unwritable(slot, f"{tempfile.gettempdir()}: {error.strerror}") from error
        # With a key of its own, since that of the user may be what cannot be written.
        key = secrets.token_bytes()
        return Store(Path(self._spare_folder.name), self._notify, signing_key=lambda: key)

    def _unwritable(self, slot: str, second: str) -> CacheError:
        return CacheError(
            f"{slot} cannot be built: no folder can be written",
            value=f"{self.root}: {self._cause}; {second}",
            allowed="a cache folder, or else a temporary folder, that can be written and has room",
            fix="make room, or name another folder with --quant-cache DIR",
        )

    def _trim(self, added: Entry) -> None:
        """Keep the cache below its cap; its entries are only looked at where that is needed."""
        try:
            known = add_bytes(self.root, size_below(added.folder.parent))
            if known is not None and known <= self._max_bytes:
                return
            left = trim(self._store, self._max_bytes)
        except OSError as error:
            self._notify(f"the cache {self.root} could not be trimmed: {error.strerror or error}")
            return
        if left > self._max_bytes and not self._said_over_cap:
            self._said_over_cap = True
            cap_mb = self._max_bytes / _MB
            self._notify(
                f"the cache {self.root} holds {left / _MB:.0f} MB, above its cap of {cap_mb:.0f} MB: all is in use"
            )

    def entries(self) -> tuple[StoredEntry, ...]:
        """Return all entries, the most recently used first."""
        try:
            return list_entries(self.root)
        except OSError as error:
            raise self._unreadable(error) from error

    def total_bytes(self) -> int:
        """Return the bytes on disk of all entries."""
        return sum(entry.size_bytes for entry in self.entries())

    def clear(self, kind: str | None = None, slot: str | None = None) -> Cleared:
        """Remove the entries of one kind, of one slot, or all, except those that other processes use."""
        if not self.root.exists():
            return Cleared(0, 0, 0)
        try:
            return clear(self._store, kind, slot)
        except OSError as error:
            raise self._unreadable(error) from error

    def shrink(self, max_bytes: int) -> Cleared:
        """Remove the least recently used entries until at most `max_bytes` are left; what is in use stays."""
        if not self.root.exists():
            return Cleared(0, 0, 0)
        before = self.entries()
        try:
            left = trim(self._store, max_bytes)
        except OSError as error:
            raise self._unreadable(error) from error
        after = self.entries()
        freed = sum(entry.size_bytes for entry in before) - left
        return Cleared(len(before) - len(after), freed, len(after) if left > max_bytes else 0)

    def _unreadable(self, error: OSError) -> CacheError:
        return CacheError(
            f"the cache {self.root} cannot be read or changed",
            value=error.strerror or str(error),
            fix="check the folder's permissions, or name another one with --quant-cache DIR",
        )
