"""Which processes use an entry, and when it was used last."""

from __future__ import annotations

from pathlib import Path

from pytest_quant.cache.layout import IN_USE, LAST_USE
from pytest_quant.cache.presence import Presence


def mark_use(entry: Path, presence: Presence) -> None:
    """Note that this process uses `entry` from now on. Raises `OSError`."""
    markers = entry / IN_USE
    markers.mkdir(exist_ok=True)
    (markers / presence.token).touch()
    (entry / LAST_USE).touch()
    for marker in markers.iterdir():
        if not presence.is_alive(marker.name):
            marker.unlink(missing_ok=True)


def is_used(entry: Path, presence: Presence, *, by_others_only: bool) -> bool:
    """Whether a living process was given `entry`."""
    markers = entry / IN_USE
    if not markers.is_dir():
        return False
    tokens = [marker.name for marker in markers.iterdir()]
    return any(presence.is_alive(token) for token in tokens if not (by_others_only and token == presence.token))
