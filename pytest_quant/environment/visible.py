"""What the environment variable ``CUDA_VISIBLE_DEVICES`` says, read as CUDA reads it.

The rules are those of the CUDA programming guide, "CUDA environment variables", and of NVIDIA's guide to Multi-Instance
GPUs (MIG).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"\s*\+?(\d+)")
_KINDS = ("GPU-", "MIG-")


def named_devices(value: str) -> tuple[int | str, ...]:
    """Return the devices that a value of ``CUDA_VISIBLE_DEVICES`` names: numbers, or UUIDs and beginnings of them.

    The first name decides the kind of all; the list ends before the first that is of another kind, negative, or no
    device at all. An empty value, and one that names a device twice, hide every device.
    """
    kind = next((kind for kind in _KINDS if value.startswith(kind)), None)
    named: list[int | str] = []
    for word in value.split(","):
        name = _number(word) if kind is None else word.strip() if word.strip().startswith(kind) else None
        if name is None:
            break
        if name in named:
            return ()
        named.append(name)
    return tuple(named)


def _number(word: str) -> int | None:
    """Return the number that a word begins with, as C's ``strtol`` reads it; ``None`` for a negative one or none."""
    found = _NUMBER.match(word)
    return None if found is None else int(found[1])


def only_with_prefix(prefix: str, uuids: Sequence[str]) -> int | None:
    """Return the place of the one UUID that starts with `prefix`; ``None`` where none does, or several do."""
    fitting = [place for place, uuid in enumerate(uuids) if uuid.startswith(prefix)]
    return fitting[0] if len(fitting) == 1 else None
