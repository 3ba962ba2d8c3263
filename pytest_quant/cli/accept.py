"""``pytest-quant accept``: make the record of a run or series the new baseline."""

from __future__ import annotations

from datetime import UTC, datetime
from difflib import unified_diff

import click

from pytest_quant.cli.common import existing_history, history_option, project_root, say
from pytest_quant.environment.revision import Repository
from pytest_quant.errors import UsageError
from pytest_quant.history import open_store
from pytest_quant.history.baselines.acceptance import accept_checks, choose_series, keep_accepted
from pytest_quant.history.baselines.file import NAME, BaselineEntry, baseline_text, read_baselines, write_baselines
from pytest_quant.history.commits import find_side
from pytest_quant.history.merge_base import resolve
from pytest_quant.spec import SeriesKey

_COLORS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@click.argument("source", required=False, metavar="[REV|RUN]")
@click.option(
    "--series", "texts", multiple=True, metavar="TEXT", help="Only series with this in their name; repeatable."
)
@click.option("--reason", required=True, help="Why, for those who review the change.")
@click.option("--removed", is_flag=True, help="Accept that the tests of --series are gone.")
@click.option("--dry-run", is_flag=True, help="Show what would change and write nothing.")
@history_option
def accept(
    source: str | None, texts: tuple[str, ...], reason: str, removed: bool, dry_run: bool, place: str | None
) -> None:
    """Write the records of a commit or a run into quant-baselines.toml, and show what changed there.

    REV is any revision of git, HEAD by default; RUN the id of a run or its beginning. The limits max_slowdown and
    max_drop_increase judge against the file. Commit it: its diff is what a reviewer sees. A run with changes that
    were not committed and a record that is FAIL or ERROR are refused.

    \b
    Examples:
      pytest-quant accept --reason "retrained on the larger set"
      pytest-quant accept v1.2 --series resnet50 --reason "the release"
      pytest-quant accept --removed --series test_old --reason "replaced by test_new"
    """  # noqa: D301 - click reads a backspace
    now = datetime.now(UTC).replace(microsecond=0)
    if not reason.strip():
        raise UsageError("--reason is empty", allowed="a sentence for those who review the change")
    if removed and not texts:
        raise UsageError("--removed needs --series", fix="name the tests that are gone, so that no other is meant")
    root = project_root()
    file = root / NAME
    store = open_store(existing_history(place), root)
    before = read_baselines(file)
    if removed:
        commit = resolve(Repository(root), source or "HEAD")
        keys = choose_series(list(dict.fromkeys([*before, *store.series_keys()])), texts)
        entries = [
            BaselineEntry(
                **SeriesKey.parse(key)._asdict(), reason=reason.strip(), commit=commit, accepted_at=now, removed=True
            )
            for key in keys
        ]
    else:
        side = find_side(store, source or "HEAD", root)
        say(f"accepting {side.description}")
        entries = accept_checks(side.checks, texts, reason=reason.strip(), accepted_at=now)
    kept = [] if removed else [keep_accepted(entry, before.get(entry.series.text)) for entry in entries]
    after = before | {entry.series.text: entry for entry in kept or entries}
    show_diff(baseline_text(before.values()) if file.exists() else "", baseline_text(after.values()), NAME)
    if number := sum(entry is not old for entry, old in zip(kept, entries, strict=False)):
        say(f"what these records lack, latency on some machine or scores, stays as accepted before: {number} series")
    if dry_run:
        say(f"{len(entries)} series would be accepted; nothing was written")
        return
    write_baselines(file, after.values())
    say(f"{len(entries)} series accepted; commit {file}")


def show_diff(before: str, after: str, name: str) -> None:
    """Print the difference of two versions of a file, or that there is none.

    Parameters
    ----------
    before, after : the whole texts.
    name : of the file.
    """
    names = f"a/{name}", f"b/{name}"
    lines = list(unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=9))
    for line in lines:
        say(line, color=_COLORS.get(line[:1]))
    if not lines:
        say(f"{name} stays as it is")
