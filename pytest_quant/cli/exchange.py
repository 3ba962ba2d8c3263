"""``pytest-quant history export``, ``import``, ``push``, ``pull`` and ``prune``: runs of one history for another."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path

import click

from pytest_quant.cli.common import existing_history, history_option, history_place, say
from pytest_quant.errors import HistoryError, UsageError
from pytest_quant.files import file_errors, replace_file
from pytest_quant.history import open_store
from pytest_quant.history.git_branch import BRANCH, GitBranch
from pytest_quant.history.git_branch import pull as pull_runs
from pytest_quant.history.git_branch import push as push_runs
from pytest_quant.history.json_lines import RunWithRecords, lines_of, read_runs
from pytest_quant.history.rows import to_utc
from pytest_quant.history.unfinished_runs import SUFFIX
from pytest_quant.host import quote
from pytest_quant.printable import redact_address
from pytest_quant.record import Run
from pytest_quant.report.spreadsheet import csv_lines
from pytest_quant.report.text import count

remote_option = click.option("--remote", default="origin", show_default=True, help="Name or address of the repository.")
branch_option = click.option(
    "--branch", default=BRANCH, show_default=True, help="Branch that holds the records, and nothing else."
)


_COUNTED = {"ndjson": "run", "csv": "check", "durations": "test"}
"""By format: what a piece of it is, after the first one, which is a head."""


@click.command(short_help="Write the history, or one run, for other histories and for spreadsheets.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(list(_COUNTED)), help="How it is written  [FILE.csv: csv]")
@click.option(
    "--run", "which", default="all", metavar="RUN", help="The beginning of a run's id, 'last' or 'all'  [all]"
)
@history_option
def export(file: Path | None, form: str | None, which: str, place: str | None) -> None:
    """Write runs, oldest first, to FILE, or to the output without one or for -.

    A run or a record that is damaged is named and left out; the rest can be imported into a new history.

    \b
    ndjson     a line that names the format, then one run in each: pytest-quant history import reads it
    csv        a row for each check with its figures
    durations  the seconds that each test costs, for pytest --splits, of pytest-split; of all runs together

    Exit code: 0 everything was written, 1 something damaged was left out, 2 a question that cannot be answered.

    \b
    Examples:
      pytest-quant history export shard-1.jsonl              the artifact of one CI job
      pytest-quant history export | gzip > history.jsonl.gz
      pytest-quant history export checks.csv                 for pandas, R and spreadsheets
      pytest-quant history export --format durations .test_durations
    """  # noqa: D301 - click reads a backspace
    where = existing_history(place)
    unreadable: list[str] = []
    form = form or ("csv" if file is not None and file.suffix.lower() == ".csv" else "ndjson")
    if form == "durations":
        pieces = _durations(where, which)
    else:
        runs = _chosen_runs(which, where, unreadable)
        pieces = (line.encode() for line in csv_lines(runs)) if form == "csv" else lines_of(runs)
    target = None if str(file or "-") == "-" else file
    opened = nullcontext(sys.stdout.buffer) if target is None else replace_file(target)
    what = f"{target or 'the output'} cannot be written"
    number = -1
    with file_errors(HistoryError, what, "name a file in a folder with room"), opened as stream:
        for piece in pieces:
            stream.write(piece)
            number += 1
        stream.flush()
    if target is not None:
        rest = f"; left out as damaged: {len(unreadable)}" if unreadable else ""
        # What reads the records from a device must not find this line among them.
        say(f"{count(number, _COUNTED[form])} written to {file}{rest}", err=True)
    for reason in unreadable:
        say(f"left out: {reason}", color="red", err=True)
    sys.exit(1 if unreadable else 0)


def _chosen_runs(which: str, where: str, unreadable: list[str]) -> Iterable[RunWithRecords]:
    """Return the wanted runs of a history; `unreadable` gets a sentence for each damage."""
    store = open_store(where)
    if which == "all":
        return store.each_run(unreadable=unreadable)
    newest = store.runs(limit=1) if which == "last" else [store.run(which)]
    if not newest:
        raise UsageError("there is no run in the history", value=where, fix="run tests with a quant mark first")
    return store.each_run(newest[0].run.id, unreadable)


def _durations(where: str, which: str) -> Iterator[bytes]:
    """Yield the JSON that pytest-split reads. Raises `UsageError` if a single run is named: a median needs several."""
    if which != "all":
        raise UsageError("durations are of all runs together", value=f"--run {which}", fix="leave out --run")
    # Here, because other formats need none of it.
    from pytest_quant.history.shards import durations_s

    lines = [f"    {json.dumps(nodeid)}: {spent_s}" for nodeid, spent_s in durations_s(open_store(where)).items()]
    ends = [*[",\n"] * (len(lines) - 1), "\n}\n"]
    yield b"{\n" if lines else b"{}\n"
    yield from (f"{line}{end}".encode() for line, end in zip(lines, ends, strict=False))


@click.command("import", short_help="Add records of files to the history.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--expect",
    type=click.IntRange(min=1),
    metavar="N",
    help="Shards that must have reported, as pytest --splits N made.",
)
@history_option
def import_records(files: tuple[Path, ...], expect: int | None, place: str | None) -> None:
    """Add the runs in each FILE to the history; a run that is already there is left as it is.

    A FILE is one of pytest-quant history export, one that a run left because the history could not be written, or
    one of --quant-json. Where any line of any file cannot be understood nothing is imported.

    With --expect a FILE may be missing. The shards of the newest commit in the files that did not come to their end,
    and the tests that none of them ran, are named when everything else is imported.

    Exit code: 0 everything was imported, 1 shards or tests never reported, 2 a question that cannot be answered.

    \b
    Examples:
      pytest-quant history import shard-1.jsonl shard-2.jsonl shard-3.jsonl
      pytest-quant history import --expect 8 shards/*/quant.json
    """  # noqa: D301 - click reads a backspace
    if expect is not None:
        files = tuple(file for file in files if file.exists())
    elif not files:
        raise UsageError("no FILE is named", fix="pytest-quant history import FILE...; --expect N takes none as lost")
    # Read twice, so that a file with a bad line is refused before any of it is imported, without holding it in memory.
    read = [(run, {record.nodeid for record in records}) for run, records in chain.from_iterable(map(read_runs, files))]
    where = history_place(place)
    added, repeated = open_store(where).append_many(chain.from_iterable(map(read_runs, files)))
    rest = f", {repeated} already there" if repeated else ""
    say(f"{added} of {added + repeated} runs added to {where}{rest}")
    if left := [quote(str(file)) for file in files if file.suffix == SUFFIX]:
        say(f"all of {' '.join(left)} is in the history now, so it may be removed")
    if expect is not None and (missing := _list_missing(read, expect)):
        say(missing, color="red", err=True)
        sys.exit(1)


def _list_missing(read: Sequence[tuple[Run, set[str]]], expected: int) -> str:
    """Return which shards and tests of the newest commit never reported, a line each; empty if all reported."""
    # Here, because few imports ask for it.
    from pytest_quant.history.shards import find_unreported

    commit = max(read, key=lambda each: to_utc(each[0].started_at))[0].commit if read else None
    of_commit = [(run, tests) for run, tests in read if run.commit == commit]
    found = find_unreported([run for run, _ in of_commit], set().union(*(tests for _, tests in of_commit)), expected)
    lines = [f"shards that never reported: {', '.join(found.shards)}"] if found.shards else []
    return "\n".join([*lines, *(f"never reported: {test}" for test in found.tests)])


@click.command(short_help="Add the runs on a branch of the git remote to the history.")
@remote_option
@branch_option
@history_option
def pull(remote: str, branch: str, place: str | None) -> None:
    """Add to the history every run of the branch that it does not have yet; see pytest-quant history push.

    A file that cannot be read is named, and the others are added all the same.

    Exit code: 0 every file was read, 1 some could not be, 2 nothing could be fetched.

    \b
    Example:
      pytest-quant history pull --remote origin
    """  # noqa: D301 - click reads a backspace
    where = history_place(place)
    added, repeated, refused = pull_runs(open_store(where), GitBranch(Path.cwd(), remote, branch))
    say(f"{added} runs added to {where}, {repeated} already there")
    for reason in refused:
        say(reason, color="red", err=True)
    sys.exit(1 if refused else 0)


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
      pytest-quant history push --remote origin
    """  # noqa: D301 - click reads a backspace
    number = push_runs(open_store(existing_history(place)), GitBranch(Path.cwd(), remote, branch))
    say(f"{number} runs added to the branch {branch} of {redact_address(remote)}")


@click.command(short_help="Make the history smaller, or remove a run from it.")
@click.option(
    "--keep-runs", type=click.IntRange(min=0), metavar="N", help="Leave the newest N runs as they are; thin the others."
)
@click.option("--run", "which", metavar="RUN", help="Remove this run, named by the beginning of its id.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@history_option
def prune(keep_runs: int | None, which: str | None, dry_run: bool, place: str | None) -> None:
    """Remove the times of single rounds from the records of old runs; medians, intervals and verdicts stay.

    With --run, remove one run with all its records in place of that: one that must not be compared with. A pull or an
    import brings it back as long as it is on the branch, or in the file.

    \b
    Examples:
      pytest-quant history prune --keep-runs 500 --dry-run
      pytest-quant history prune --run 20260102T030405Z
    """  # noqa: D301 - click reads a backspace
    would = "would be " if dry_run else ""
    if (keep_runs is None) == (not which):
        raise UsageError("nothing says what is to be removed", allowed="one of --keep-runs N and --run RUN")
    where = existing_history(place)
    if keep_runs is None:
        say(f"run {open_store(where).remove(which or '', dry_run=dry_run)} {would}removed from {where}")
        return
    # Here, because it loads the database, which help does without.
    from pytest_quant.history.writing import prune as prune_runs

    runs, records, freed_bytes = prune_runs(open_store(where), keep_runs, dry_run=dry_run)
    thinned = f"{count(records, 'record')} of {count(runs, 'run')}"
    say(f"{thinned} {would}thinned, {freed_bytes} bytes {would}freed")
