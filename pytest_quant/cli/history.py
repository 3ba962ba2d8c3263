"""``pytest-quant history``: lists of runs and series, one of each, and the changes of level."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pytest_quant.cli.common import existing_history, history_option, say, show, show_json, width
from pytest_quant.cli.exchange import export, import_records, prune, pull, push
from pytest_quant.environment.revision import main_branch
from pytest_quant.errors import UsageError
from pytest_quant.history import open_store
from pytest_quant.history.rows import StoredRun
from pytest_quant.history.summaries import CheckSummary, SeriesSummary
from pytest_quant.printable import clean
from pytest_quant.record import run_to_json
from pytest_quant.report.series_text import changes_text, series_list, series_name, series_text
from pytest_quant.report.summary import table
from pytest_quant.report.text import align
from pytest_quant.spec import SeriesKey

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

_RUNS = 20
_POINTS = 50
_SEARCHED = 1000
"""Newest points of a series that are searched for changes, so that hundreds of long series take seconds."""

_LIST_SERIES = "pytest-quant history --series"


class _History(click.Group):
    """Takes words that name no command as arguments of ``list``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``list`` before the words if they name no command."""
        if not args or args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_History)
def history() -> None:
    """List runs, series and changes, exchange runs with other histories, and thin old records.

    Without a command it lists: pytest-quant history resnet int8 is pytest-quant history list resnet int8.

    \b
    Examples:
      pytest-quant history
      pytest-quant history 20260102T030405Z
      pytest-quant history test_digits ort-int8 --branch main
      pytest-quant history changes
      pytest-quant history export shard-1.jsonl
    """  # noqa: D301 - click reads a backspace


for _command in (export, import_records, prune, pull, push):
    history.add_command(_command)

_branch_option = click.option("--branch", metavar="NAME", help="Only of this branch  [of changes: the main one]")
_since_option = click.option(
    "--since",
    type=click.DateTime(),
    callback=lambda _context, _option, day: day and f"{day:%Y-%m-%dT%H:%M:%S}",
    metavar="DATE",
    help="Only from this day on, UTC.",
)


@history.command("list", short_help="List the last runs, the series, or the checks of one run.")
@click.argument("words", nargs=-1, metavar="[RUN|SERIES...]")
@click.option("--series", "list_series", is_flag=True, help="List the series instead of the runs.")
@click.option(
    "--last", type=click.IntRange(min=1), help=f"At most this many  [runs: {_RUNS}, points of a table: {_POINTS}]"
)
@_branch_option
@_since_option
@click.option("--json", "as_json", is_flag=True, help="Runs: one document in each line, as --quant-json writes them.")
@history_option
def list_records(
    words: tuple[str, ...],
    list_series: bool,
    last: int | None,
    branch: str | None,
    since: str | None,
    as_json: bool,
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
      pytest-quant history --json > records.jsonl     pytest-quant history import reads it
    """  # noqa: D301 - click reads a backspace
    store = open_store(existing_history(place), Path.cwd())
    name = " ".join(words)
    series = _find_matching(store, name) if name or list_series else []
    if len(series) == 1 and not list_series:
        limit = last or (None if as_json else _POINTS)
        points = store.points(series[0], branch=branch, since=since, limit=limit)
        _print_series(store.series(series)[0], points, store.left_out, as_json=as_json)
    elif list_series and name and not series:
        raise _unknown(store, name)
    elif series or list_series:
        _print_series_list(store.series(series if name else None), as_json=as_json)
    else:
        runs = [_run(store, name)] if name else store.runs(last or _RUNS, branch=branch, since=since)
        _print_runs(store, runs, as_json=as_json)
        if name and not as_json:
            show(table(store.records(runs[0].run.id), width(), color=True))


@history.command(short_help="Name the commits at which figures changed.")
@click.argument("words", nargs=-1, metavar="[SERIES...]")
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 0.995),
    default=0.95,
    show_default=True,
    help="Of all changes of all series at once.",
)
@click.option(
    "--last", type=click.IntRange(min=1), help=f"Search so many of the newest checks of each series  [{_SEARCHED}]"
)
@_branch_option
@_since_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@history_option
def changes(
    words: tuple[str, ...],
    confidence: float,
    last: int | None,
    branch: str | None,
    since: str | None,
    as_json: bool,
    place: str | None,
) -> None:
    """Name the commits of a branch at which figures changed, the latest first; of SERIES, or of all.

    \b
    Examples:
      pytest-quant history changes
      pytest-quant history changes resnet int8 --branch develop
    """  # noqa: D301 - click reads a backspace
    # Here, because it loads numpy, which takes longer than a table of thousands of checks.
    from pytest_quant.history.trends import find_changes

    store = open_store(existing_history(place), Path.cwd())
    name = " ".join(words)
    searched = _find_matching(store, name)
    if name and not searched:
        raise _unknown(store, name)
    branch = branch or main_branch(Path.cwd())
    level_changes = []
    for series in searched:
        points = store.points(series, branch=branch, since=since, limit=last or _SEARCHED)
        level_changes.extend(find_changes(points, confidence=confidence, family=len(searched)))
    level_changes.sort(key=lambda change: change.first_bad_at, reverse=True)
    if as_json:
        documents = [asdict(change) for change in level_changes]
        show_json({"branch": branch, "series": len(searched), "changes": documents})
    else:
        show(changes_text(level_changes, {key: series_name(key) for key in searched}, branch) + store.left_out)


def _find_matching(store: Store, name: str) -> list[str]:
    """Return the one series with the key `name`, else all whose test, model, engine and metric have its words."""
    words = name.lower().split()
    listed = store.series_keys()
    exact = [key for key in listed if name == key]
    return exact or [key for key in listed if all(word in series_name(key).lower() for word in words)]


def _unknown(store: Store, name: str) -> UsageError:
    return UsageError(f"there is no series '{name}'", allowed=_nearest(store, name), fix=f"see: {_LIST_SERIES}")


def _run(store: Store, name: str) -> StoredRun:
    """Return the run whose id begins with `name`. Raises `UsageError`, with the nearest series too."""
    try:
        return store.run(name)
    except UsageError as error:
        allowed = "; ".join(filter(None, (error.allowed, _nearest(store, name))))
        fix = error.fix or f"see: {_LIST_SERIES}"
        raise UsageError(error.what, value=error.value, allowed=allowed or None, fix=fix) from error


def _nearest(store: Store, name: str) -> str | None:
    texts = list(map(series_name, store.series_keys()))
    close = difflib.get_close_matches(name, texts, n=3, cutoff=0.2) or texts[:3]
    return f"nearest series: {'; '.join(close)}" if close else None


def _document(summary: SeriesSummary) -> dict[str, Any]:
    key = SeriesKey.parse(summary.key)
    named = {"nodeid": key.test, "model": key.model, "engine_id": key.engine_id, "metric": key.metric}
    return {"key": summary.key} | named | asdict(summary)


def _print_series_list(series: Sequence[SeriesSummary], *, as_json: bool) -> None:
    for summary in series if as_json else ():
        show_json(_document(summary))
    if series and not as_json:
        show(series_list(series))


def _print_runs(store: Store, runs: Sequence[StoredRun], *, as_json: bool) -> None:
    for stored in runs if as_json else ():
        show_json(run_to_json(stored.run, store.records(stored.run.id)))
    if runs and not as_json:
        show("\n".join(align([["run", "started", "commit", "branch", "checks"], *map(_cells, runs)])))


def _print_series(summary: SeriesSummary, points: Sequence[CheckSummary], left_out: str, *, as_json: bool) -> None:
    if as_json:
        show_json(_document(summary) | {"points": [asdict(point) for point in points]})
        return
    show(series_text(summary, points))
    if len(points) < summary.n_points:
        say(f"{len(points)} of {summary.n_points} points; --last N shows more{left_out}")


def _cells(stored: StoredRun) -> list[str]:
    run = stored.run
    commit = (run.commit or "no commit")[:12] + (" dirty" if run.dirty else "")
    counts = ", ".join(f"{number} {status}" for status, number in sorted(stored.counts.items())) or "no checks"
    return [clean(cell) for cell in (run.id, run.started_at, commit, run.branch or "-", counts)]
