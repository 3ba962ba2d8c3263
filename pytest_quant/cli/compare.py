"""``pytest-quant compare``, and the records of a revision or run that the user names."""

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
from pytest_quant.history import StoredCheck, open_store
from pytest_quant.history.baselines.launches import points_before
from pytest_quant.history.baselines.since import accepted_since
from pytest_quant.history.compare import Comparison, rule
from pytest_quant.history.compare import compare as compare_records
from pytest_quant.history.merge_base import elsewhere, records_of, resolve, select_base
from pytest_quant.printable import clean
from pytest_quant.report.comparison import ComparedRuns
from pytest_quant.report.comparison_document import comparison_json
from pytest_quant.report.comparison_text import comparison_text
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
    if base is not None and _RUN_ID.match(base):
        before = find_side(store, base, root)
        return (
            NamedRecords(before.checks, f"base {before.description}"),
            NamedRecords(now.checks, f"head {now.description}"),
        )
    if now.commit is None:
        raise UsageError("the head is no commit", value=now.description, fix="name a run as the base too")
    dirty = any(check.run.dirty for check in now.checks)
    chosen = select_base(store.commits, Repository(root), base, now.commit.id, dirty=dirty)
    earlier = [] if chosen.found is None else records_of(store, chosen.found, now.commit)
    same = chosen.tree is not None and chosen.tree == now.commit.tree
    later = records_of(store, now.commit, chosen.found) if same else now.checks
    return (
        NamedRecords(earlier, f"{chosen}{elsewhere(earlier, chosen.commit)}"),
        NamedRecords(later, f"head {now.description}"),
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
