"""What the terminal can show."""

from __future__ import annotations

import shutil
import sys


def width() -> int:
    """Return the cells of a line, 100 where the output is no terminal."""
    return shutil.get_terminal_size((100, 24)).columns


def speaks_unicode() -> bool:
    """Whether the output takes characters outside ASCII."""
    return (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf16")
