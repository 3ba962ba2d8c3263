"""The records of the two commits that a comparison is of, and that comparison, with all that the project knows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from pytest_quant.environment.revision import Committed, Repository, path_in_checkout
from pytest_quant.errors import HistoryError, UsageError
from pytest_quant.history.baselines.file import NAME, BaselineEntry, parse_baselines, read_baselines
from pytest_quant.history.compare import compare
from pytest_quant.history.compare.comparison import Comparison
from pytest_quant.history.merge_base import elsewhere, points_before, records_of, resolve, select_base
from pytest_quant.history.rows import StoredCheck, commit_of, to_utc
from pytest_quant.history.shards import find_unreported
from pytest_quant.history.two_passes import join_passes
from pytest_quant.printable import clean
from pytest_quant.record import Record, Run
from pytest_quant.spec import SeriesKey

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

_RUN_ID = re.compile(r"\d{8}T\d")


@dataclass(frozen=True, slots=True)
class NamedRecords:
    """The records of a revision or run, described in one line, the commit, and the runs, see `pair`."""

    checks: list[StoredCheck]
    description: str
    commit: Committed | None = None
    runs: tuple[Run, ...] = ()


def compare_records(
    store: Store, root: Path, base: NamedRecords, head: NamedRecords, *, strict: bool = False, full_suite: bool | None
) -> Comparison:
    """Return the comparison of two sides, with what was accepted since and how launches differed before.

    Parameters
    ----------
    store : the history.
    root : the project's folder, with its baselines, in the git repository.
    base, head : see `find_sides`.
    strict : see `Comparison`.
    full_suite : the head ran every test; ``None`` if its runs say so. Shards and tests of the head that never reported
        count unless it is false.

    Raises
    ------
    HistoryError : a record or the file of baselines is damaged.
    """
    unreported = None
    if full_suite is not False and head.commit is not None:
        tests = {check.record.nodeid for check in head.checks}
        unreported = find_unreported(store.runs_of(*head.commit.ids), tests)
    return compare(
        base.checks,
        head.checks,
        accepted=find_accepted(root, base.checks, head.checks),
        earlier=points_before(store, Repository(root), base.commit.id if base.commit else None),
        strict=strict,
        full_suite=full_suite,
        about=tuple(side.description for side in (base, head) if side.description),
        unreported=unreported,
        runs=head.runs,
    )


def find_accepted(root: Path, base: Sequence[StoredCheck], head: Sequence[StoredCheck]) -> dict[str, BaselineEntry]:
    """Return the values that were accepted after the base and up to the head, and all accepted removals, by series.

    The file of the head is that of the working tree where the head is what is checked out, else the one that is
    committed there, with the removals and the records of the head that the working tree accepts. An entry that the
    base's committed file has too is no news. Where git does not have the base, what was accepted after its first run
    counts.

    Parameters
    ----------
    root : the project's folder, which contains the file.
    base, head : records of both sides.

    Raises
    ------
    HistoryError : the head's file is damaged; the message names the line.
    """
    git = Repository(root)
    now = _head_entries(git, root, head)
    before = _base_entries(git, commit_of(base))
    return {key: entry for key, entry in now.items() if entry.removed or _is_news(entry, before, base)}


def _head_entries(git: Repository, root: Path, head: Sequence[StoredCheck]) -> dict[str, BaselineEntry]:
    here = read_baselines(root / NAME)
    commit = commit_of(head)
    elsewhere = None if commit is None or git.is_checked_out(commit) else git.file_at(commit, NAME)
    if elsewhere is None:
        return here
    # What is accepted of a commit that is not checked out is written here, to be committed on top of it.
    runs = {check.run.id for check in head}
    own = {key: entry for key, entry in here.items() if entry.removed or entry.run in runs}
    return parse_baselines(elsewhere, f"{commit}:{NAME}") | own


def _base_entries(git: Repository, commit: str | None) -> Mapping[str, BaselineEntry] | None:
    """Return the entries of the base, ``None`` if git does not have that commit, or cannot read them."""
    text = None if commit is None else git.file_at(commit, NAME)
    try:
        return None if text is None else parse_baselines(text)
    except HistoryError:
        return None


def _is_news(entry: BaselineEntry, before: Mapping[str, BaselineEntry] | None, base: Sequence[StoredCheck]) -> bool:
    if before is not None:
        old = before.get(entry.series.text)
        return old is None or (old.commit, old.run, old.accepted_at) != (entry.commit, entry.run, entry.accepted_at)
    started = [to_utc(check.run.started_at) for check in base]
    return not started or entry.accepted_at.astimezone(UTC).isoformat() > min(started)


def find_base(
    store: Store, root: Path, name: str | None, head: Committed, *, dirty: bool, below: str = ""
) -> NamedRecords:
    """Return the records with which a commit is compared; none if no commit in reach has any.

    Parameters
    ----------
    store : the history.
    root : folder in the git repository.
    name : a revision; ``None`` for the merge base, see `select_base`.
    head : the commit.
    dirty : its records are those of uncommitted changes.
    below : only those of tests in a folder of the checkout, ``a/``: the tests of other roots are of other runs.

    Raises
    ------
    UsageError : git knows no such revision, or no base.
    """
    chosen = select_base(partial(store.commits, below=below), Repository(root), name, head.id, dirty=dirty)
    found = [] if chosen.committed is None else records_of(store, chosen.committed, head)
    checks = [check for check in found if SeriesKey.parse(check.record.series).test.startswith(below)]
    description = f"{chosen}{elsewhere(checks, chosen.commit)}{store.left_out}"
    return NamedRecords(checks, description, chosen.committed)


def compare_run(
    store: Store, root: Path, run: Run, records: Sequence[Record], base: str | None, *, strict: bool, all_ran: bool
) -> Comparison:
    """Return the comparison of a run that has just ended with its base.

    Records of earlier runs of the same commit, of the same series, count too. Those of uncommitted changes are of no
    commit, and stand alone.

    Parameters
    ----------
    store : the history.
    root : the project's folder.
    run, records : the run.
    base : a revision; ``None`` for the merge base.
    strict : see `Comparison`.
    all_ran : every test of the suite ran; otherwise no test counts as removed.

    Raises
    ------
    QuantError : they cannot be compared.
    """
    head = Committed(run.commit or "HEAD", run.tree)
    place = path_in_checkout(root, root) or PurePath()
    below = "" if place == PurePath() else f"{place.as_posix()}/"
    before = find_base(store, root, base, head, dirty=run.dirty, below=below)
    mine = {record.series for record in records}
    # Not joined yet: the other pass may be this run.
    stored = [] if run.dirty or run.commit is None else store.launches(*head.ids)
    # What another run of the commit has is neither removed nor renamed.
    of_others = {check.record.series for check in stored if check.run.commit == run.commit} - mine
    of_base = [check for check in before.checks if check.run.id != run.id and check.record.series not in of_others]
    ids = {run.id, *(check.run.id for check in of_base)}
    others = [check for check in stored if check.run.id not in ids and check.record.series in mine]
    now = join_passes([*others, *(StoredCheck(run, record) for record in records)])
    before = replace(before, checks=of_base)
    return compare_records(store, root, before, NamedRecords(now, "", runs=(run,)), strict=strict, full_suite=all_ran)


def find_sides(store: Store, base: str | None, head: str | None, root: Path) -> tuple[NamedRecords, NamedRecords]:
    """Return the records of base and head.

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
    now = replace(now, description=f"head {now.description}")
    if base is not None and _RUN_ID.match(base):
        before = find_side(store, base, root)
        return replace(before, description=f"base {before.description}"), now
    if now.commit is None:
        raise UsageError("the head is no commit", value=now.description, fix="name a run as the base too")
    dirty = any(check.run.dirty for check in now.checks)
    before = find_base(store, root, base, now.commit, dirty=dirty)
    same = before.commit is not None and before.commit.tree is not None and before.commit.tree == now.commit.tree
    later = records_of(store, now.commit, before.commit) if same else now.checks
    return before, replace(now, checks=later)


def find_side(store: Store, name: str, root: Path) -> NamedRecords:
    """Return the records of the run or the commit that `name` names; its last run if no run had a clean tree.

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
        return find_run(store, name)
    git = Repository(root)
    commit = resolve(git, name, store.commits)
    committed = Committed(commit, git.tree(commit))
    checks = records_of(store, committed)
    shown = f"{clean(name)} ({commit[:12]})" if not commit.startswith(name) else commit[:12]
    dirty = store.dirty_runs(commit)
    if checks:
        newer = [run.id for run in dirty if run.started_at > checks[-1].run.started_at]
        left_out = f"; left out: {len(newer)} newer, with uncommitted changes, the last {newer[0]}" if newer else ""
        return NamedRecords(checks, f"{shown}: {_count(checks)}{elsewhere(checks, commit)}{left_out}", committed)
    if dirty:
        return find_run(store, dirty[0].id)
    fix = "run the tests there; 'pytest-quant history' lists the runs there are, whose ids can be named too"
    raise UsageError(f"there are no records of {shown}", fix=fix)


def find_run(store: Store, name: str) -> NamedRecords:
    """Return the records of the run whose id begins with `name`. Raises `UsageError` when there is none, or several."""
    run = store.run(name).run
    checks = [StoredCheck(run, record) for record in store.records(run.id)]
    dirty = ", of a tree with changes that were not committed" if run.dirty else ""
    names = " ".join(run.repository)
    foreign = f", of another repository, {names}" if names in store.others else ""
    description = f"run {run.id} of {(run.commit or 'no commit')[:12]}{foreign}{dirty}: {_count(checks)}"
    return NamedRecords(checks, description, None if run.commit is None else Committed(run.commit))


def _count(checks: list[StoredCheck]) -> str:
    records, runs = len(checks), len({check.run.id for check in checks})
    return f"{records} record{'s' * (records != 1)} of {runs} run{'s' * (runs != 1)}"
