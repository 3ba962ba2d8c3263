"""``pytest-quant prune``."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from pytest_quant.cli.echo import say
from pytest_quant.cli.places import existing_history, history_option
from pytest_quant.errors import UsageError


@click.command(short_help="Make the history smaller; every figure that is shown stays.")
@click.option("--keep-runs", type=click.IntRange(min=0), metavar="N", help="Leave the newest N runs as they are.")
@click.option("--before", type=click.DateTime(), metavar="DATE", help="Only runs that started before, UTC.")
@click.option("--dry-run", is_flag=True, help="Print what would be freed, and change nothing.")
@history_option
def prune(keep_runs: int | None, before: datetime | None, dry_run: bool, place: str | None) -> None:
    """Remove the times of single rounds from the records of old runs; medians, intervals and verdicts stay.

    \b
    Examples:
      pytest-quant prune --keep-runs 500 --dry-run
      pytest-quant prune --before 2026-01-01
    """  # noqa: D301 - click reads a backspace
    if keep_runs is None and before is None:
        raise UsageError("prune thins old runs, and nothing says which are old", allowed="--keep-runs N, --before DATE")
    where = existing_history(place)
    # Here, because it loads the database.
    from pytest_quant.history.prune import prune as prune_runs
    from pytest_quant.report.text import count

    limit = None if before is None else before.replace(tzinfo=UTC)
    pruned = prune_runs(where, keep_runs=keep_runs, before=limit, dry_run=dry_run)
    would = "would be " if dry_run else ""
    what = f"{count(pruned.records, 'record')} of {count(pruned.runs, 'run')}"
    say(f"{what} {would}thinned, {pruned.freed_bytes} bytes {would}freed")
