"""Why an entry had to be built: the ingredients that differ from the last one of its slot."""

from __future__ import annotations

import re
from collections.abc import Mapping

_HEX_DIGEST = re.compile(r"(?:[a-z0-9]+:)?([0-9a-f]{32,128})")
_MAX_TEXT = 60


def why_built(slot: str, previous: Mapping[str, str] | None, ingredients: Mapping[str, str]) -> str:
    """Explain why an entry is built, by every ingredient that differs from the slot's last one.

    Parameters
    ----------
    slot : purpose of the entry, for the text.
    previous : ingredients of the most recently used entry of the slot; ``None`` when there is none.
    ingredients : of the entry to build.
    """
    if previous is None:
        return f"first build of {slot}"
    names = sorted(previous.keys() | ingredients.keys())
    changes = [_change(name, previous.get(name), ingredients.get(name)) for name in names]
    return "; ".join(change for change in changes if change)


def _change(name: str, old: str | None, new: str | None) -> str:
    if old == new:
        return ""
    if old is None:
        return f"{name} added ({_short(str(new))})"
    if new is None:
        return f"{name} removed ({_short(old)})"
    old_digest, new_digest = _HEX_DIGEST.fullmatch(old), _HEX_DIGEST.fullmatch(new)
    if old_digest and new_digest:
        label = "sha256 " if len(new_digest[1]) == 64 else ""
        return f"{name} changed ({label}{old_digest[1][:8]}.. -> {new_digest[1][:8]}..)"
    return f"{name} changed ({_short(old)} -> {_short(new)})"


def _short(text: str) -> str:
    if digest := _HEX_DIGEST.fullmatch(text):
        return f"{digest[1][:8]}.."
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 2]}.."
