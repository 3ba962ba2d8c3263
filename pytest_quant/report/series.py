"""One series as a table and a line of bars, with its changes of level; all series as a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_quant.history.summaries import CONFIDENT_POINTS, Change, CheckSummary, SeriesSummary
from pytest_quant.printable import clean
from pytest_quant.report.text import NOT_MEASURED, aligned, count, figure, in_unit, letter, points

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
    confidence = "exact" if change.confidence == 1.0 else f"{100.0 * change.confidence:.1f} %"
    since = f"{count(change.commits_after, 'commit')} since"
    return (
        f"{direction:<7}  {change.quantity} {figure(change.before)} -> {figure(change.after)} {unit} "
        f"({size.rstrip() or f'{change.size:+.3g} %'})  in {span}  confidence {confidence}  "
        f"{since}{f', probable until {CONFIDENT_POINTS}' if change.probable else ''}"
    )


_BARS = "▁▂▃▄▅▆▇█"
_BORDER = "---- what is measured changed here: not comparable with the rows above ----"


def sparkline(values: Sequence[float | None]) -> str:
    """Return one bar for each value, the lowest for the least; a blank where one is missing.

    Values that are all the same are bars of middle height.
    """
    numbers = [value for value in values if value is not None]
    low, high = min(numbers, default=0.0), max(numbers, default=0.0)
    # Halved first: the range of two floats may be more than a float holds.
    span = high / 2 - low / 2
    shares = [None if value is None else (value / 2 - low / 2) / span if span else 0.5 for value in values]
    return "".join(" " if share is None else _BARS[min(7, int(share * 8))] for share in shares)


def series_name(summary: SeriesSummary) -> str:
    """Return how a series is called where there is room for a line."""
    parts = (summary.nodeid, summary.model, summary.engine_id, summary.metric)
    return clean("  ".join(part for part in parts if part))


def series_list(summaries: Iterable[SeriesSummary]) -> str:
    """Return a head and one line for each series: its newest run, how many points it has, its name; empty for none."""
    rows = [[clean(s.last_started_at), count(s.n_points, "point"), series_name(s)] for s in summaries]
    return "\n".join(aligned([["newest", "points", "series"], *rows])) if rows else ""


def series_text(summary: SeriesSummary, summaries: Sequence[CheckSummary], width: int) -> str:
    """Return bars of score and speed, and a table with one row for each point, oldest first.

    Where several machines ran the check each has a letter, because latency is compared within one of them only.

    Parameters
    ----------
    summary : name and range of the series.
    summaries : its points, oldest first.
    width : of the terminal, in characters.
    """
    machines = list(dict.fromkeys(point.identity for point in summaries))
    head = ["started", "commit", "branch", "status", "FP32 -> candidate", "drop", "speedup", "p50 ms", "cover %", "MB"]
    rows = [head + (["machine"] if len(machines) > 1 else [])]
    rows += [
        _row(point) + ([letter(machines.index(point.identity))] if len(machines) > 1 else []) for point in summaries
    ]
    lines = aligned(rows)
    table, version = lines[:1], ""
    for point, line in zip(summaries, lines[1:], strict=True):
        if point.version and version and point.version != version:
            table.append(_BORDER)
        # A check that never came to be has no version, and changes none.
        version = point.version or version
        table.append(line)
    return "\n".join([series_name(summary), *_trends(summaries, width), "", *table])


def _trends(summaries: Sequence[CheckSummary], width: int) -> list[str]:
    """One line of bars for each figure that was ever measured, the newest points at its end.

    They are of the newest point's branch and version of the data, and times of its machine: bars of several would show
    steps that no commit made.
    """
    figured = [point for point in summaries if (point.candidate, point.speedup, point.candidate_p50_ms) != (None,) * 3]
    if not figured:
        return []
    last = figured[-1]
    # A check that never came to be has no version, and is a gap in the bars.
    alike = [point for point in summaries if point.branch == last.branch and point.version in ("", last.version)]
    timed = [point for point in alike if not point.version or point.identity == last.identity]
    figures = (
        ("score", [point.candidate for point in alike]),
        ("speedup", [point.speedup for point in timed]),
        ("p50 ms", [point.candidate_p50_ms for point in timed]),
    )
    lines = []
    if len(alike) < len(summaries):
        branch = f"branch {clean(last.branch)}" if last.branch else "no branch"
        data = "" if len({point.version for point in summaries if point.version}) < 2 else ", the newest data"
        lines = [f"bars of {branch}{data}: {len(alike)} of {count(len(summaries), 'point')}"]
    for name, values in figures:
        numbers = [value for value in values if value is not None]
        if numbers:
            span = f"{figure(min(numbers))} .. {figure(max(numbers))}"
            lines.append(f"{name:<7}  {sparkline(values[-max(1, width - len(span) - 13) :])}  {span}")
    return lines


def _row(point: CheckSummary) -> list[str]:
    commit = (clean(point.commit)[:_COMMIT] if point.commit else NOT_MEASURED) + ("+dirty" if point.dirty else "")
    scores = f"{in_unit(point.reference, point.unit)} -> {in_unit(point.candidate, point.unit)}"
    return [
        clean(point.started_at)[:19],
        commit,
        clean(point.branch or NOT_MEASURED),
        clean(point.status),
        NOT_MEASURED if point.candidate is None else scores,
        in_unit(point.drop, point.unit),
        NOT_MEASURED if point.speedup is None else f"x{figure(point.speedup)}",
        figure(point.candidate_p50_ms),
        points(point.coverage_pct),
        figure(point.size_mb),
    ]
