"""``pytest-quant import``."""

from __future__ import annotations

from pathlib import Path

import click

from pytest_quant.cli.places import history_option, history_place


@click.command("import", short_help="Add records that were set aside to the history.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@history_option
def import_records(files: tuple[Path, ...], place: str | None) -> None:
    """Add the runs in each FILE to the history; a run that is already there is left as it is.

    A FILE is one that pytest-quant wrote because the history could not be, or that --quant-json wrote.
    """
    # Here, because it loads the database.
    from pytest_quant.history import open_store, read_aside

    runs = [run for file in files for run in read_aside(file)]
    where = history_place(place)
    store = open_store(where)
    added = [store.append(run, records) for run, records in runs]
    known = len(added) - sum(added)
    click.echo(f"{sum(added)} of {len(added)} runs added to {where}" + (f", {known} already there" if known else ""))
