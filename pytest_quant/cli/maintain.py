"""``pytest-quant prune`` and ``pytest-quant verify``: maintenance of a history."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.echo import say
from pytest_quant.cli.places import existing_history, history_option
from pytest_quant.errors import UsageError
from pytest_quant.printable import clean

if TYPE_CHECKING:
    from pytest_quant.history.maintain import Damage


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
    from pytest_quant.history.maintain import prune as prune_runs
    from pytest_quant.report.text import count

    limit = None if before is None else before.replace(tzinfo=UTC)
    pruned = prune_runs(where, keep_runs=keep_runs, before=limit, dry_run=dry_run)
    would = "would be " if dry_run else ""
    what = f"{count(pruned.records, 'record')} of {count(pruned.runs, 'run')}"
    say(f"{what} {would}thinned, {pruned.freed_bytes} bytes {would}freed")


@click.command(short_help="Check that every record of the history can be read.")
@click.option(
    "--salvage", type=click.Path(path_type=Path), metavar="FILE", help="Write all that can be read to a new file."
)
@history_option
def verify(salvage: Path | None, place: str | None) -> None:
    """Read every record, and name the run of each one that cannot be read.

    Exit code: 0 every record can be read, 1 some cannot, 2 a question that cannot be answered.

    \b
    Examples:
      pytest-quant verify
      pytest-quant verify --salvage rest.jsonl; pytest-quant import rest.jsonl --history new.db
    """  # noqa: D301 - click reads a backspace
    where = existing_history(place)
    # Here, because it loads the database.
    from pytest_quant.history import maintain as verifying

    runs = verifying.read_each(where)
    verified = verifying.verify(runs) if salvage is None else verifying.salvage(runs, salvage)
    for damage in verified.damages:
        say(_line(damage), color="red", err=True)
    rest = f", written to {salvage}" if salvage is not None else ""
    say(f"{verified.runs} runs with {verified.records} records can be read{rest}; {len(verified.damages)} damaged")
    sys.exit(1 if verified.damages else 0)


def _line(damage: Damage) -> str:
    if damage.run_id is None:
        return clean(f"damaged: {damage.reason}")
    what = "the run" if damage.position is None else f"record {damage.position}"
    return clean(f"damaged: {damage.run_id}, {what}: {damage.reason}")
