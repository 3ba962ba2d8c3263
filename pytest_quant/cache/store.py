"""Entries below one root: looked up, built and published, safe against other processes and sudden death."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from filelock import BaseFileLock, FileLock, Timeout

from pytest_quant.cache.files import (
    LAST_USE,
    LOCKS,
    OWN_FOLDER,
    create_ignored_folder,
    entry_paths,
    flush_to_disk,
    gone_path,
    lock_path,
    remove,
    rename_durably,
    size_below,
    temporary_path,
    temporary_paths,
)
from pytest_quant.cache.index import is_indexed, last_key, note_use
from pytest_quant.cache.manifest import (
    FILES,
    DamagedEntryError,
    Entry,
    JsonScalar,
    StorageFault,
    StoredEntry,
    UnsignedEntryError,
    canonical_json,
    key_of,
    read_manifest,
    storage,
    storage_cause,
    verify,
    write_manifest,
)
from pytest_quant.cache.presence import Presence, mark_use, pid_of
from pytest_quant.cache.reason import why_built
from pytest_quant.cache.trust import own_key
from pytest_quant.errors import CacheError

_LOOK_EVERY_S = 0.25
_POLL_S = 0.02


def hold_entry(
    root: Path, kind: str, key: str, slot: str, presence: Presence, notify: Callable[[str], None]
) -> BaseFileLock:
    """Wait for the lock of an entry and return it, held; the operating system frees it when a holder dies.

    Parameters
    ----------
    root, kind, key : folder of the cache, and kind and key of the entry.
    slot : purpose of the entry, for the message.
    presence : of this process in the root.
    notify : shows, once, a message with the process that builds the entry meanwhile.

    Raises
    ------
    OSError : the root cannot be written.
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
    """Return the lock of an entry, held, or ``None`` when another process holds it.

    Parameters
    ----------
    root, kind, key : folder of the cache, and kind and key of the entry.
    """
    lock = FileLock(lock_path(root, kind, key))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock


def _builder(root: Path, key: str, presence: Presence) -> str | None:
    """Return the id of the living process that builds `key`, ``None`` when there is none."""
    tokens = (token for _, building, token in temporary_paths(root) if building == key)
    return next((pid_of(token) for token in tokens if presence.is_alive(token)), None)


def list_entries(root: Path, kind: str | None = None) -> tuple[StoredEntry, ...]:
    """Return the entries below `root`, most recently used first; damaged ones are listed too, as not readable."""
    described = [_describe(path) for path in entry_paths(root, kind)]
    present = [entry for entry in described if entry is not None]
    return tuple(sorted(present, key=lambda entry: entry.last_used, reverse=True))


def last_used_ingredients(root: Path, kind: str, slot: str) -> dict[str, str] | None:
    """Return the ingredients of the most recently used entry of a slot, ``None`` when it has no entry.

    Parameters
    ----------
    root, kind, slot : folder of the cache, and kind and slot of the entries.
    """
    key = last_key(root, kind, slot)
    if key is None and is_indexed(root):
        return None
    if key is not None:
        with suppress(DamagedEntryError):
            return read_manifest(root / kind / key).ingredients
    return next((entry.ingredients for entry in list_entries(root, kind) if entry.slot == slot), None)


def _describe(folder: Path) -> StoredEntry | None:
    """Return an entry as the list shows it, ``None`` when it was removed meanwhile."""
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


Build: TypeAlias = Callable[[Path], Mapping[str, JsonScalar]]
"""Writes into the empty folder it is given and returns facts about the output."""


class Store:
    """One root. Every method that writes raises `StorageFault` or `OSError` when the root cannot be written.

    Parameters
    ----------
    root : folder of the entries.
    notify : shows a message to the user.
    is_trusted : take entries that are not signed, or signed with another key.
    signing_key : returns the key of this user; it may raise `OSError`, and is asked when a key is first needed.
    """

    def __init__(
        self,
        root: Path,
        notify: Callable[[str], None],
        *,
        is_trusted: bool = False,
        signing_key: Callable[[], bytes] = own_key,
    ) -> None:
        self.root = root
        self._notify = notify
        self._is_trusted = is_trusted
        self._signing_key = signing_key
        self._said_unsigned = False
        self._presence: Presence | None = None

    def presence(self) -> Presence:
        """Create the root, remove what dead processes left, and register this process. Raises `OSError`."""
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
        """Return an entry, building it when it is missing or damaged.

        Parameters
        ----------
        kind, slot : type and purpose of the entry.
        ingredients : name -> value or digest of everything that determines what `build` writes.
        build : writes the entry's files.
        reason : text of a rebuild's reason; ``None`` for the differing ingredients.

        Raises
        ------
        StorageFault : the root cannot be written.
        CacheError : a fact that `build` returns is no plain JSON scalar.
        """
        key = key_of(kind, ingredients)
        with storage():
            presence = self.presence()
            (self.root / kind).mkdir(mode=OWN_FOLDER, exist_ok=True)
            lock = hold_entry(self.root, kind, key, slot, presence, self._notify)
        try:
            return self.look(kind, slot, key) or self._build(kind, slot, ingredients, build, reason)
        finally:
            lock.release()

    def look(self, kind: str, slot: str, key: str) -> Entry | None:
        """Return an undamaged entry, ``None`` when there is none; the root need not be writable.

        Parameters
        ----------
        kind, slot : type and purpose of the entry.
        key : sha256 of kind and ingredients, in hex.
        """
        folder = self.root / kind / key
        try:
            manifest = verify(folder, key, self._must_have_signed())
        except UnsignedEntryError as unsigned:
            self._say_unsigned(unsigned)
            return None
        except (DamagedEntryError, OSError):
            return None
        if self._presence is not None:
            with suppress(OSError):
                mark_use(folder, self._presence)
            note_use(self.root, kind, slot, key)
        return Entry(kind, slot, key, folder / FILES, "hit", "", manifest.facts)

    def reason(self, kind: str, slot: str, ingredients: Mapping[str, str]) -> str:
        """Explain why an entry that `look` did not return has to be built.

        Parameters
        ----------
        kind, slot : type and purpose of the entry.
        ingredients : name -> value or digest of everything it is made from.
        """
        key = key_of(kind, ingredients)
        folder = self.root / kind / key
        if os.path.lexists(folder):
            try:
                verify(folder, key, self._must_have_signed())
            except UnsignedEntryError as unsigned:
                return f"cache entry not taken ({unsigned})"
            except DamagedEntryError as damage:
                return f"cache entry damaged ({damage})"
        return why_built(slot, last_used_ingredients(self.root, kind, slot), ingredients)

    def _build(self, kind: str, slot: str, ingredients: Mapping[str, str], build: Build, reason: str | None) -> Entry:
        """Build in a temporary folder, then rename it to the entry's path."""
        key = key_of(kind, ingredients)
        folder = self.root / kind / key
        with storage():
            presence = self.presence()
            why = reason or self.reason(kind, slot, ingredients)
            temporary = temporary_path(self.root, kind, key, presence.token)
        try:
            with storage():
                temporary.mkdir(mode=OWN_FOLDER, parents=True)
                (temporary / FILES).mkdir(mode=OWN_FOLDER)
            facts = _run(build, temporary / FILES, slot)
            with storage():
                write_manifest(
                    temporary,
                    kind=kind,
                    slot=slot,
                    ingredients=ingredients,
                    facts=facts,
                    signing_key=self._signing_key(),
                )
                mark_use(temporary, presence)
                flush_to_disk(temporary)
                self.discard(folder)
                rename_durably(temporary, folder)
            note_use(self.root, kind, slot, key)
        except BaseException:
            remove(temporary)
            raise
        return Entry(kind, slot, key, folder / FILES, "built", why, facts)

    def _must_have_signed(self) -> bytes | None:
        """Return the key that must have signed entries, ``None`` where the settings trust the folder."""
        return None if self._is_trusted else self._signing_key()

    def _say_unsigned(self, unsigned: UnsignedEntryError) -> None:
        if not self._said_unsigned:
            self._said_unsigned = True
            self._notify(
                f"entries of the cache {self.root} are built anew ({unsigned}). Next: nothing, or where you trust "
                "whoever wrote them with your account, name the folder in the ini option quant_cache_trust"
            )

    def discard(self, folder: Path) -> None:
        """Remove an entry, atomically for other processes. Raises `OSError`."""
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
    """Return the value as it will be read back. Raises `CacheError` when it is no plain JSON scalar."""
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
