"""Series as columns of bytes, from which the page draws charts: small, quick to make, and exact.

One series is a few columns, one after another in the order that it names them: figures as 64-bit floats, NaN where
nothing was measured, and codes of texts that stand in a list beside them, all little-endian. The bytes of a column are
sorted by their place in a number, all first bytes, then all second ones, so that what many numbers share makes runs (as
HDF5's shuffle filter does); then all of it is deflated and written in base64. What runs have in common, commit and
branch and time, is in one list for all series.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant.history import SeriesFigures, Texts
from pytest_quant.history.change import Change
from pytest_quant.history.courses import Course, on_branch
from pytest_quant.printable import clean
from pytest_quant.record import Json
from pytest_quant.report.series import change_words
from pytest_quant.report.text import figure, in_unit

FIGURES = (
    "candidate",
    "drop",
    "drop_low",
    "drop_high",
    "speedup",
    "speedup_low",
    "speedup_high",
    "candidate_p50_ms",
    "p50_low_ms",
    "p50_high_ms",
)
"""Of a point, in this order."""

_TEXTS = ("status", "identity", "version", "isa")
_COMMIT = 12
_CHARTS = {"latency": "candidate_p50_ms", "score": "candidate", "speedup": "speedup"}
"""The figure in which a change of a quantity shows."""

RunOfPoint: TypeAlias = "tuple[str | None, str | None, str | None, bool]"
"""What a point tells of its run: when it started, commit, branch, and whether the tree was dirty."""


_Known: TypeAlias = "tuple[str | None, ...]"


class Runs:
    """Every run that a point is of, once.

    Parameters
    ----------
    now : start and commit of the runs that the page is of.
    """

    def __init__(self, now: Collection[tuple[str, str | None]] = ()) -> None:
        self._places: dict[RunOfPoint, int] = {}
        self._now = frozenset(now)
        self._of_now: list[int] = []
        self._last: tuple[tuple[_Known, ...], dict[int, int], dict[bytes, NDArray[Any]]] = ((), {}, {})

    def places_of(self, figures: SeriesFigures) -> NDArray[Any]:
        """Return the place of the run of each point (n,), uint32; runs that are new are added."""
        columns = (figures.started_at, figures.commit, figures.branch)
        each = figures.dirty.astype(np.int64)
        for column in columns:
            each = each * len(column.known) + column.codes
        places, alike = self._places_by_code(tuple(column.known for column in columns))
        content = each.tobytes()
        if content not in alike:
            codes = each.tolist()
            for code in dict.fromkeys(codes):
                if code not in places:
                    places[code] = self._place(_taken_apart(code, columns))
            alike[content] = np.fromiter(map(places.__getitem__, codes), "<u4", len(codes))
        return alike[content]

    def _places_by_code(self, known: tuple[_Known, ...]) -> tuple[dict[int, int], dict[bytes, NDArray[Any]]]:
        """Return the places of runs by a code of theirs, and of series by all of their codes, as most are of all runs.

        Codes hold as long as series share their lists of texts.
        """
        before, places, alike = self._last
        if len(before) != len(known) or any(one is not other for one, other in zip(before, known, strict=True)):
            places, alike = {}, {}
            self._last = known, places, alike
        return places, alike

    def _place(self, run: RunOfPoint) -> int:
        if run not in self._places:
            if run[:2] in self._now:
                self._of_now.append(len(self._places))
            self._places[run] = len(self._places)
        return self._places[run]

    def of_now(self, places: NDArray[Any]) -> list[Json]:
        """Return which of these points are of the runs that the page is of."""
        return [int(place) for place in np.flatnonzero(np.isin(places, self._of_now))]

    def to_json(self) -> Json:
        """Return the columns of the list, one entry for each run."""
        branches = list(dict.fromkeys(branch for _, _, branch, _ in self._places))
        codes = {branch: code for code, branch in enumerate(branches)}
        return {
            "commit": [None if commit is None else clean(commit)[:_COMMIT] for _, commit, _, _ in self._places],
            "branches": [None if branch is None else clean(branch) for branch in branches],
            "branch": [codes[branch] for _, _, branch, _ in self._places],
            "started": [_seconds(started_at or "") for started_at, _, _, _ in self._places],
            "dirty": [int(dirty) for _, _, _, dirty in self._places],
        }


def _taken_apart(code: int, columns: Sequence[Texts]) -> RunOfPoint:
    found: list[str | None] = []
    for column in reversed(columns):
        code, text = divmod(code, len(column.known))
        found.insert(0, column.known[text])
    return found[0], found[1], found[2], bool(code)


def _seconds(time: str) -> int | None:
    """Return the seconds since 1970 of a time in ISO 8601; ``None`` for a text that is no time."""
    try:
        return int(datetime.fromisoformat(time).timestamp())
    except (ValueError, OverflowError):
        return None


def track(course: Course, runs: Runs) -> dict[str, Json]:
    """Return one series as the page draws it; its runs are added to `runs`."""
    figures = course.figures
    columns: list[tuple[str, str, bytes]] = []
    for name in FIGURES:
        column: NDArray[np.float64] = getattr(figures, name)
        if not np.isnan(column).all():
            columns.append((name, "f8", _shuffled(column.astype("<f8"))))
    places = runs.places_of(figures)
    columns.append(("run", "u4", _shuffled(places)))
    lists: dict[str, Json] = {}
    for name in _TEXTS:
        codes, lists[name] = _coded(getattr(figures, name))
        columns.append((name, f"u{codes.itemsize}", _shuffled(codes)))
    return {
        "n": figures.n,
        "total": course.summary.n_points,
        "columns": [[name, kind] for name, kind, _ in columns],
        "bytes": _deflated(b"".join(column for _, _, column in columns)),
        "texts": lists,
        "metric": clean(course.summary.metric or ""),
        "unit": clean(_unit(figures)),
        "branch": None if course.branch is None else clean(course.branch),
        "changes": list(_marks(course)),
        "accepted": list(_levels(course)),
        "now": runs.of_now(places),
    }


def _shuffled(column: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(column).view(np.uint8).reshape(-1, column.itemsize).T.tobytes()


def _coded(texts: Texts) -> tuple[NDArray[Any], list[Json]]:
    """Return a code for the text of each point (n,), and the texts in the order in which they first come."""
    found, first, codes = np.unique(texts.codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    new = np.empty(found.size, "<u1" if found.size <= 1 << 8 else "<u4")
    new[order] = np.arange(found.size)
    return new[codes], [clean(texts.known[code] or "") for code in found[order].tolist()]


def _unit(figures: SeriesFigures) -> str:
    """Return the unit of the newest score that has one."""
    known = [unit for version in figures.version.known for unit, _ in [figures.scales.get(version or "", ("", None))]]
    codes = figures.version.codes[::-1].tolist()
    return next((unit for code in codes if (unit := known[code])), "")


def _deflated(content: bytes) -> str:
    # Runs of equal bytes are all there is to find, and this strategy finds them ten times as fast as a search does.
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_RLE)
    return base64.b64encode(packer.compress(content) + packer.flush()).decode("ascii")


def _marks(course: Course) -> Iterator[Json]:
    """Yield each change that one of the points shows, with the place of its first point."""
    if not course.changes:
        return
    figures = course.figures
    counted = on_branch(figures, course.branch) & ~figures.dirty
    for change in course.changes:
        codes = [code for code, commit in enumerate(figures.commit.known) if commit == change.first_bad]
        places = np.flatnonzero(counted & np.isin(figures.commit.codes, codes))
        if places.size:
            yield {"at": int(places[0]), "figure": _CHARTS[change.quantity], "text": _short(change)}


def _short(change: Change) -> str:
    unit = "%" if change.quantity != "score" else "pp" if change.unit == "%" else clean(change.unit)
    return f"{change.size:+.3g} {unit} at {clean(change.first_bad)[:_COMMIT]}"


def _levels(course: Course) -> Iterator[Json]:
    """Yield each accepted figure as a level that a chart has."""
    entry = course.accepted
    if entry is None:
        return
    found = [("candidate", entry.candidate_score), ("drop", entry.drop)]
    for one in entry.latency:
        found += [("speedup", one.speedup), ("candidate_p50_ms", one.candidate_p50_ms)]
    for name, value in found:
        if value is not None:
            yield {"figure": name, "value": value}


def changes_in_words(course: Course) -> tuple[str, ...]:
    """Return each change of level in a line, the latest first."""
    return tuple(re.sub(r"  +", ", ", change_words(change)) for change in course.changes)


def accepted_in_words(course: Course) -> str:
    """Return what was accepted, when and why; empty where nothing was."""
    entry = course.accepted
    if entry is None:
        return ""
    score = entry.candidate_score
    told = [] if score is None else [f"score {in_unit(score, entry.unit)} {clean(entry.unit or '')}".rstrip()]
    told += [f"x{figure(one.speedup)}" for one in entry.latency if one.speedup is not None]
    ends = f", until {entry.expires}" if entry.expires is not None else ""
    figures = ", ".join(told) or "its figures"
    commit = clean(entry.commit)[:_COMMIT]
    return f"{figures} of {commit} accepted on {entry.accepted_at:%Y-%m-%d}{ends}: {clean(entry.reason)}"
