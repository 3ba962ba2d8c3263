"""``pytest-quant compare`` and ``report``, and the records of a revision or run that the user names."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.common import existing_history, history_option, project_root, say, show, show_json, width
from pytest_quant.environment import Committed, Repository
from pytest_quant.errors import UsageError
from pytest_quant.files import next_step, write_whole
from pytest_quant.history import StoredCheck, open_store
from pytest_quant.history.baselines.accept import accepted_since
from pytest_quant.history.baselines.file import NAME, read_baselines
from pytest_quant.history.baselines.launches import points_before
from pytest_quant.history.compare import Comparison, rule
from pytest_quant.history.compare import compare as compare_records
from pytest_quant.history.merge_base import elsewhere, records_of, resolve, select_base
from pytest_quant.history.trends import series_histories
from pytest_quant.printable import clean
from pytest_quant.report.comparison import ComparedRuns, comparison_json
from pytest_quant.report.comparison_text import comparison_text
from pytest_quant.report.page import page_html
from pytest_quant.report.pull_request import comparison_comment
from pytest_quant.report.text import count

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

_RUN_ID = re.compile(r"\d{8}T\d")
_RECENT_RUNS = 200


@click.command()
@click.argument("base", required=False)
@click.argument("head", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for a comment in a pull request.")
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 3 when a row is inconclusive, with 4 when there is no base.",
)
@click.option(
    "--full-suite/--partial",
    default=True,
    show_default=True,
    help="Whether HEAD ran every test, so that one that is missing was removed.",
)
@history_option
def compare(
    base: str | None,
    head: str | None,
    as_json: bool,
    as_markdown: bool,
    strict: bool,
    full_suite: bool,
    place: str | None,
) -> None:
    """Compare the records of HEAD with those of BASE: accuracy, sizes, coverage and latency.

    Both are revisions of git or ids of runs. HEAD is what is checked out. BASE is its merge base with the branch it
    is to be merged into; where that has no records, the nearest first parent below it that has some.

    Exit code: 0 no regression, 1 a regression or a test that was removed, 2 a question that cannot be answered;
    under --strict also 3 inconclusive and 4 no base.

    \b
    Examples:
      pytest-quant compare
      pytest-quant compare v1.0              has it crept since the release?
      pytest-quant compare main topic --markdown
      pytest-quant compare 20260102T0304 20260102T0506
    """  # noqa: D301 - click reads a backspace
    if as_json and as_markdown:
        raise UsageError("--json and --markdown are two outputs", fix="write one of them")
    root = project_root()
    store = open_store(existing_history(place))
    before, now = find_sides(store, base, head, root)
    for side in (before, now):
        say(side.description, err=as_json or as_markdown)
    comparison = compare_sides(store, before, now, root)
    ruling = rule(comparison, strict=strict, full_suite=full_suite)
    if as_json:
        show_json(comparison_json(comparison, ruling), indent=1)
    elif as_markdown:
        show(comparison_comment(ComparedRuns(comparison, ruling)))
    else:
        show(comparison_text(comparison, ruling, width(), color=True))
    sys.exit(ruling.code)


@click.command()
@click.argument("commits", required=False, metavar="[BASE..HEAD]")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The page, one file that loads nothing else.",
)
@history_option
def report(commits: str | None, output: Path, place: str | None) -> None:
    """Write a page about the records of HEAD: every check, what changed since BASE, the history, Pareto.

    Both are revisions of git or ids of runs, as pytest-quant compare takes them; without HEAD it is what is checked
    out, or the last run where that has no records. The page opens from the disk and loads nothing from a network; of
    long histories it has the newest points.

    \b
    Examples:
      pytest-quant report -o report.html
      pytest-quant report main..topic -o report.html
      pytest-quant report 20260102T0304 -o report.html
    """  # noqa: D301 - click reads a backspace
    root = project_root()
    store = open_store(existing_history(place))
    base, _, name = (commits or "").rpartition("..")
    head, now = _head(store, name, root)
    compared, why_not = None, ""
    try:
        before, now = find_sides(store, base or None, head, root)
    except UsageError as error:
        if base:
            raise
        why_not = f"There is no base to compare with: {error.what}."
    else:
        comparison = compare_sides(store, before, now, root)
        compared = ComparedRuns(comparison, rule(comparison, full_suite=True), (before.description, now.description))
    say(now.description if now.description.startswith("head") else f"head {now.description}")
    # The last record of each test, in the order of the first.
    checks = list({(check.record.nodeid, check.record.series): check for check in now.checks}.values())
    page = page_html(
        checks,
        compared=compared,
        why_not_compared=why_not,
        next_step="pytest-quant report BASE..HEAD -o FILE" if why_not else "",
        history=series_histories(store, [check.record.series for check in checks], read_baselines(root / NAME)),
        why_no_history="The history has no series of these records.",
    )
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_whole(output, page)
    except OSError as error:
        step = next_step(error, "name a place in a writable folder")
        raise UsageError(
            "the page cannot be written", value=f"{output}: {error.strerror or error}", fix=step
        ) from error
    say(f"written: {output}")


def _head(store: Store, name: str, root: Path) -> tuple[str, NamedRecords]:
    """Return a name of the head and its records; the last run where none is named and HEAD has no records."""
    try:
        return name or "HEAD", find_side(store, name or "HEAD", root)
    except UsageError:
        last = store.runs(limit=1)
        if name or not last:
            raise
        return last[0].run.id, of_run(store, last[0].run.id)


@dataclass(frozen=True, slots=True)
class NamedRecords:
    """The records of a revision or run, described in one line, and the commit that they are of."""

    checks: list[StoredCheck]
    description: str
    commit: Committed | None = None


def find_sides(store: Store, base: str | None, head: str | None, root: Path) -> tuple[NamedRecords, NamedRecords]:
    """Return the records of base and head, see `compare`.

    Parameters
    ----------
    store : the history.
    base, head : revisions or runs; ``None`` for the merge base, and for what is checked out.
    root : folder in the git repository.

    Raises
    ------
    UsageError : git knows no such revision, or there are no records of the head.
    """
    now = find_side(store, head or "HEAD", root)
    about_head = f"head {now.description}"
    if base is not None and _RUN_ID.match(base):
        before = find_side(store, base, root)
        return NamedRecords(before.checks, f"base {before.description}"), NamedRecords(now.checks, about_head)
    if now.commit is None:
        raise UsageError("the head is no commit", value=now.description, fix="name a run as the base too")
    dirty = any(check.run.dirty for check in now.checks)
    chosen = select_base(store.commits, Repository(root), base, now.commit.id, dirty=dirty)
    earlier = [] if chosen.found is None else records_of(store, chosen.found, now.commit)
    same = chosen.tree is not None and chosen.tree == now.commit.tree
    later = records_of(store, now.commit, chosen.found) if same else now.checks
    return (
        NamedRecords(earlier, f"{chosen}{elsewhere(earlier, chosen.commit)}"),
        NamedRecords(later, about_head),
    )


def find_side(store: Store, name: str, root: Path) -> NamedRecords:
    """Return the records of the run or the commit that `name` names; its last run where no run had a clean tree.

    Parameters
    ----------
    store : the history.
    name : start of a run's id, or a revision.
    root : folder in the git repository.

    Raises
    ------
    UsageError : git knows no such commit, there is no such run, or there are no records of it.
    """
    if _RUN_ID.match(name):
        return of_run(store, name)
    git = Repository(root)
    commit = resolve(git, name, store.commits)
    committed = Committed(commit, git.tree(commit))
    checks = records_of(store, committed)
    shown = f"{clean(name)} ({commit[:12]})" if not commit.startswith(name) else commit[:12]
    if checks:
        return NamedRecords(checks, f"{shown}: {_count(checks)}{elsewhere(checks, commit)}", committed)
    recent = (stored.run for stored in store.runs(limit=_RECENT_RUNS))
    dirty = next((run for run in recent if run.commit == commit and run.dirty), None)
    if dirty is not None:
        return of_run(store, dirty.id)
    raise UsageError(
        f"there are no records of {shown}",
        fix="run the tests there; 'pytest-quant history' lists the runs there are, whose ids can be named too",
    )


def of_run(store: Store, name: str) -> NamedRecords:
    """Return the records of the run whose id begins with `name`. Raises `UsageError` when there is none, or several."""
    run = store.run(name).run
    checks = [StoredCheck(run, record) for record in store.records(run.id)]
    dirty = ", of a tree with changes that were not committed" if run.dirty else ""
    description = f"run {run.id} of {(run.commit or 'no commit')[:12]}{dirty}: {_count(checks)}"
    return NamedRecords(checks, description, None if run.commit is None else Committed(run.commit))


def _count(checks: list[StoredCheck]) -> str:
    return f"{count(len(checks), 'record')} of {count(len({check.run.id for check in checks}), 'run')}"


def compare_sides(store: Store, before: NamedRecords, now: NamedRecords, root: Path) -> Comparison:
    """Return the comparison of two sides, with what was accepted since and how launches differed before.

    Parameters
    ----------
    store : the history.
    before, now : base and head, see `find_sides`.
    root : the project's folder, with its baselines, in the git repository.
    """
    accepted = accepted_since(root, before.checks, now.checks, datetime.now(UTC).date())
    commit = before.checks[-1].run.commit if before.checks else None
    earlier = points_before(store, Repository(root), commit)
    return compare_records(before.checks, now.checks, accepted=accepted, earlier=earlier)
