"""The entries of the file of baselines that a comparison of two commits heeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from pytest_quant.environment import Repository
from pytest_quant.errors import HistoryError
from pytest_quant.history.baselines.file import NAME, BaselineEntry, parse_baselines, read_baselines
from pytest_quant.history.rows import StoredCheck, commit_of


def accepted_since(
    root: Path, base: Sequence[StoredCheck], head: Sequence[StoredCheck], today: date
) -> dict[str, BaselineEntry]:
    """Return the values that were accepted after the base and up to the head, and all accepted removals, by series.

    The file of the head is that of the working tree where the head is what is checked out, else the one that is
    committed there, with the removals and the records of the head that the working tree accepts. An entry that the
    base's committed file has too is no news. Where git does not have the base, what was accepted after its first run
    counts.

    Parameters
    ----------
    root : the project's folder, which contains the file.
    base, head : records of both sides.
    today : entries whose last day is earlier have expired.

    Raises
    ------
    HistoryError : the head's file is damaged; the message names the line.
    """
    git = Repository(root)
    now = _of_head(git, root, head)
    before = _of_base(git, commit_of(base))
    return {
        key: entry
        for key, entry in now.items()
        if not entry.expired(today) and (entry.removed or _is_news(entry, before, base))
    }


def _of_head(git: Repository, root: Path, head: Sequence[StoredCheck]) -> dict[str, BaselineEntry]:
    here = read_baselines(root / NAME)
    commit = commit_of(head)
    elsewhere = None if commit is None or git.is_checked_out(commit) else git.file_at(commit, NAME)
    if elsewhere is None:
        return here
    # What is accepted of a commit that is not checked out is written here, to be committed on top of it.
    runs = {check.run.id for check in head}
    own = {key: entry for key, entry in here.items() if entry.removed or entry.run in runs}
    return parse_baselines(elsewhere, f"{commit}:{NAME}") | own


def _of_base(git: Repository, commit: str | None) -> Mapping[str, BaselineEntry] | None:
    """Return the entries of the base, ``None`` where git does not have that commit, or cannot tell them."""
    text = None if commit is None else git.file_at(commit, NAME)
    try:
        return None if text is None else parse_baselines(text)
    except HistoryError:
        return None


def _is_news(entry: BaselineEntry, before: Mapping[str, BaselineEntry] | None, base: Sequence[StoredCheck]) -> bool:
    if before is not None:
        old = before.get(entry.series.key)
        return old is None or (old.commit, old.run, old.accepted_at) != (entry.commit, entry.run, entry.accepted_at)
    started = [_time(check.run.started_at) for check in base]
    return not started or entry.accepted_at > min(started)


def _time(text: str) -> datetime:
    """Return a run's start; one that cannot be read counts as the latest, so that nothing was accepted after it."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
    return read if read.tzinfo else read.replace(tzinfo=UTC)
