"""Where things lie below the root of a cache.

::

    <root>/<kind>/<key>/manifest.json     what it was made from
    <root>/<kind>/<key>/files/            what the builder wrote
    <root>/<kind>/<key>/last-use          its modification time is the last use
    <root>/<kind>/<key>/in-use/<token>    one for each process that was given the entry
    <root>/<kind>/.<key>.<token>.<random>.tmp   an entry being built, or on its way out (key ``gone``)
    <root>/.locks/<kind>-<key>.lock       held while the entry is built, read or removed
    <root>/.live/<token>.lock             held by the process of that token as long as it lives
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

LOCKS = ".locks"
LAST_USE = "last-use"
IN_USE = "in-use"

_KIND = re.compile(r"[a-z][a-z0-9-]*")
_KEY = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = re.compile(r"\.(?P<key>[0-9a-f]{64}|gone)\.(?P<token>[0-9]+-[0-9a-f]+)\.[0-9a-f]+\.tmp")


def is_kind(name: str) -> bool:
    """Whether `name` can be a kind of entry: it becomes a folder's name."""
    return _KIND.fullmatch(name) is not None


def lock_path(root: Path, kind: str, key: str) -> Path:
    """The lock of one entry."""
    return root / LOCKS / f"{kind}-{key}.lock"


def temporary_path(root: Path, kind: str, key: str, token: str) -> Path:
    """A new name beside the entry `key`, on the same file system, that no list shows."""
    return root / kind / f".{key}.{token}.{secrets.token_hex(4)}.tmp"


def gone_path(entry: Path, token: str) -> Path:
    """A new name beside `entry` for what is about to be removed."""
    return entry.with_name(f".gone.{token}.{secrets.token_hex(4)}.tmp")


def entry_paths(root: Path, kind: str | None = None) -> Iterator[Path]:
    """Every entry, of one kind or all; what others have put below the root is never one."""
    yield from (path for path in _children(root, kind) if _KEY.fullmatch(path.name))


def temporary_paths(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Every temporary folder with its key and the token of the process that made it."""
    for path in _children(root, None):
        if match := _TEMPORARY.fullmatch(path.name):
            yield path, match["key"], match["token"]


def _children(root: Path, kind: str | None) -> Iterator[Path]:
    if not root.is_dir():
        return
    for folder in [root / kind] if kind else sorted(root.iterdir()):
        if is_kind(folder.name) and folder.is_dir():
            yield from sorted(folder.iterdir())
