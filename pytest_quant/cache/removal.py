"""Making room: what was not used for longest goes first, what a living process uses never."""

from __future__ import annotations

from pytest_quant.cache.entry import Cleared, StoredEntry
from pytest_quant.cache.listing import list_entries
from pytest_quant.cache.locking import try_hold_entry
from pytest_quant.cache.store import Store
from pytest_quant.cache.uses import is_used


def trim(store: Store, max_bytes: int) -> int:
    """Remove entries until at most `max_bytes` are left, and return what is left. Raises `OSError`."""
    stored = list_entries(store.root)
    total = sum(entry.size_bytes for entry in stored)
    for entry in reversed(stored):
        if total <= max_bytes:
            break
        if _remove(store, entry, by_others_only=False):
            total -= entry.size_bytes
    return total


def clear(store: Store, kind: str | None, slot: str | None) -> Cleared:
    """Remove entries of one kind, one slot or all, but none that another process uses. Raises `OSError`."""
    asked = [entry for entry in list_entries(store.root, kind) if slot is None or entry.slot == slot]
    removed = [entry for entry in asked if _remove(store, entry, by_others_only=True)]
    return Cleared(len(removed), sum(entry.size_bytes for entry in removed), len(asked) - len(removed))


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
