"""``pytest-quant compare`` and ``report``."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.common import existing_history, history_option, project_root, say, show, show_json, width
from pytest_quant.environment.revision import ci_links
from pytest_quant.errors import UsageError
from pytest_quant.files import file_errors, write_whole
from pytest_quant.history import open_store
from pytest_quant.history.baselines.file import NAME, read_baselines
from pytest_quant.history.commits import NamedRecords, compare_records, find_run, find_side, find_sides
from pytest_quant.history.compare.facts import BROKEN
from pytest_quant.history.rows import is_second_pass
from pytest_quant.history.trends import series_histories
from pytest_quant.report.comparison_text import comparison_json, comparison_text
from pytest_quant.report.page import page_html
from pytest_quant.report.pull_request import run_comment

if TYPE_CHECKING:
    from pytest_quant.history.rows import StoredCheck
    from pytest_quant.history.store import Store


@click.command()
@click.argument("commits", nargs=-1, metavar="[BASE [HEAD]]")
@click.option("--json", "form", flag_value="json", help="Print one JSON document.")
@click.option("--markdown", "form", flag_value="markdown", help="Print Markdown, for a comment in a pull request.")
@click.option("--strict", is_flag=True, help="Exit with 3 when a row is inconclusive, with 4 when there is no base.")
@click.option(
    "--full-suite/--partial",
    default=None,
    help="Whether HEAD ran every test, so that a missing test counts as removed  [what its runs say]",
)
@history_option
def compare(
    commits: tuple[str, ...], form: str | None, strict: bool, full_suite: bool | None, place: str | None
) -> None:
    """Compare the records of HEAD with those of BASE: accuracy, sizes, coverage and latency.

    Both are revisions of git or ids of runs, and may be written as BASE..HEAD. HEAD is what is checked out. BASE is its
    merge base with the branch it is to be merged into; where that has no records, the nearest first parent below it
    that has some.

    Exit code: 0 no regression, 1 a regression or a test that was removed, 2 a question that cannot be answered;
    under --strict also 3 inconclusive and 4 no base.

    \b
    Examples:
      pytest-quant compare
      pytest-quant compare v1.0              has it crept since the release?
      pytest-quant compare main..topic --markdown
      pytest-quant compare 20260102T0304 20260102T0506
    """  # noqa: D301 - click reads a backspace
    root = project_root()
    store = open_store(existing_history(place), root)
    base, head, *_ = *_two(commits), "", ""
    before, now = find_sides(store, base or None, head or None, root)
    for side in (before, now):
        say(side.description, err=form is not None)
    comparison = compare_records(store, root, before, now, strict=strict, full_suite=full_suite)
    if form == "json":
        show_json(comparison_json(comparison), indent=1)
    elif form == "markdown":
        records = [check.record for check in _newest(now.checks)]
        broken = {record.nodeid for record in records if record.status in BROKEN and not record.expected}
        failed, links = bool(broken or comparison.exit_code), ci_links(os.environ)
        show(run_comment(None, records, failed=failed, broken=broken, compared=[comparison], links=links))
    else:
        show(comparison_text(comparison, width(), color=True))
    sys.exit(comparison.exit_code)


@click.command()
@click.argument("commits", nargs=-1, metavar="[[BASE] HEAD]")
@click.option(
    "-o",
    "--output",
    default="quant-report.html",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The page, one file that loads nothing else.",
)
@history_option
def report(commits: tuple[str, ...], output: Path, place: str | None) -> None:
    """Write a page about the records of HEAD: every check, what changed since BASE, the history, Pareto.

    Both are revisions of git or ids of runs, and may be written as BASE..HEAD; without HEAD it is what is checked out,
    or the last run where that has no records. The page opens from the disk and loads nothing from a network; of
    long histories it has the newest points.

    \b
    Examples:
      pytest-quant report
      pytest-quant report main..topic -o topic.html
      pytest-quant report 20260102T0304
    """  # noqa: D301 - click reads a backspace
    root = project_root()
    store = open_store(existing_history(place), root)
    *_, base, name = "", "", *_two(commits)
    head, now = _head(store, name, root)
    compared, why_not = None, ""
    try:
        before, now = find_sides(store, base or None, head, root)
    except UsageError as error:
        if base:
            raise
        now = replace(now, description=f"head {now.description}")
        why_not = f"There is no base to compare with: {error.what}."
    else:
        compared = compare_records(store, root, before, now, full_suite=None)
    say(now.description)
    checks = _newest(now.checks)
    page = page_html(
        checks,
        compared=compared,
        why_not_compared=why_not,
        next_step="pytest-quant report BASE..HEAD" if why_not else "",
        history=series_histories(store, [check.record.series for check in checks], read_baselines(root / NAME)),
        why_no_history="The history has no series of these records.",
    )
    with file_errors(UsageError, f"the page {output} cannot be written", "name a place in a writable folder"):
        write_whole(output, page)
    say(f"written: {output}")


def _two(words: tuple[str, ...]) -> list[str]:
    """Return the sides of ``BASE HEAD`` or ``BASE..HEAD``, empty for a side that is left out. Raises `UsageError`."""
    names = [name for word in words for name in word.split("..")]
    if len(names) > 2:
        raise UsageError("there are more than two revisions", value=" ".join(words), allowed="BASE HEAD, or BASE..HEAD")
    return names


def _newest(checks: list[StoredCheck]) -> list[StoredCheck]:
    """Return the last record of each test and engine, in the order of the first; of passes not joined that of each."""
    parts = ((check.record.nodeid, check.record.engine_id, is_second_pass(check.record)) for check in checks)
    return list(dict(zip(parts, checks, strict=True)).values())


def _head(store: Store, name: str, root: Path) -> tuple[str, NamedRecords]:
    """Return a name of the head and its records; the last run if no head is named and HEAD has no records."""
    try:
        return name or "HEAD", find_side(store, name or "HEAD", root)
    except UsageError:
        last = store.runs(limit=1)
        if name or not last:
            raise
        return last[0].run.id, find_run(store, last[0].run.id)
