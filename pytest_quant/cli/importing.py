"""``pytest-quant import``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.places import history_option, history_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_quant.history.stream import RunWithRecords


@click.command("import", short_help="Add records of files to the history.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--branch", metavar="NAME", help="For runs whose file tells no branch, those of asv for example.")
@history_option
def import_records(files: tuple[Path, ...], branch: str | None, place: str | None) -> None:
    """Add the runs in each FILE to the history; a run that is already there is left as it is.

    A FILE is one of pytest-quant export, one that was set aside because the history could not be written, one of
    --quant-json, of pytest-benchmark's --benchmark-json, or a result file of asv. Where any line of any file cannot
    be understood nothing is imported.

    \b
    Examples:
      pytest-quant import shard-1.jsonl shard-2.jsonl shard-3.jsonl
      pytest-quant import --branch main results/machine/*.json
    """  # noqa: D301 - click reads a backspace
    # Here, because it loads the database.
    from pytest_quant.history import open_store

    # Twice, so that neither memory nor the history holds a part of a file that is spoiled further down.
    for _ in _runs(files, branch):
        pass
    where = history_place(place)
    added, known = open_store(where).append_many(_runs(files, branch))
    click.echo(f"{added} of {added + known} runs added to {where}" + (f", {known} already there" if known else ""))


def _runs(files: tuple[Path, ...], branch: str | None) -> Iterator[RunWithRecords]:
    from dataclasses import replace

    from pytest_quant.history.stream import read_runs

    for file in files:
        for run, records in read_runs(file):
            yield (run if run.branch or not branch else replace(run, branch=branch)), records
