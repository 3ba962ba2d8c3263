"""``pytest-quant export``, ``import``, ``push`` and ``pull``: exchange of runs between histories."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from pytest_quant.cli.echo import say
from pytest_quant.cli.places import existing_history, history_option, history_place
from pytest_quant.redact import redact_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_quant.errors import QuantError
    from pytest_quant.history.exchange.stream import RunWithRecords
    from pytest_quant.history.store import Store


remote_option = click.option("--remote", default="origin", show_default=True, help="Name or address of the repository.")
branch_option = click.option(
    "--branch", default="pytest-quant-history", show_default=True, help="Where the records lie; nothing else is there."
)


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
    # What reads the records from a device must not find this line among them.
    through = not file.is_file() or file.parts[1:2] in (("dev",), ("proc",))
    say(f"{number} runs written to {file}", err=through)


def _write_out(store: Store) -> None:
    import sys

    try:
        _write(store, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The reader, such as head, has closed the pipe; click ends without a message.
        raise
    except OSError as error:
        raise _not_written("the output", error) from error


def _not_written(what: str, error: OSError) -> QuantError:
    from pytest_quant.errors import HistoryError

    return HistoryError(
        f"{what} cannot be written", value=error.strerror or str(error), fix="name a file in a folder with room"
    )


def _write(store: Store, stream: BinaryIO) -> int:
    from pytest_quant.history.exchange.stream import write_runs

    return write_runs(stream, store.each_run())


def _write_whole(store: Store, file: Path) -> int:
    from pytest_quant.whole_file import whole_file

    try:
        with whole_file(file) as stream:
            return _write(store, stream)
    except OSError as error:
        raise _not_written(str(file), error) from error


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
    from pytest_quant.history.connect import shown_place

    # Read twice, so that a file with a bad line is refused before any of it is imported, without holding it in memory.
    for _ in _runs(files, branch):
        pass
    where = history_place(place)
    added, known = open_store(where).append_many(_runs(files, branch))
    rest = f", {known} already there" if known else ""
    say(f"{added} of {added + known} runs added to {shown_place(where)}{rest}")


def _runs(files: tuple[Path, ...], branch: str | None) -> Iterator[RunWithRecords]:
    from dataclasses import replace

    from pytest_quant.history.exchange.stream import read_runs

    for file in files:
        for run, records in read_runs(file):
            yield (run if run.branch or not branch else replace(run, branch=branch)), records


@click.command(short_help="Add the runs on a branch of the git remote to the history.")
@remote_option
@branch_option
@history_option
def pull(remote: str, branch: str, place: str | None) -> None:
    """Add every run on the branch that the history has not; see pytest-quant push.

    A file that cannot be read is named and keeps no other one out; then the exit code is 1.

    \b
    Example:
      pytest-quant pull --remote origin
    """  # noqa: D301 - click reads a backspace
    # Here, because it loads the database.
    from pytest_quant.history import open_store
    from pytest_quant.history.connect import shown_place
    from pytest_quant.history.exchange.git_branch import GitFiles
    from pytest_quant.history.exchange.git_branch import pull as pull_runs

    where = history_place(place)
    pulled = pull_runs(open_store(where), GitFiles(Path.cwd(), remote, branch))
    say(f"{pulled.added} runs added to {shown_place(where)}, {pulled.known} already there")
    for reason in pulled.refused:
        say(reason, color="red", err=True)
    sys.exit(1 if pulled.refused else 0)


@click.command(short_help="Add the history's runs to a branch of the git remote.")
@remote_option
@branch_option
@history_option
def push(remote: str, branch: str, place: str | None) -> None:
    """Add every run that is not there yet to a branch of its own, one new file each.

    The branch shares no commit with the code; working tree, index and branches here stay as they are, and so do
    files of others that push at the same time. Hooks are not run.

    \b
    Example:
      pytest-quant push --remote origin
    """  # noqa: D301 - click reads a backspace
    where = existing_history(place)
    # Here, because it loads the database.
    from pytest_quant.history import open_store
    from pytest_quant.history.exchange.git_branch import GitFiles
    from pytest_quant.history.exchange.git_branch import push as push_runs

    number = push_runs(open_store(where), GitFiles(Path.cwd(), remote, branch))
    say(f"{number} runs added to the branch {branch} of {redact_address(remote)}")
