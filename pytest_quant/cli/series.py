"""What ``pytest-quant history`` prints of series."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.places import speaks_unicode, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_quant.history import Point, SeriesSummary


def print_series_list(summaries: Sequence[SeriesSummary], as_json: bool) -> None:
    """List these series, or the document of each in a line."""
    from pytest_quant.report.series import series_list

    if as_json:
        for summary in summaries:
            click.echo(json.dumps(asdict(summary), allow_nan=False))
    elif listed := series_list(summaries):
        click.echo(listed)


def print_series(summary: SeriesSummary, found: Sequence[Point], *, as_json: bool, as_csv: bool) -> None:
    """Print the points of one series as a table with bars, as one JSON document, or as CSV."""
    from pytest_quant.report.series import series_text

    if as_json:
        points = [asdict(point) for point in found]
        click.echo(json.dumps(asdict(summary) | {"points": points}, allow_nan=False))
    elif as_csv:
        click.echo(_csv(found), nl=False)
    else:
        click.echo(series_text(summary, found, width(), unicode=speaks_unicode()))
        if len(found) < summary.n_points:
            click.echo(f"{len(found)} of {summary.n_points} points; --last N shows more")


def print_changes(
    points: Iterable[tuple[SeriesSummary, Sequence[Point]]], branch: str, confidence: float, as_json: bool
) -> None:
    """Print where the figures of these series changed on a branch, the latest change first."""
    from pytest_quant.history.trends import find_changes
    from pytest_quant.report.series import changes_text, series_name

    names: dict[str, str] = {}
    found = []
    for summary, of_series in points:
        names[summary.key] = series_name(summary)
        found += find_changes(of_series, confidence=confidence)
    found.sort(key=lambda change: change.first_bad_at, reverse=True)
    if as_json:
        click.echo(json.dumps({"branch": branch, "series": len(names), "changes": [asdict(one) for one in found]}))
    else:
        click.echo(changes_text(found, names, branch))


def _csv(found: Sequence[Point]) -> str:
    from pytest_quant.history import Point
    from pytest_quant.report import clean

    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow([field.name for field in fields(Point)])
    for point in found:
        rows.writerow([clean(value) if isinstance(value, str) else value for value in asdict(point).values()])
    return written.getvalue()
