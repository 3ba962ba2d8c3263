"""Changes of level as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_quant.history.changes import CONFIDENT_POINTS, Change
from pytest_quant.report.text import clean, count, figure

_COMMIT = 10


def changes_text(changes: Sequence[Change], names: Mapping[str, str], branch: str) -> str:
    """Return two lines for each change, the latest first, and what was searched.

    Parameters
    ----------
    names : of the series that were searched, by their key.
    """
    lines: list[str] = []
    for change in changes:
        lines += [names.get(change.series, clean(change.series)), f"    {_what(change)}"]
    where = f"{len(names)} series on {clean(branch)}"
    return "\n".join([*lines, f"{count(len(changes), 'change')} in {where}"])


def _what(change: Change) -> str:
    direction = {True: "better", False: "WORSE", None: "changed"}[change.improved]
    span = f"{clean(change.last_good)[:_COMMIT]}..{clean(change.first_bad)[:_COMMIT]}"
    confirmed = f"{count(change.commits_after, 'commit')} since"
    if change.probable:
        confirmed += f", probable until {CONFIDENT_POINTS}"
    return (
        f"{direction:<7}  {change.quantity} {figure(change.before)} -> {figure(change.after)} {clean(change.unit)} "
        f"({_size(change)})  in {span}  confidence {_percent(change.confidence)}  {confirmed}"
    )


def _size(change: Change) -> str:
    if change.quantity == "score":
        unit = "points" if change.unit == "%" else clean(change.unit)
        return f"{change.size:+.4g} {unit}".rstrip()
    return f"{change.size:+.3g} %"


def _percent(confidence: float) -> str:
    return "exact" if confidence == 1.0 else f"{100.0 * confidence:.1f} %"
