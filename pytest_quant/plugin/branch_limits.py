"""``quant_branch_limits``: limits for marks that do not set them, by branch.

Each line has a pattern of branches and limits behind it::

    release/*  max_slowdown=3 max_drop_increase=0.2 against_limit=2
    main       max_slowdown=5
    *          max_slowdown=15

The branch is the one that the work is to be merged into, as CI tells it, else the one that is checked out: what a pull
request must hold is a matter of where it goes. The first line counts whose pattern fits, and that line only. A limit of
a mark always comes before that of a line, so that no line makes a mark looser, and each verdict says which line its
limit is from.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.environment.revision import ci_target, git_state
from pytest_quant.errors import UsageError, nearest
from pytest_quant.plugin.option_values import percent
from pytest_quant.plugin.options import BRANCH_LIMITS
from pytest_quant.printable import clean, clean_lines
from pytest_quant.spec import LIMITS, Check

AGAINST_LIMIT = "against_limit"

OF_MARKS = ("max_slowdown", "max_p50_increase", "max_drop_increase")
"""Limits against a baseline, which is a matter of branches; all others are a matter of the model."""

_ON_SPEED = ("max_slowdown", "max_p50_increase")

_EXAMPLE = "write for example: release/* max_slowdown=3 max_drop_increase=0.5"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the setting.

    Attributes
    ----------
    limits : that marks may set, by their names.
    against_limit_pct : in percent; ``None`` where the line does not set it.
    text : the line as it is written, with single blanks.
    """

    pattern: str
    limits: Mapping[str, float]
    against_limit_pct: float | None
    text: str


@dataclass(frozen=True, slots=True)
class BranchLimits:
    """What the setting says of this run.

    Attributes
    ----------
    branch : it is judged by; ``None`` where none is known.
    line : the first that fits; ``None`` where none does.
    """

    branch: str | None
    line: Line | None

    @property
    def against_limit_pct(self) -> float | None:
        """The limit of ``--quant-against`` in percent; ``None`` where no line sets it."""
        return None if self.line is None else self.line.against_limit_pct

    @property
    def source(self) -> str:
        """The setting and its line, as a reader finds it."""
        return f"{BRANCH_LIMITS}: {'' if self.line is None else self.line.text}"

    def told(self) -> str:
        """Return one line that says which line holds for this run, or that none does."""
        if self.branch is None:
            return f"{BRANCH_LIMITS}: the branch is not known, so that no line holds"
        if self.line is None:
            return f"{BRANCH_LIMITS}: no line is for the branch '{self.branch}'"
        return f"{self.source} (for the branch '{self.branch}', where a mark sets none)"

    def applied(self, check: Check, *, speed: bool) -> Check:
        """Return `check` with the limits of the line that its mark does not set.

        Parameters
        ----------
        speed : the backend's speed may be limited.
        """
        if self.line is None:
            return check
        added: dict[str, Any] = {
            name: value
            for name, value in self.line.limits.items()
            if getattr(check.limits, name) is None and (speed or name not in _ON_SPEED)
        }
        sources = tuple((name, self.source) for name in added)
        return replace(check, limits=replace(check.limits, **added), limit_sources=sources)


def find_limits(lines: Sequence[str], root: Path) -> BranchLimits:
    """Return what the lines say of the branch of this run.

    Parameters
    ----------
    lines : of the setting.
    root : folder in the git repository.

    Raises
    ------
    pytest.UsageError : a line is wrong.
    """
    known = read_lines(lines)
    state = git_state(root)
    branch = ci_target(os.environ) or (None if state is None else state.branch)
    fitting = (line for line in known if branch is not None and fnmatchcase(branch, line.pattern))
    return BranchLimits(branch, next(fitting, None))


def read_lines(lines: Sequence[str]) -> tuple[Line, ...]:
    """Return the lines of the setting. Raises `pytest.UsageError`, with a text that may be printed."""
    return tuple(_read(" ".join(line.split())) for line in lines if line.strip())


def _read(text: str) -> Line:
    pattern, *pairs = text.split()
    try:
        found = _values(pairs)
    except UsageError as error:
        raise pytest.UsageError(clean_lines(f"ini option {BRANCH_LIMITS}, line '{text}': {error}")) from None
    of_marks = {name: found[name] for name in OF_MARKS if name in found}
    return Line(pattern, of_marks, found.get(AGAINST_LIMIT), clean(text))


def _values(pairs: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for pair in pairs:
        name, _, written = pair.partition("=")
        if name in found:
            raise UsageError(f"{name} stands there twice")
        found[name] = _value(name, written)
    if not found:
        raise UsageError("there is no limit behind the pattern", fix=_EXAMPLE)
    return found


def _value(name: str, written: str) -> float:
    if name == AGAINST_LIMIT:
        return _against(written)
    if name not in OF_MARKS:
        known = (*OF_MARKS, AGAINST_LIMIT)
        raise UsageError(f"there is no limit '{name}' for a branch", allowed=nearest(name, known), fix=_EXAMPLE)
    return _limit(name, written)


def _limit(name: str, text: str) -> float:
    """Return a limit as a mark has it: a number, or one with its unit."""
    value: object = text
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        value = int(text)
    elif re.fullmatch(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII):
        value = float(text)
    found: float = LIMITS[name].reader.read(name, value)
    return found


def _against(text: str) -> float:
    try:
        return percent(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{AGAINST_LIMIT}: {error}") from None
