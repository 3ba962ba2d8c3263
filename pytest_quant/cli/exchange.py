"""``pytest-quant export``, ``import``, ``push`` and ``pull``: exchange of runs with other histories and other tools."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.echo import say
from pytest_quant.cli.formats import DIRECTED, FORMATS, NDJSON, format_of
from pytest_quant.cli.places import existing_history, history_option, history_place
from pytest_quant.errors import UsageError
from pytest_quant.redact import redact_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_quant.errors import QuantError
    from pytest_quant.history.exchange.stream import RunWithRecords
    from pytest_quant.result import Better


_ALL, _LAST = "all", "last"

remote_option = click.option("--remote", default="origin", show_default=True, help="Name or address of the repository.")
branch_option = click.option(
    "--branch",
    default="pytest-quant-history",
    show_default=True,
    help="Branch that holds the records, and nothing else.",
)


@click.command(short_help="Write the history, or one run, for histories and for other tools.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    help="How it is written  [FILE.csv: csv, FILE.prom: openmetrics, any other: ndjson]",
)
@click.option(
    "--run",
    "which",
    metavar="RUN",
    help="The beginning of a run's id, 'last' or 'all'  [ndjson, csv: all; openmetrics and benchmarks: last]",
)
@click.option(
    "--better",
    type=click.Choice(["lower", "higher"]),
    help="For github-action-benchmark: figures for customSmallerIsBetter, or for customBiggerIsBetter  [lower]",
)
@history_option
def export(file: Path | None, form: str | None, which: str | None, better: Better | None, place: str | None) -> None:
    """Write runs, oldest first, to FILE, or to the output without one or for -.

    \b
    ndjson                   a line that names the format, then one run in each: pytest-quant import reads it
    csv                      a row for each check with every figure
    openmetrics              gauges of one run, for Prometheus and node_exporter's textfile collector
    github-action-benchmark  a list of figures of one run, see --better
    bencher                  the figures of one run in Bencher Metric Format
    grafana                  a dashboard for a history in PostgreSQL; reads no history

    \b
    Examples:
      pytest-quant export shard-1.jsonl              the artifact of one CI job
      pytest-quant export | gzip > history.jsonl.gz
      pytest-quant export checks.csv                 for pandas, R and spreadsheets
      pytest-quant export /var/lib/node_exporter/quant.prom
      pytest-quant export --format bencher --run last results.json
      pytest-quant export --format grafana dashboard.json
    """  # noqa: D301 - click reads a backspace
    name = format_of(form, file)
    _refuse_what_does_not_fit(name, which, better)
    counted = _Counted(() if FORMATS[name].runs == "none" else _chosen_runs(name, which, place))
    pieces = FORMATS[name].text(counted, better or "lower")
    if file is None or str(file) == "-":
        _write_out(pieces)
        return
    _write_whole(pieces, file)
    # What reads the records from a device must not find this line among them.
    through = not file.is_file() or file.parts[1:2] in (("dev",), ("proc",))
    say(f"{counted.told(name)} written to {file}", err=through)


@dataclass
class _Counted:
    """Runs that are counted while they are given out."""

    runs: Iterable[RunWithRecords]
    ids: list[str] = field(default_factory=list)
    checks: int = 0

    def __iter__(self) -> Iterator[RunWithRecords]:
        for run, records in self.runs:
            self.ids.append(run.id)
            self.checks += len(records)
            yield run, records

    def told(self, name: str) -> str:
        """Return what was given out, in the words of the format `name`."""
        form = FORMATS[name]
        if form.runs == "none":
            return f"{name} dashboard"
        # Here, because help does without.
        from pytest_quant.report.text import count

        runs = f"run {self.ids[0]}" if form.runs == "one" else count(len(self.ids), "run")
        return runs if name == NDJSON else f"{count(self.checks, 'check')} of {runs}"


def _refuse_what_does_not_fit(name: str, which: str | None, better: str | None) -> None:
    if better is not None and name != DIRECTED:
        raise UsageError(f"--better chooses figures of {DIRECTED}", value=f"--format {name}", fix="leave --better out")
    if which is not None and FORMATS[name].runs == "none":
        raise UsageError(f"{name} holds no run", value=f"--run {which}", fix="leave --run out")
    if which == _ALL and FORMATS[name].runs == "one":
        raise UsageError(
            f"a file of {name} holds one run",
            value=f"--run {_ALL}",
            allowed=f"{_LAST}, or the beginning of a run's id",
            fix="for all runs: --format csv, or ndjson",
        )


def _chosen_runs(name: str, which: str | None, place: str | None) -> Iterable[RunWithRecords]:
    """Return the runs of the history at `place` that are asked for, by default as the format `name` holds them."""
    where = existing_history(place)
    # Here, because it loads the database.
    from pytest_quant.history import open_store
    from pytest_quant.history.connect import shown_place

    store = open_store(where)
    if (which or (_ALL if FORMATS[name].runs == "many" else _LAST)) == _ALL:
        return store.each_run()
    if which is None or which == _LAST:
        newest = store.runs(limit=1)
        if not newest:
            raise UsageError(
                "there is no run in the history", value=shown_place(where), fix="run tests with a quant mark first"
            )
        chosen = newest[0].run
    else:
        chosen = store.run(which).run
    return [(chosen, tuple(store.records(chosen.id)))]


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
@click.option("--branch", metavar="NAME", help="For runs whose file names no branch, those of asv for example.")
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
