"""What an examination found, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OK, MISSING, BROKEN = "ok", "missing", "broken"
"""States of a backend: it runs, its runtime or device is not here, or it is here and does not work."""


@dataclass(frozen=True, slots=True)
class BackendState:
    """One backend: `state` is ``ok``, ``missing`` or ``broken``; `fix` is a command line where there is one.

    `precisions` : what it offers, ``int8 static`` for each scheme of a quantized precision.
    """

    name: str
    state: str
    version: str = ""
    device: str = ""
    reason: str = ""
    fix: str = ""
    precisions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Library:
    """A package that an extra of ours names: versions wanted and found, and whether they fit."""

    name: str
    extras: tuple[str, ...]
    wanted: str
    found: str
    fits: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that goes wrong silently later: what, and what to do."""

    what: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything found. `machine` is what identifies it, as text by name."""

    machine: Mapping[str, str]
    backends: tuple[BackendState, ...]
    libraries: tuple[Library, ...]
    problems: tuple[Problem, ...]
