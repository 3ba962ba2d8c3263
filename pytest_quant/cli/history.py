"""``pytest-quant history``."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.echo import say, show, show_json
from pytest_quant.cli.places import existing_history, history_option, speaks_unicode, width
from pytest_quant.errors import UsageError
from pytest_quant.printable import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_quant.history import CheckSummary, SeriesSummary, StoredRun
    from pytest_quant.history.store import Store
    from pytest_quant.history.trends import Change


def print_series_list(summaries: Sequence[SeriesSummary], as_json: bool) -> None:
    """Print a table of series, or with `as_json` one JSON document per line."""
    from pytest_quant.report.series import series_list

    if as_json:
        for summary in summaries:
            show_json(asdict(summary))
    elif listed := series_list(summaries):
        show(listed)


def print_series(summary: SeriesSummary, points: Sequence[CheckSummary], *, as_json: bool, as_csv: bool) -> None:
    """Print the points of one series as a table with bars.

    Parameters
    ----------
    summary : of the series.
    points : to print, oldest first.
    as_json : print one JSON document instead.
    as_csv : print CSV with every column instead.
    """
    from pytest_quant.report.series import series_text

    if as_json:
        documents = [asdict(point) for point in points]
        show_json(asdict(summary) | {"points": documents})
    elif as_csv:
        show(_csv(points))
    else:
        show(series_text(summary, points, width(), unicode=speaks_unicode()))
        if len(points) < summary.n_points:
            say(f"{len(points)} of {summary.n_points} points; --last N shows more")


def print_changes(changes: Sequence[Change], summaries: Sequence[SeriesSummary], branch: str, as_json: bool) -> None:
    """Print the changes of series on a branch, the latest first, as a table or with `as_json` as one JSON document."""
    from pytest_quant.report.series import changes_text, series_name

    names = {summary.key: series_name(summary) for summary in summaries}
    latest_first = sorted(changes, key=lambda change: change.first_bad_at, reverse=True)
    if as_json:
        show_json({"branch": branch, "series": len(names), "changes": [asdict(change) for change in latest_first]})
    else:
        show(changes_text(latest_first, names, branch))


def _csv(points: Sequence[CheckSummary]) -> str:
    from pytest_quant.history import CheckSummary
    from pytest_quant.report.spreadsheet import line

    rows: list[Iterable[object]] = [
        (field.name for field in fields(CheckSummary)),
        *(asdict(point).values() for point in points),
    ]
    return "".join(map(line, rows)).removesuffix("\n")


_RUNS = 20
_POINTS = 50
_SEARCHED = 1000
"""Newest points of a series that are searched for changes, so that hundreds of long series take seconds."""


@click.command(short_help="List runs or series, the checks of one run, one series, or what changed.")
@click.argument("words", nargs=-1, metavar="[RUN|SERIES...]")
@click.option("--series", "list_series", is_flag=True, help="List the series instead of the runs.")
@click.option("--changes", is_flag=True, help="At which commits of the branch figures changed; of SERIES, or of all.")
@click.option(
    "--confidence", type=click.FloatRange(0.5, 0.995), default=0.95, show_default=True, help="Of all --changes at once."
)
@click.option(
    "--last",
    type=click.IntRange(min=1),
    help=f"At most this many  [runs: {_RUNS}, points of a table: {_POINTS}, of a series with --changes: {_SEARCHED}]",
)
@click.option("--branch", metavar="NAME", help="Only of this branch  [with --changes: the main one]")
@click.option("--since", type=click.DateTime(), metavar="DATE", help="Only from this day on, UTC.")
@click.option("--json", "as_json", is_flag=True, help="Runs: one document in each line, as --quant-json writes them.")
@click.option("--csv", "as_csv", is_flag=True, help="The points of SERIES with every column.")
@history_option
def history(
    words: tuple[str, ...],
    list_series: bool,
    changes: bool,
    confidence: float,
    last: int | None,
    branch: str | None,
    since: object | None,
    as_json: bool,
    as_csv: bool,
    place: str | None,
) -> None:
    """List the last runs, newest first.

    With RUN, an id or its beginning, every check of that run. With SERIES, its key or words that its node id, model,
    engine and metric have, every check of it, oldest first; where several series have them, a list of those.

    \b
    Examples:
      pytest-quant history --last 5
      pytest-quant history 20260102T030405Z
      pytest-quant history --series
      pytest-quant history test_digits ort-int8 --branch main --since 2026-01-01
      pytest-quant history --changes
      pytest-quant history --json > records.jsonl     pytest-quant import reads it
    """  # noqa: D301 - click reads a backspace
    where = existing_history(place)
    # Here, because it loads the database.
    from pytest_quant.cli.accept import all_matching, choose
    from pytest_quant.history import StoredRun, open_store

    store = open_store(where)
    what = " ".join(words) or None
    first_day = None if since is None else f"{since:%Y-%m-%dT%H:%M:%S}"
    if changes:
        from pytest_quant.cli.places import main_branch
        from pytest_quant.history.trends import find_changes

        _refuse_csv(as_csv)
        chosen = all_matching(store, what)
        on = branch or main_branch(Path.cwd())
        all_changes = [
            change
            for series in chosen
            for change in find_changes(
                store.points(series.key, branch=on, since=first_day, limit=last or _SEARCHED),
                confidence=confidence,
                family=len(chosen),
            )
        ]
        print_changes(all_changes, chosen, on, as_json)
    elif list_series:
        _refuse_csv(as_csv)
        print_series_list(all_matching(store, what), as_json)
    elif what is None:
        _refuse_csv(as_csv)
        _print_runs(store, store.runs(last or _RUNS, branch=branch, since=first_day), as_json)
    else:
        matching = choose(store, what)
        if isinstance(matching, StoredRun):
            _refuse_csv(as_csv)
            _print_one_run(store, matching, as_json)
        elif len(matching) > 1:
            _refuse_csv(as_csv)
            print_series_list(matching, as_json)
        else:
            (series,) = matching
            most = last or (None if as_json or as_csv else _POINTS)
            of_series = store.points(series.key, branch=branch, since=first_day, limit=most)
            print_series(series, of_series, as_json=as_json, as_csv=as_csv)


def _refuse_csv(as_csv: bool) -> None:
    if as_csv:
        raise UsageError("--csv prints one series", fix="name a SERIES; pytest-quant history --series lists them")


def _print_runs(store: Store, chosen: list[StoredRun], as_json: bool) -> None:
    if as_json:
        for stored in chosen:
            _print_document(store, stored)
    elif chosen:
        _print_heads_of(chosen)


def _print_one_run(store: Store, stored: StoredRun, as_json: bool) -> None:
    if as_json:
        _print_document(store, stored)
        return
    from pytest_quant.report.summary import table

    _print_heads_of([stored])
    show(table(store.records(stored.run.id), width(), color=True))


def _print_document(store: Store, stored: StoredRun) -> None:
    from pytest_quant.record import run_to_json

    show_json(run_to_json(stored.run, store.records(stored.run.id)))


def _print_heads_of(chosen: list[StoredRun]) -> None:
    from pytest_quant.report.text import aligned

    show("\n".join(aligned([["run", "started", "commit", "branch", "checks"], *map(_cells, chosen)])))


def _cells(stored: StoredRun) -> list[str]:
    run = stored.run
    commit = (run.commit or "no commit")[:12] + (" dirty" if run.dirty else "")
    counts = ", ".join(f"{number} {status}" for status, number in sorted(stored.counts.items())) or "no checks"
    return [clean(cell) for cell in (run.id, run.started_at, commit, run.branch or "-", counts)]
