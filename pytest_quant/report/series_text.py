"""One series as a table, its changes of level, and all series as a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_quant.history.summaries import CONFIDENT_POINTS, Change, CheckSummary, SeriesSummary
from pytest_quant.printable import clean
from pytest_quant.report.text import NOT_MEASURED, align, count, figure, format_in_unit, letter, points
from pytest_quant.spec import SeriesKey

_COMMIT = 10


def changes_text(changes: Sequence[Change], names: Mapping[str, str], branch: str) -> str:
    """Return two lines for each change, the latest first, and what was searched.

    Parameters
    ----------
    names : of the series that were searched, by their key.
    """
    lines = [line for change in changes for line in (names[change.series], f"    {change_words(change)}")]
    return "\n".join([*lines, f"{count(len(changes), 'change')} in {len(names)} series on {clean(branch)}"])


def change_words(change: Change) -> str:
    """Return one change of level in a line: direction, quantity, both levels, its commits and how sure it is."""
    direction = {True: "better", False: "WORSE", None: "changed"}[change.improved]
    span = f"{clean(change.last_good)[:_COMMIT]}..{clean(change.first_bad)[:_COMMIT]}"
    unit = clean(change.unit)
    size = f"{change.size:+.4g} {'points' if unit == '%' else unit}" if change.quantity == "score" else ""
    sure = "certain" if change.confidence == 1.0 else f"confidence {100.0 * change.confidence:.1f} %"
    since = f"{count(change.commits_after, 'commit')} since"
    return (
        f"{direction:<7}  {change.quantity} {figure(change.before)} -> {figure(change.after)} {unit} "
        f"({size.rstrip() or f'{change.size:+.3g} %'})  in {span}  {sure}  "
        f"{since}{f', probable until {CONFIDENT_POINTS}' if change.probable else ''}"
    )


def series_name(key: str) -> str:
    """Return what the series with this key is called if a whole line is free."""
    return clean(str(SeriesKey.parse(key)))


def series_list(summaries: Iterable[SeriesSummary]) -> str:
    """Return a head and one line for each series: its newest run, how many points it has, its name; empty for none."""
    rows = [[clean(s.last_started_at), count(s.n_points, "point"), series_name(s.key)] for s in summaries]
    return "\n".join(align([["newest", "points", "series"], *rows])) if rows else ""


def series_text(summary: SeriesSummary, summaries: Sequence[CheckSummary]) -> str:
    """Return the name of the series and a table with one row for each point, oldest first.

    Where several machines ran the check each has a letter, because latency is compared within one of them only.

    Parameters
    ----------
    summary : name and range of the series.
    summaries : its points, oldest first.
    """
    machines = list(dict.fromkeys(point.identity for point in summaries))
    head = ["started", "commit", "branch", "status", "FP32 -> candidate", "drop", "speedup", "p50 ms", "cover %", "MB"]
    rows = [head + (["machine"] if len(machines) > 1 else [])]
    rows += [
        _row(point) + ([letter(machines.index(point.identity))] if len(machines) > 1 else []) for point in summaries
    ]
    lines = align(rows)
    table, version = lines[:1], ""
    for point, line in zip(summaries, lines[1:], strict=True):
        if point.version and version and point.version != version:
            table.append("---- what is measured changed here: not comparable with the rows above ----")
        # A check that never came to be has no version, and changes none.
        version = point.version or version
        table.append(line)
    return "\n".join([series_name(summary.key), "", *table])


def _row(point: CheckSummary) -> list[str]:
    commit = (clean(point.commit)[:_COMMIT] if point.commit else NOT_MEASURED) + ("+dirty" if point.dirty else "")
    scores = f"{format_in_unit(point.reference, point.unit)} -> {format_in_unit(point.candidate, point.unit)}"
    return [
        clean(point.started_at)[:19],
        commit,
        clean(point.branch or NOT_MEASURED),
        clean(point.status),
        NOT_MEASURED if point.candidate is None else scores,
        format_in_unit(point.drop, point.unit),
        NOT_MEASURED if point.speedup is None else f"x{figure(point.speedup)}",
        figure(point.candidate_p50_ms),
        points(point.coverage_pct),
        figure(point.size_mb),
    ]
