"""What the cache gives out and lists."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

JsonScalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One kept thing, ready to be used.

    Attributes
    ----------
    kind : what it is, for example ``engine``.
    slot : what it is for, in words; entries of one slot replace each other as ingredients change.
    key : sha256 of the kind and every ingredient, in hex.
    folder : holds what the builder wrote; nothing may be written to it.
    status : ``built`` just now, or ``hit``.
    reason : why it had to be built; empty for a hit.
    facts : what the builder told about the build, then or now.
    """

    kind: str
    slot: str
    key: str
    folder: Path
    status: Literal["built", "hit"]
    reason: str
    facts: dict[str, JsonScalar]


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One line of the cache's list; its contents have not been checked.

    Attributes
    ----------
    folder : of the whole entry, manifest included.
    size_bytes : everything on disk.
    created, last_used : seconds since the epoch.
    readable : ``False`` when the manifest is broken; then slot, ingredients and facts are empty.
    """

    kind: str
    slot: str
    key: str
    folder: Path
    size_bytes: int
    created: float
    last_used: float
    ingredients: dict[str, str]
    facts: dict[str, JsonScalar]
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Cleared:
    """What clearing removed, and how many entries stayed because another process uses them."""

    removed: int
    freed_bytes: int
    in_use: int
