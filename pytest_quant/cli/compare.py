"""``pytest-quant compare``."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.echo import say, show, show_json
from pytest_quant.cli.places import existing_history, history_option, project_root, width
from pytest_quant.errors import UsageError

if TYPE_CHECKING:
    from pytest_quant.cli.named_records import Found
    from pytest_quant.history.compare import Comparison, Ruling
    from pytest_quant.history.store import Store


@click.command(short_help="Compare two commits, series by series.")
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
    if base is not None and ".." in base:
        earlier, later = re.split(r"\.{2,3}", base, maxsplit=1)
        words = [earlier or "HEAD", *([later] if later else [])]
        raise UsageError(
            "BASE and HEAD are two words here", value=base, fix=f"write: pytest-quant compare {' '.join(words)}"
        )
    # Here, because it loads the database.
    from pytest_quant.history import open_store
    from pytest_quant.history.compare import rule

    root = project_root()
    store = open_store(existing_history(place))
    before, now = find_sides(store, base, head, root)
    for line in (before.told, now.told):
        say(line, err=as_json or as_markdown)
    comparison = compare_sides(store, before, now, root)
    ruling = rule(comparison, strict=strict, full_suite=full_suite)
    _show(comparison, ruling, as_json=as_json, as_markdown=as_markdown)
    sys.exit(ruling.code)


def find_sides(store: Store, base: str | None, head: str | None, root: Path) -> tuple[Found, Found]:
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
    from pytest_quant.cli.named_records import Found, find_side, is_run
    from pytest_quant.environment import Repository
    from pytest_quant.history.merge_base import elsewhere, records_of, select_base

    now = find_side(store, head or "HEAD", root, take_dirty=True)
    if base is not None and is_run(base):
        before = find_side(store, base, root, take_dirty=True)
        return Found(before.checks, f"base {before.told}"), Found(now.checks, f"head {now.told}")
    if now.commit is None:
        raise UsageError("the head is no commit", value=now.told, fix="name a run as the base too")
    dirty = any(one.run.dirty for one in now.checks)
    chosen = select_base(store.commits, Repository(root), base, now.commit.id, dirty=dirty)
    earlier = [] if chosen.found is None else records_of(store, chosen.found, now.commit)
    same = chosen.tree is not None and chosen.tree == now.commit.tree
    later = records_of(store, now.commit, chosen.found) if same else now.checks
    told = f"{chosen}{elsewhere(earlier, chosen.commit)}"
    return Found(earlier, told), Found(later, f"head {now.told}")


def compare_sides(store: Store, before: Found, now: Found, root: Path) -> Comparison:
    """Return the comparison of two sides, with what was accepted since and how launches differed before.

    Parameters
    ----------
    store : the history.
    before, now : base and head, see `find_sides`.
    root : the project's folder, with its baselines, in the git repository.
    """
    from pytest_quant.environment import Repository
    from pytest_quant.history.baselines.launches import points_before
    from pytest_quant.history.baselines.since import accepted_since
    from pytest_quant.history.compare import compare as compare_records

    accepted = accepted_since(root, before.checks, now.checks, datetime.now(UTC).date())
    commit = before.checks[-1].run.commit if before.checks else None
    earlier = points_before(store, Repository(root), commit)
    return compare_records(before.checks, now.checks, accepted=accepted, earlier=earlier)


def _show(comparison: Comparison, ruling: Ruling, *, as_json: bool, as_markdown: bool) -> None:
    from pytest_quant.report.comparison_document import comparison_json
    from pytest_quant.report.comparison_markdown import comparison_markdown
    from pytest_quant.report.comparison_text import comparison_text

    if as_json:
        show_json(comparison_json(comparison, ruling), indent=1)
    elif as_markdown:
        show(comparison_markdown(comparison, ruling))
    else:
        show(comparison_text(comparison, ruling, width(), color=True))
