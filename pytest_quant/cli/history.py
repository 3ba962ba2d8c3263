"""``pytest-quant history``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.places import history_option, history_place
from pytest_quant.errors import UsageError, nearest

if TYPE_CHECKING:
    from pytest_quant.history import Store, StoredRun


@click.command(short_help="List the runs, or the checks of one run.")
@click.argument("run", required=False)
@click.option("--last", type=click.IntRange(min=1), default=20, show_default=True, help="So many runs at the most.")
@click.option("--json", "as_json", is_flag=True, help="One document in each line, as --quant-json writes them.")
@history_option
def history(run: str | None, last: int, as_json: bool, place: str | None) -> None:
    """List the last runs, newest first; with RUN, an id or its beginning, every check of that run.

    \b
    Examples:
      pytest-quant history --last 5
      pytest-quant history 20260102T030405Z
      pytest-quant history --json > records.jsonl     pytest-quant import reads it
    """  # noqa: D301 - click reads a backspace
    where = history_place(place)
    if "://" not in where and not Path(where).exists():
        click.echo(f"There is no history yet: {where} is written by the first run with a quant mark.", err=True)
        return
    # Here, because it loads the database.
    from pytest_quant.history import open_store

    store = open_store(where)
    chosen = store.runs(last) if run is None else [_find(store, run)]
    if as_json:
        _print_documents(store, chosen)
    elif run is not None:
        _print_run(chosen[0])
        _print_checks(store, chosen[0])
    else:
        for stored in chosen:
            _print_run(stored)


def _find(store: Store, beginning: str) -> StoredRun:
    runs = store.runs()
    found = [stored for stored in runs if stored.run.id.startswith(beginning)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{len(found)} runs begin with '{beginning}'", fix="write more of the id")
    raise UsageError(f"there is no run '{beginning}'", allowed=nearest(beginning, (s.run.id for s in runs[:10])))


def _print_documents(store: Store, chosen: list[StoredRun]) -> None:
    from pytest_quant.record import run_to_json

    for stored in chosen:
        click.echo(json.dumps(run_to_json(stored.run, store.records(stored.run.id)), allow_nan=False))


def _print_run(stored: StoredRun) -> None:
    from pytest_quant.report import clean

    run = stored.run
    commit = (run.commit or "no commit")[:12] + (" dirty" if run.dirty else "")
    counts = ", ".join(f"{number} {status}" for status, number in sorted(stored.counts.items())) or "no checks"
    click.echo(clean(f"{run.id}  {run.started_at}  {commit:<18}  {run.branch or '-':<20}  {counts}"))


def _print_checks(store: Store, stored: StoredRun) -> None:
    from pytest_quant.report import table

    width = shutil.get_terminal_size((100, 24)).columns
    # Always styled: click takes the styles away where the output is no terminal.
    click.echo(table(store.records(stored.run.id), width, color=True))
