"""``pytest-quant verify``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.places import existing_history, history_option

if TYPE_CHECKING:
    from pytest_quant.history.verify import Damage


@click.command(short_help="Tell whether every record of the history can be read.")
@click.option(
    "--salvage", type=click.Path(path_type=Path), metavar="FILE", help="Write all that can be read to a new file."
)
@history_option
def verify(salvage: Path | None, place: str | None) -> None:
    """Read every record, and name the run of each that cannot be; exit 1 when there is one.

    \b
    Examples:
      pytest-quant verify
      pytest-quant verify --salvage rest.jsonl; pytest-quant import rest.jsonl --history new.db
    """  # noqa: D301 - click reads a backspace
    where = existing_history(place)
    # Here, because it loads the database.
    from pytest_quant.history import verify as verifying

    runs = verifying.read_each(where)
    found = verifying.verify(runs) if salvage is None else verifying.salvage(runs, salvage)
    for damage in found.damages:
        click.secho(_line(damage), fg="red", err=True)
    rest = f", written to {salvage}" if salvage is not None else ""
    click.echo(f"{found.runs} runs with {found.records} records can be read{rest}; {len(found.damages)} damaged")
    sys.exit(1 if found.damages else 0)


def _line(damage: Damage) -> str:
    from pytest_quant.report import clean

    what = "the run" if damage.position is None else f"record {damage.position}"
    return clean(f"damaged: {damage.run_id}, {what}: {damage.reason}")
