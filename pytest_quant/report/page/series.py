"""The history of a series as its chart is drawn: points as plain JSON, and in words what changed and was accepted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from pytest_quant.history import CheckSummary
from pytest_quant.history.series_history import SeriesHistory
from pytest_quant.history.summaries import Change
from pytest_quant.printable import clean
from pytest_quant.record import Json
from pytest_quant.report.series import change_words
from pytest_quant.report.text import figure, in_unit, letter

FIGURES = {
    "speedup": ("speedup", "speedup_low", "speedup_high"),
    "latency": ("candidate_p50_ms", "p50_low_ms", "p50_high_ms"),
    "score": ("candidate",),
    "drop": ("drop", "drop_low", "drop_high"),
}
"""Of a point, by the name of the quantity: a figure, and the ends of its interval."""

_COMMIT = 12
_MINUTE = 16


def series_data(history: SeriesHistory, runs: Collection[tuple[str, str | None]] = ()) -> dict[str, Json]:
    """Return one series as the page draws it.

    Parameters
    ----------
    history : of the series.
    runs : start and commit of the runs that the page is of, whose points are marked.
    """
    points = history.points
    identities = enumerate(dict.fromkeys(point.identity for point in points))
    machines = {identity: letter(number) for number, identity in identities}
    versions = dict.fromkeys(point.version for point in points if point.version)
    numbers = {version: number for number, version in enumerate(versions, start=1)}
    unit = clean(next((point.unit for point in reversed(points) if point.unit), ""))
    return {
        "units": {"speedup": "x", "latency": "ms", "score": unit, "drop": "pp" if unit == "%" else unit},
        "branch": clean(history.branch or ""),
        "points": [
            {
                "machine": machines[point.identity],
                "data": numbers.get(point.version, 0),
                "now": (point.started_at, point.commit) in runs,
                **_point(point),
            }
            for point in points
        ],
        "changes": list(_marks(history)),
        "accepted": _levels(history),
    }


def _point(point: CheckSummary) -> dict[str, Json]:
    return {
        "started": clean(point.started_at)[:_MINUTE].replace("T", " "),
        "commit": clean(point.commit or "")[:_COMMIT],
        "branch": clean(point.branch or ""),
        "dirty": point.dirty,
        "status": point.status.value,
        "isa": clean(point.isa),
        **{quantity: _measured(point, names) for quantity, names in FIGURES.items()},
    }


def _measured(point: CheckSummary, names: tuple[str, ...]) -> Json:
    """Return a figure with both ends of its interval, or without them; ``None`` where it was not measured."""
    values = [getattr(point, name) for name in names]
    if values[0] is None:
        return None
    return values[:1] if None in values else values


def _marks(history: SeriesHistory) -> Iterator[Json]:
    """Yield each change that one of the points shows, with the place of its first point."""
    for change in history.changes:
        places = (
            place
            for place, point in enumerate(history.points)
            if (point.commit, point.branch, point.dirty) == (change.first_bad, history.branch, False)
        )
        if (first := next(places, None)) is not None:
            yield {"at": first, "quantity": change.quantity, "text": _short(change)}


def _short(change: Change) -> str:
    unit = "%" if change.quantity != "score" else "pp" if change.unit == "%" else clean(change.unit)
    return f"{change.size:+.3g} {unit} at {clean(change.first_bad)[:_COMMIT]}"


def _levels(history: SeriesHistory) -> dict[str, Json]:
    """Return the accepted figures, by quantity."""
    entry = history.accepted
    if entry is None:
        return {}
    figures = {
        "score": [entry.candidate_score],
        "drop": [entry.drop],
        "speedup": [latency.speedup for latency in entry.latency],
        "latency": [latency.candidate_p50_ms for latency in entry.latency],
    }
    return {quantity: [value for value in values if value is not None] for quantity, values in figures.items()}


def changes_in_words(history: SeriesHistory) -> tuple[str, ...]:
    """Return each change of level in a line, the latest first."""
    return tuple(re.sub(r"  +", ", ", change_words(change)) for change in history.changes)


def accepted_in_words(history: SeriesHistory) -> str:
    """Return what was accepted, when and why; empty where nothing was."""
    entry = history.accepted
    if entry is None:
        return ""
    score = entry.candidate_score
    texts = [] if score is None else [f"score {in_unit(score, entry.unit)} {clean(entry.unit or '')}".rstrip()]
    texts += [f"x{figure(latency.speedup)}" for latency in entry.latency if latency.speedup is not None]
    ends = f", until {entry.expires}" if entry.expires is not None else ""
    figures = ", ".join(texts) or "its figures"
    commit = clean(entry.commit)[:_COMMIT]
    return f"{figures} of {commit} accepted on {entry.accepted_at:%Y-%m-%d}{ends}: {clean(entry.reason)}"
