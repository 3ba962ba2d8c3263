"""``pytest-quant export``, ``import``, ``push`` and ``pull``: exchange of runs with other histories."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.echo import say
from pytest_quant.cli.places import existing_history, history_option, history_place
from pytest_quant.errors import UsageError
from pytest_quant.redact import redact_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_quant.errors import QuantError
    from pytest_quant.history.json_lines import RunWithRecords

remote_option = click.option("--remote", default="origin", show_default=True, help="Name or address of the repository.")
branch_option = click.option(
    "--branch",
    default="pytest-quant-history",
    show_default=True,
    help="Branch that holds the records, and nothing else.",
)


@click.command(short_help="Write the history, or one run, for other histories and for spreadsheets.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["ndjson", "csv"]), help="How it is written  [FILE.csv: csv]")
@click.option(
    "--run", "which", default="all", metavar="RUN", help="The beginning of a run's id, 'last' or 'all'  [all]"
)
@history_option
def export(file: Path | None, form: str | None, which: str, place: str | None) -> None:
    """Write runs, oldest first, to FILE, or to the output without one or for -.

    A run or a record that is damaged is named and left out; pytest-quant import adds the rest to a new history.

    \b
    ndjson  a line that names the format, then one run in each: pytest-quant import reads it
    csv     a row for each check with every figure

    Exit code: 0 everything was written, 1 something damaged was left out, 2 a question that cannot be answered.

    \b
    Examples:
      pytest-quant export shard-1.jsonl              the artifact of one CI job
      pytest-quant export | gzip > history.jsonl.gz
      pytest-quant export checks.csv                 for pandas, R and spreadsheets
    """  # noqa: D301 - click reads a backspace
    unreadable: list[str] = []
    counted = _Counted(_chosen_runs(which, place, unreadable))
    is_csv = form == "csv" if form else file is not None and file.suffix.lower() == ".csv"
    pieces = _csv(counted) if is_csv else _ndjson(counted)
    if file is None or str(file) == "-":
        _write_out(pieces)
    else:
        _write_whole(pieces, file)
        # Here, because help does without.
        from pytest_quant.report.text import count

        checks = f"{count(counted.checks, 'check')} of " if is_csv else ""
        rest = f"; left out as damaged: {len(unreadable)}" if unreadable else ""
        # What reads the records from a device must not find this line among them.
        through = not file.is_file() or file.parts[1:2] in (("dev",), ("proc",))
        say(f"{checks}{count(counted.number, 'run')} written to {file}{rest}", err=through)
    for reason in unreadable:
        say(f"left out: {reason}", color="red", err=True)
    sys.exit(1 if unreadable else 0)


def _ndjson(runs: Iterable[RunWithRecords]) -> Iterator[bytes]:
    from pytest_quant.history.json_lines import lines_of

    return lines_of(runs)


def _csv(runs: Iterable[RunWithRecords]) -> Iterator[bytes]:
    from pytest_quant.report.spreadsheet import csv_lines

    for line in csv_lines(runs):
        yield line.encode()


@dataclass
class _Counted:
    """Runs that are counted while they are given out."""

    runs: Iterable[RunWithRecords]
    number: int = 0
    checks: int = 0

    def __iter__(self) -> Iterator[RunWithRecords]:
        for run, records in self.runs:
            self.number += 1
            self.checks += len(records)
            yield run, records


def _chosen_runs(which: str, place: str | None, unreadable: list[str]) -> Iterable[RunWithRecords]:
    """Return the wanted runs of the history at `place`; `unreadable` gets a sentence for each damage."""
    where = existing_history(place)
    # Here, because it loads the database.
    from pytest_quant.history import open_store
    from pytest_quant.history.connect import shown_place

    store = open_store(where)
    if which == "all":
        return store.each_run(unreadable=unreadable)
    if which == "last":
        newest = store.runs(limit=1)
        if not newest:
            raise UsageError(
                "there is no run in the history", value=shown_place(where), fix="run tests with a quant mark first"
            )
        chosen = newest[0].run
    else:
        chosen = store.run(which).run
    return store.each_run(chosen.id, unreadable)


def _write_out(pieces: Iterable[bytes]) -> None:
    try:
        sys.stdout.buffer.writelines(pieces)
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


def _write_whole(pieces: Iterable[bytes], file: Path) -> None:
    from pytest_quant.whole_file import whole_file

    try:
        with whole_file(file) as stream:
            stream.writelines(pieces)
    except OSError as error:
        raise _not_written(str(file), error) from error


@click.command("import", short_help="Add records of files to the history.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@history_option
def import_records(files: tuple[Path, ...], place: str | None) -> None:
    """Add the runs in each FILE to the history; a run that is already there is left as it is.

    A FILE is one of pytest-quant export, one that was set aside because the history could not be written, or one of
    --quant-json. Where any line of any file cannot be understood nothing is imported.

    \b
    Example:
      pytest-quant import shard-1.jsonl shard-2.jsonl shard-3.jsonl
    """  # noqa: D301 - click reads a backspace
    # Here, because it loads the database.
    from pytest_quant.history import open_store
    from pytest_quant.history.connect import shown_place

    # Read twice, so that a file with a bad line is refused before any of it is imported, without holding it in memory.
    for _ in _runs(files):
        pass
    where = history_place(place)
    added, known = open_store(where).append_many(_runs(files))
    rest = f", {known} already there" if known else ""
    say(f"{added} of {added + known} runs added to {shown_place(where)}{rest}")


def _runs(files: tuple[Path, ...]) -> Iterator[RunWithRecords]:
    from pytest_quant.history.json_lines import read_runs

    for file in files:
        yield from read_runs(file)


@click.command(short_help="Add the runs on a branch of the git remote to the history.")
@remote_option
@branch_option
@history_option
def pull(remote: str, branch: str, place: str | None) -> None:
    """Add to the history every run of the branch that it does not have yet; see pytest-quant push.

    A file that cannot be read is named, and the others are added all the same.

    Exit code: 0 every file was read, 1 some could not be, 2 nothing could be fetched.

    \b
    Example:
      pytest-quant pull --remote origin
    """  # noqa: D301 - click reads a backspace
    # Here, because it loads the database.
    from pytest_quant.history import open_store
    from pytest_quant.history.connect import shown_place
    from pytest_quant.history.git_branch import GitFiles
    from pytest_quant.history.git_branch import pull as pull_runs

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
    from pytest_quant.history.git_branch import GitFiles
    from pytest_quant.history.git_branch import push as push_runs

    number = push_runs(open_store(where), GitFiles(Path.cwd(), remote, branch))
    say(f"{number} runs added to the branch {branch} of {redact_address(remote)}")
