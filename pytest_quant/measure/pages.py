"""Pages of 2 MB under what engines read, so that two sessions of one engine are alike.

A session keeps the pages of 4 KB that it was given for as long as it lives. Where its weights do not fit into the
caches next to the core, their places alone make it up to a fifth slower or faster than another session of that file.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

_HUGE = 2 << 20
_COLLAPSE = 25
"""``MADV_COLLAPSE``, of Linux 6.1 and later, whatever the setting for transparent huge pages is."""

_FIRST_LINE_FIELDS = 5
_KB = 1024
_UNTIL_COLLAPSED = 0.99


def collapse() -> bool:
    """Move the anonymous memory of this process into pages of 2 MB, and return whether this system can do that.

    Their contents stay. Ranges that are mostly untouched stay as they are, since pages for all of one would take memory
    that nobody uses; so do those that the system refuses.
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    probe = ctypes.create_string_buffer(2 * _HUGE)
    ctypes.memset(probe, 1, len(probe))
    first = -(-ctypes.addressof(probe) // _HUGE) * _HUGE
    if madvise(first, _HUGE, _COLLAPSE) != 0:
        return False
    for start, size in _ranges(Path("/proc/self/smaps").read_text("ascii", errors="replace")):
        madvise(start, size, _COLLAPSE)
    return True


def _ranges(smaps: str) -> Iterator[tuple[int, int]]:
    """Yield start and size in bytes, whole pages of 2 MB, of anonymous ranges to collapse.

    Parameters
    ----------
    smaps : the text of ``/proc/PID/smaps``: for each range a line with its addresses, then lines ``Name:  123 kB``.
    """
    start = size = resident = 0
    for line in smaps.splitlines():
        fields = line.split()
        if not fields[0].endswith(":"):
            private = fields[1].startswith("rw") and fields[1].endswith("p") and fields[4] == "0"
            ours = private and (len(fields) == _FIRST_LINE_FIELDS or fields[5] == "[heap]")
            low, high = (int(address, 16) for address in fields[0].split("-"))
            start = -(-low // _HUGE) * _HUGE
            size = high // _HUGE * _HUGE - start if ours else 0
        elif fields[0] == "Rss:":
            resident = int(fields[1]) * _KB
        elif fields[0] == "AnonHugePages:" and size > 0:
            collapsed = int(fields[1]) * _KB
            if 2 * resident >= size and collapsed < _UNTIL_COLLAPSED * size:
                yield start, size
