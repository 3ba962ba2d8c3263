"""Versions of installed packages."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def version(distribution: str) -> str:
    """Return the version of an installed distribution, read once in a process: it is asked for many times per check.

    Raises
    ------
    importlib.metadata.PackageNotFoundError : it is not installed.
    """
    return metadata.version(distribution)
