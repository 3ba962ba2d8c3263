"""``pytest-quant report``: a page for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.common import existing_history, history_option, project_root, say
from pytest_quant.cli.compare import NamedRecords, compare_sides, find_side, find_sides, of_run
from pytest_quant.errors import UsageError
from pytest_quant.files import next_step, write_whole
from pytest_quant.history import open_store
from pytest_quant.history.baselines.file import NAME, read_baselines
from pytest_quant.history.compare import rule
from pytest_quant.history.series_history import series_histories
from pytest_quant.report.comparison import ComparedRuns
from pytest_quant.report.page.render import page_html

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

_BETWEEN = ".."


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
    base, name = _named(commits)
    head, now = _head(store, name, root)
    compared, why_not = None, ""
    try:
        before, now = find_sides(store, base, head, root)
    except UsageError as error:
        if base is not None:
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


def _named(commits: str | None) -> tuple[str | None, str | None]:
    """Return base and head, ``None`` for one that is not named."""
    if commits is None:
        return None, None
    if f"{_BETWEEN}." in commits:
        raise UsageError("three dots are not taken", value=commits, allowed="BASE..HEAD", fix="write two dots")
    base, _, head = commits.rpartition(_BETWEEN)
    return base or None, head or None


def _head(store: Store, name: str | None, root: Path) -> tuple[str, NamedRecords]:
    """Return a name of the head and its records; the last run where none is named and HEAD has no records.

    Raises
    ------
    UsageError : there are no records.
    """
    try:
        return name or "HEAD", find_side(store, name or "HEAD", root)
    except UsageError:
        last = store.runs(limit=1)
        if name is not None or not last:
            raise
        return last[0].run.id, of_run(store, last[0].run.id)
