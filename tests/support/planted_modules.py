"""Modules that a test has planted on the path, forgotten as the test ends."""

from __future__ import annotations

import sys


def forget_modules(*packages: str) -> None:
    """Drop `packages` with all below them, so that the next import looks where the path leads then.

    Asking for a module below a package without `__init__.py` imports the package, and its folder stays known.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]
