"""``pytest-quant export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from pytest_quant.cli.places import existing_history, history_option

if TYPE_CHECKING:
    from pytest_quant.errors import QuantError
    from pytest_quant.history.store import Store


@click.command(short_help="Write the history as newline-delimited JSON.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@history_option
def export(file: Path | None, place: str | None) -> None:
    """Write every run, oldest first, to FILE or to the output: a line that names the format, then one run in each.

    \b
    Examples:
      pytest-quant export shard-1.jsonl              the artifact of one CI job
      pytest-quant export | gzip > history.jsonl.gz
    """  # noqa: D301 - click reads a backspace
    where = existing_history(place)
    # Here, because it loads the database.
    from pytest_quant.history import open_store

    store = open_store(where)
    if file is None:
        _write_out(store)
        return
    number = _write_whole(store, file)
    click.echo(f"{number} runs written to {file}")


def _write_out(store: Store) -> None:
    import sys

    try:
        _write(store, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The reader has what it wanted, as head does; click ends quietly.
        raise
    except OSError as error:
        raise _not_written("the output", error) from error


def _not_written(what: str, error: OSError) -> QuantError:
    from pytest_quant.errors import HistoryError

    return HistoryError(
        f"{what} cannot be written", value=error.strerror or str(error), fix="name a file in a folder with room"
    )


def _write(store: Store, stream: BinaryIO) -> int:
    from pytest_quant.history.stream import write_runs

    return write_runs(stream, store.each_run())


def _write_whole(store: Store, file: Path) -> int:
    """Put the file in its place in one step, so that a full disk or a kill leaves what was there."""
    import secrets

    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("xb") as stream:
            number = _write(store, stream)
        draft.replace(file)
    except OSError as error:
        raise _not_written(str(file), error) from error
    finally:
        draft.unlink(missing_ok=True)
    return number
