"""``pytest-quant accept``: make the record of a run or series the new baseline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.echo import say
from pytest_quant.cli.places import existing_history, history_option, project_root
from pytest_quant.errors import UsageError
from pytest_quant.printable import clean

if TYPE_CHECKING:
    from pytest_quant.history import SeriesSummary, StoredCheck, StoredRun
    from pytest_quant.history.baselines.accept import Acceptance, Reason
    from pytest_quant.history.store import Store


def choose(store: Store, asked: str) -> StoredRun | list[SeriesSummary]:
    """Return the series whose key is `asked` or whose name contains its words, else the run whose id starts with it.

    Every word of `asked` must occur in the series' node id, model, engine or metric.

    Raises
    ------
    UsageError : nothing matches, or several runs do.
    """
    known = store.series()
    matching = _matching(known, asked)
    if matching:
        return matching
    try:
        return store.run(asked)
    except UsageError as error:
        raise UsageError(
            error.what,
            value=error.value,
            allowed="; ".join(part for part in (error.allowed, _nearest(known, asked)) if part) or None,
            fix=error.fix or "see: pytest-quant history --series",
        ) from error


def all_matching(store: Store, asked: str | None) -> list[SeriesSummary]:
    """Return the series that `asked` matches, as `choose` does; all of them for ``None``.

    Raises
    ------
    UsageError : there is none.
    """
    known = list(store.series())
    found = known if asked is None else _matching(known, asked)
    if asked is None or found:
        return found
    where = "see: pytest-quant history --series"
    try:
        store.run(asked)
    except UsageError:
        raise UsageError(f"there is no series '{asked}'", allowed=_nearest(known, asked) or None, fix=where) from None
    raise UsageError(f"'{asked}' is a run, no series", fix=where)


def _matching(known: Sequence[SeriesSummary], asked: str) -> list[SeriesSummary]:
    """Return the one series with the key `asked`, else all series whose names contain its words."""
    exact = [summary for summary in known if asked == summary.key]
    words = asked.lower().split()
    return exact or [summary for summary in known if all(word in _text(summary).lower() for word in words)]


def _text(summary: SeriesSummary) -> str:
    parts = (summary.nodeid, summary.model, summary.engine_id, summary.metric)
    return " ".join(part for part in parts if part)


def _nearest(known: Sequence[SeriesSummary], asked: str) -> str:
    import difflib

    texts = [_text(summary) for summary in known]
    close = difflib.get_close_matches(asked, texts, n=3, cutoff=0.2) or texts[:3]
    return f"nearest series: {'; '.join(clean(text) for text in close)}" if close else ""


@click.command(short_help="Make records the baseline, on purpose and with a reason.")
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
    # Here, because it loads the database.
    from pytest_quant.history import open_store
    from pytest_quant.history.baselines.accept import Reason, accept_checks
    from pytest_quant.history.baselines.file import NAME

    why = Reason.now(reason, None if expires is None else expires.date())
    root = project_root()
    file = root / NAME
    store = open_store(existing_history(place))
    if removed:
        found = _removals(store, source, texts, file, why)
    else:
        found = accept_checks(file, _checks(store, source, root), why, texts)
    show_diff(*found.texts(), NAME)
    if dry_run:
        say(f"{len(found.entries)} series would be accepted; nothing was written")
        return
    found.write()
    say(f"{len(found.entries)} series accepted; commit {file}")


def _checks(store: Store, source: str | None, root: Path) -> list[StoredCheck]:
    from pytest_quant.cli.named_records import find_side

    side = find_side(store, source or "HEAD", root, take_dirty=True)
    say(f"accepting {side.told}")
    return side.checks


def _removals(store: Store, source: str | None, texts: Sequence[str], file: Path, why: Reason) -> Acceptance:
    from pytest_quant.environment import Repository
    from pytest_quant.history.baselines.accept import Acceptance, accept_removal, choose_series
    from pytest_quant.history.baselines.file import read_baselines, series_of
    from pytest_quant.history.merge_base import resolve

    if not texts:
        raise UsageError("--removed needs --series", fix="name the tests that are gone, so that no other is meant")
    before = read_baselines(file)
    commit = resolve(Repository(file.parent), source or "HEAD")
    known = dict.fromkeys([*before, *(summary.key for summary in store.series())])
    made = [
        accept_removal(series_of(key), commit=commit, reason=why.text, accepted_at=why.given_at)
        for key in choose_series(list(known), texts)
    ]
    return Acceptance(file, before, tuple(made))


_COLORS = {"+": "green", "-": "red", "@": "cyan"}


def show_diff(before: str, after: str, name: str) -> None:
    """Print the difference of two versions of a file, or that there is none.

    Parameters
    ----------
    before, after : the whole texts.
    name : of the file.
    """
    # Here, because it loads the database.
    from pytest_quant.history.baselines.accept import changed_lines

    shown = changed_lines(before, after, name)
    for line in shown:
        say(line, color=_COLORS.get(line[:1]))
    if not shown:
        say(f"{name} stays as it is")
