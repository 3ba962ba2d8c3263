"""Entries below one root: found, built and published, safe against other processes and sudden death."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from filelock import FileLock

from pytest_quant.cache.durable import flush_to_disk, remove, rename_durably
from pytest_quant.cache.entry import Entry, JsonScalar
from pytest_quant.cache.fault import StorageFault, storage, storage_cause
from pytest_quant.cache.folder import create_ignored_folder
from pytest_quant.cache.key import canonical_json, key_of
from pytest_quant.cache.layout import LOCKS, gone_path, temporary_path, temporary_paths
from pytest_quant.cache.listing import last_used_ingredients
from pytest_quant.cache.locking import hold_entry
from pytest_quant.cache.manifest import FILES, DamagedEntryError, verify, write_manifest
from pytest_quant.cache.presence import Presence
from pytest_quant.cache.reason import why_built
from pytest_quant.cache.uses import mark_use
from pytest_quant.errors import CacheError

Build: TypeAlias = Callable[[Path], Mapping[str, JsonScalar]]
"""Writes into the empty folder it is given and returns facts about that."""


class Store:
    """One root. Every method that writes raises `StorageFault` or `OSError` when the root cannot be written."""

    def __init__(self, root: Path, notify: Callable[[str], None]) -> None:
        self.root = root
        self._notify = notify
        self._presence: Presence | None = None

    def presence(self) -> Presence:
        """Create the root where needed, remove what dead processes left, and enter this process. Raises `OSError`."""
        if self._presence is None or self._presence.pid != os.getpid():
            create_ignored_folder(self.root)
            (self.root / LOCKS).mkdir(exist_ok=True)
            with FileLock(self.root / LOCKS / "sweep.lock"):
                self._presence = Presence(self.root)
                self._presence.remove_dead()
            self._sweep(self._presence)
        return self._presence

    def _sweep(self, presence: Presence) -> None:
        for path, _, token in temporary_paths(self.root):
            if not presence.is_alive(token):
                remove(path)

    def obtain(
        self, kind: str, slot: str, ingredients: Mapping[str, str], build: Build, reason: str | None = None
    ) -> Entry:
        """Return the entry, built when it is not there whole; `reason` replaces the one found here."""
        key = key_of(kind, ingredients)
        with storage():
            presence = self.presence()
            (self.root / kind).mkdir(exist_ok=True)
            lock = hold_entry(self.root, kind, key, slot, presence, self._notify)
        try:
            return self.look(kind, slot, key) or self._build(kind, slot, ingredients, build, reason)
        finally:
            lock.release()

    def look(self, kind: str, slot: str, key: str) -> Entry | None:
        """Return the entry if it is there whole, without asking that the root can be written."""
        folder = self.root / kind / key
        try:
            manifest = verify(folder, key)
        except DamagedEntryError:
            return None
        if self._presence is not None:
            with suppress(OSError):
                mark_use(folder, self._presence)
        return Entry(kind, slot, key, folder / FILES, "hit", "", manifest.facts)

    def reason(self, kind: str, slot: str, ingredients: Mapping[str, str]) -> str:
        """Say why an entry that `look` did not find has to be built."""
        key = key_of(kind, ingredients)
        folder = self.root / kind / key
        if os.path.lexists(folder):
            try:
                verify(folder, key)
            except DamagedEntryError as damage:
                return f"cache entry damaged ({damage})"
        return why_built(slot, last_used_ingredients(self.root, kind, slot), ingredients)

    def _build(self, kind: str, slot: str, ingredients: Mapping[str, str], build: Build, reason: str | None) -> Entry:
        """Build beside the entry's place, then put it there in one step."""
        key = key_of(kind, ingredients)
        folder = self.root / kind / key
        with storage():
            presence = self.presence()
            why = reason or self.reason(kind, slot, ingredients)
            temporary = temporary_path(self.root, kind, key, presence.token)
        try:
            with storage():
                (temporary / FILES).mkdir(parents=True)
            facts = _run(build, temporary / FILES, slot)
            with storage():
                write_manifest(temporary, kind=kind, slot=slot, ingredients=ingredients, facts=facts)
                mark_use(temporary, presence)
                flush_to_disk(temporary)
                self.discard(folder)
                rename_durably(temporary, folder)
        except BaseException:
            remove(temporary)
            raise
        return Entry(kind, slot, key, folder / FILES, "built", why, facts)

    def discard(self, folder: Path) -> None:
        """Remove an entry in one step as others see it. Raises `OSError`."""
        gone = gone_path(folder, self.presence().token)
        with suppress(FileNotFoundError):
            folder.rename(gone)
            remove(gone)


def _run(build: Build, folder: Path, slot: str) -> dict[str, JsonScalar]:
    try:
        facts = build(folder)
    except Exception as error:
        cause = storage_cause(error, folder)
        if cause is None:
            raise
        raise StorageFault(cause) from error
    return {name: _plain(name, value, slot) for name, value in facts.items()}


def _plain(name: str, value: JsonScalar, slot: str) -> JsonScalar:
    """The value as it will be read back."""
    try:
        if value is None or isinstance(value, (str, int, float)):
            plain: JsonScalar = json.loads(canonical_json(value))
            return plain
    except ValueError:
        pass
    raise CacheError(
        f"the builder of {slot} returned a fact that cannot be kept",
        value=f"{name}={value!r} ({type(value).__name__})",
        allowed="a finite number, a string, a bool or None, each of Python's own types",
        fix=f"return {name} as float(...) or leave it out",
    )
