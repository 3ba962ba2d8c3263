"""``pytest-quant accept``: make the record of a run or series the new baseline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.common import existing_history, history_option, project_root, say
from pytest_quant.cli.compare import find_side
from pytest_quant.environment import Repository
from pytest_quant.errors import UsageError
from pytest_quant.history import StoredCheck, open_store
from pytest_quant.history.baselines.accept import (
    Acceptance,
    Reason,
    accept_checks,
    accept_removal,
    changed_lines,
    choose_series,
)
from pytest_quant.history.baselines.file import NAME, read_baselines, series_of
from pytest_quant.history.merge_base import resolve

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

_COLORS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@click.argument("source", required=False, metavar="[REV|RUN]")
@click.option(
    "--series", "texts", multiple=True, metavar="TEXT", help="Only series with this in their name; repeatable."
)
@click.option("--reason", required=True, help="Why, for those who review the change.")
@click.option("--expires", type=click.DateTime(["%Y-%m-%d"]), help="The last day on which it counts.")
@click.option("--removed", is_flag=True, help="Accept that the tests of --series are gone.")
@click.option("--dry-run", is_flag=True, help="Show what would change and write nothing.")
@history_option
def accept(
    source: str | None,
    texts: tuple[str, ...],
    reason: str,
    expires: datetime | None,
    removed: bool,
    dry_run: bool,
    place: str | None,
) -> None:
    """Write the records of a commit or a run into quant-baselines.toml, and show what changed there.

    REV is any revision of git, HEAD by default; RUN the id of a run or its beginning. The limits max_slowdown and
    max_drop_increase judge against the file. Commit it: its diff is what a reviewer sees. A run with changes that
    were not committed and a record that is FAIL or ERROR are refused.

    \b
    Examples:
      pytest-quant accept --reason "retrained on the larger set"
      pytest-quant accept v1.2 --series resnet50 --reason "the release" --expires 2027-01-31
      pytest-quant accept --removed --series test_old --reason "replaced by test_new"
    """  # noqa: D301 - click reads a backspace
    why = Reason.now(reason, None if expires is None else expires.date())
    root = project_root()
    file = root / NAME
    store = open_store(existing_history(place))
    if removed:
        acceptance = _removals(store, source, texts, file, why)
    else:
        acceptance = accept_checks(file, _checks(store, source, root), why, texts)
    show_diff(*acceptance.texts(), NAME)
    if dry_run:
        say(f"{len(acceptance.entries)} series would be accepted; nothing was written")
        return
    acceptance.write()
    say(f"{len(acceptance.entries)} series accepted; commit {file}")


def _checks(store: Store, source: str | None, root: Path) -> list[StoredCheck]:
    side = find_side(store, source or "HEAD", root)
    say(f"accepting {side.description}")
    return side.checks


def _removals(store: Store, source: str | None, texts: Sequence[str], file: Path, why: Reason) -> Acceptance:
    if not texts:
        raise UsageError("--removed needs --series", fix="name the tests that are gone, so that no other is meant")
    before = read_baselines(file)
    commit = resolve(Repository(file.parent), source or "HEAD")
    keys = dict.fromkeys([*before, *(summary.key for summary in store.series())])
    removals = [
        accept_removal(series_of(key), commit=commit, reason=why.text, accepted_at=why.given_at)
        for key in choose_series(list(keys), texts)
    ]
    return Acceptance(file, before, tuple(removals))


def show_diff(before: str, after: str, name: str) -> None:
    """Print the difference of two versions of a file, or that there is none.

    Parameters
    ----------
    before, after : the whole texts.
    name : of the file.
    """
    lines = changed_lines(before, after, name)
    for line in lines:
        say(line, color=_COLORS.get(line[:1]))
    if not lines:
        say(f"{name} stays as it is")
