"""What a root holds, read without locks and without checking contents."""

from __future__ import annotations

from pathlib import Path

from pytest_quant.cache.durable import size_below
from pytest_quant.cache.entry import StoredEntry
from pytest_quant.cache.layout import LAST_USE, entry_paths
from pytest_quant.cache.manifest import DamagedEntryError, read_manifest


def list_entries(root: Path, kind: str | None = None) -> tuple[StoredEntry, ...]:
    """Entries below `root`, the last used first; broken ones are listed too, as not readable."""
    found = [_describe(path) for path in entry_paths(root, kind)]
    present = [entry for entry in found if entry is not None]
    return tuple(sorted(present, key=lambda entry: entry.last_used, reverse=True))


def last_used_ingredients(root: Path, kind: str, slot: str) -> dict[str, str] | None:
    """Ingredients of the entry of `slot` that was used last, ``None`` when there is none."""
    return next((entry.ingredients for entry in list_entries(root, kind) if entry.slot == slot), None)


def _describe(folder: Path) -> StoredEntry | None:
    """``None`` when the entry has gone since it was found."""
    try:
        touched = folder / LAST_USE
        last_used = (touched if touched.exists() else folder).stat().st_mtime
        size_bytes = size_below(folder)
    except OSError:
        return None
    kind, key = folder.parent.name, folder.name
    try:
        manifest = read_manifest(folder)
    except DamagedEntryError:
        return StoredEntry(kind, "", key, folder, size_bytes, last_used, last_used, {}, {}, readable=False)
    return StoredEntry(
        kind, manifest.slot, key, folder, size_bytes, manifest.created, last_used, manifest.ingredients, manifest.facts
    )
