"""The commit to compare with: the merge base, or the nearest commit before it that has records."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pytest_quant.environment.revision import MAX_DISTANCE, Committed, Repository, ask_git
from pytest_quant.errors import UsageError
from pytest_quant.history.two_passes import join_passes
from pytest_quant.host import quote
from pytest_quant.printable import clean

if TYPE_CHECKING:
    from pytest_quant.history.rows import StoredCheck
    from pytest_quant.history.store import Store
    from pytest_quant.history.summaries import CheckSummary


@dataclass(frozen=True, slots=True)
class ChosenBase:
    """The commit whose records a comparison starts from.

    Attributes
    ----------
    commit : ``None`` when no commit within reach has records.
    start : full id of the commit at which the search started.
    start_name : description of that commit, ``merge base with origin/main``.
    distance : first parents from `start` to `commit`.
    hint : why older commits may be missing, and the command that helps; else empty.
    tree : of `commit`, whose records may be those of another commit with the same content.
    """

    commit: str | None
    start: str
    start_name: str
    distance: int = 0
    hint: str = ""
    tree: str | None = field(default=None, compare=False)

    @property
    def committed(self) -> Committed | None:
        """The commit with its tree."""
        return None if self.commit is None else Committed(self.commit, self.tree)

    def __str__(self) -> str:
        """Return one line for the user."""
        hint = f"; {self.hint}" if self.hint else ""
        steps = f"{self.distance} first parent{'s' if self.distance > 1 else ''} below"
        if self.commit is None:
            further = f" and {steps} it" if self.distance else ""
            return f"no base: there are no records of {self.start[:12]} ({self.start_name}){further}{hint}"
        if self.distance == 0:
            return f"base {self.commit[:12]}: {self.start_name}"
        return f"base {self.commit[:12]}: {steps} {self.start[:12]} ({self.start_name}), which has no records{hint}"


def select_base(
    with_records: Callable[[Sequence[str]], Collection[str]],
    git: Repository,
    base: str | None = None,
    head: str = "HEAD",
    *,
    dirty: bool = False,
) -> ChosenBase:
    """Choose the commit to compare `head` with.

    Parameters
    ----------
    with_records : returns those of the given commits and trees that have records of a clean tree, see `Store.commits`.
    git : the repository.
    base : a revision; ``None`` for the merge base of `head` and its target branch. Where that is `head` itself,
        because it is on that branch, the search starts at its first parent.
    head : the revision that is compared.
    dirty : the tree at `head` has uncommitted changes, so that it may be compared with `head` itself.

    Raises
    ------
    UsageError : git does not know a revision, or no target branch, or no common ancestor.
    """
    tip = resolve(git, head, with_records)
    if base is None:
        start, start_name = _merge_base(with_records, git, tip, dirty=dirty)
    else:
        start, start_name = resolve(git, base, with_records), clean(base)
    line = line_below(git, start)
    recorded = set(with_records([run_id for each in line for run_id in each.ids]))
    hint = _shallow_hint(git) if len(line) <= MAX_DISTANCE else ""
    for distance, commit in enumerate(line):
        if recorded.intersection(commit.ids):
            return ChosenBase(commit.id, start, start_name, distance, hint if distance else "", commit.tree)
    return ChosenBase(None, start, start_name, len(line) - 1, hint)


def line_below(git: Repository, commit: str) -> tuple[Committed, ...]:
    """Return `commit` and the first parents below it, nearest first; alone if its parents were not fetched."""
    return git.first_parents(commit, MAX_DISTANCE) if git.resolve(commit) else (Committed(commit),)


def records_of(recorded: Store, committed: Committed, beside: Committed | None = None) -> list[StoredCheck]:
    """Return the records of a commit and of all commits with the same content, oldest run first.

    Those of its two passes are one, see `join_passes`.

    Parameters
    ----------
    recorded : the history.
    committed : the commit.
    beside : what it is compared with. Where both have the same content, each has its own records as far as it has any.
    """
    same = beside is not None and committed.tree is not None and committed.tree == beside.tree
    own = recorded.launches(committed.id) if same else []
    return join_passes(own or recorded.launches(*committed.ids))


MOST_COMMITS = 30
"""Last commits with records whose launches count."""


def select_recorded(recorded: Store, line: Sequence[Committed]) -> tuple[Committed, ...]:
    """Return the first commits of a line that have records, at most those whose launches count."""
    ids = recorded.commits([run_id for each in line for run_id in each.ids])
    return tuple(each for each in line if ids.intersection(each.ids))[:MOST_COMMITS]


def points_before(recorded: Store, git: Repository, commit: str | None) -> list[CheckSummary]:
    """Return the summaries of all series in the commits before one, oldest first, which show how launches differ.

    Parameters
    ----------
    recorded : the history.
    git : the repository.
    commit : of which the first parents are asked; ``None`` has none.

    Raises
    ------
    HistoryError : the history cannot be read.
    """
    if commit is None:
        return []
    try:
        line = git.first_parents(commit)[1:]
    except UsageError:
        # A shallow clone lacks the commit: with less known a difference is harder to prove, and none is made up.
        return []
    return recorded.points_of([run_id for each in select_recorded(recorded, line) for run_id in each.ids])


def elsewhere(checks: Sequence[StoredCheck], commit: str | None) -> str:
    """Return which records are of other commits with the content of `commit`, as the end of a line; else empty."""
    others = sorted({check.run.commit[:12] for check in checks if check.run.commit not in (None, commit)})
    if not others:
        return ""
    share = "some" if any(each.run.commit == commit for each in checks) else "all"
    return f", {share} of them of the same content as {', '.join(others)}"


_FULL_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def resolve(
    git: Repository, revision: str, with_records: Callable[[Sequence[str]], Collection[str]] | None = None
) -> str:
    """Return the full id of the commit that `revision` names.

    Parameters
    ----------
    git : the repository.
    revision : a branch, a tag, a commit; also the full id of one that was not fetched and has records.
    with_records : see `select_base`; ``None`` takes only commits that git has.

    Raises
    ------
    UsageError : there is no such commit.
    """
    commit = git.resolve(revision)
    if commit is None and with_records is not None and _FULL_ID.fullmatch(revision) and with_records([revision]):
        return revision
    if commit is None and revision == "HEAD":
        raise UsageError("there is no commit yet: make the first one and run again", fix="git add and git commit")
    if commit is None:
        what = "git knows no such commit"
        fix = _fetch(git, revision)
        raise UsageError(what, value=revision[:80], allowed="a branch, a tag, a commit, or HEAD~1", fix=fix)
    return commit


def base_to_run(git: Repository, revision: str | None, *, dirty: bool) -> tuple[str, str]:
    """Return the full id of the commit that a run is compared with now, and a line that names it.

    Parameters
    ----------
    git : the repository.
    revision : as git takes it; ``None`` for the merge base with the target branch, or the commit before where the
        checkout is on that branch itself and clean.
    dirty : the checkout has uncommitted changes, so that the commit it is at is a base too.

    Raises
    ------
    UsageError : there is no such commit here; the message has the ``git fetch`` that brings it, where one can.
    """
    try:
        if revision is not None:
            commit = resolve(git, revision)
            return commit, f"base {commit[:12]}: {revision}"
        # Every commit will do: what is compared is measured now.
        chosen = select_base(lambda commits: commits, git, dirty=dirty)
    except UsageError as error:
        fix = (error.fix or "").replace("pytest-quant compare ", "--quant-against=")
        # Not by `Path`, which raises for a name that no file system takes.
        if revision is not None and os.path.exists(revision):  # noqa: PTH110
            fix = f"the merge base is meant when no revision is written: --quant-against=merge-base {quote(revision)}"
        raise UsageError(error.what, value=error.value, allowed=error.allowed, fix=fix) from error
    return chosen.start, f"base {chosen.start[:12]}: {chosen.start_name}"


def _fetch(git: Repository, revision: str) -> str:
    """Return the command that brings a revision; a depth of one suffices, for only its files or records are needed."""
    shallow = git.is_shallow()
    depth = "--depth=1 " if shallow else ""
    if _FULL_ID.fullmatch(revision):
        return f"git fetch {depth}origin {revision}"
    if re.search(r"[~^:@{]|\.\.", revision):
        return "git fetch --unshallow origin" if shallow else "git fetch origin; 'git log' shows what is here"
    name = revision.removeprefix("origin/")
    names = ask_git(git.root, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags")
    close = get_close_matches(revision[:80], names.text.split(), n=1)
    here = f"{f'did you mean {close[0]}? ' if close else ''}git branch -a lists those that are here"
    if not ask_git(git.root, "remote", "get-url", "origin").ok:
        return here
    refspec = quote(f"{name}:refs/remotes/origin/{name}")
    return f"{here}; git fetch {depth}origin {refspec} brings another, then called origin/{name}"


def _merge_base(
    with_records: Callable[[Sequence[str]], Collection[str]], git: Repository, tip: str, *, dirty: bool
) -> tuple[str, str]:
    try:
        return _common(git, tip, dirty=dirty)
    except UsageError:
        # A clone of the last commit has no merge base. Its parent is that of a merge commit, which CI services test.
        parents = git.parents(tip) if git.is_shallow() else ()
        if not parents or not with_records(parents[:1]):
            raise
        return parents[0], f"the first parent of {tip[:12]}, for the merge base is not in this shallow clone"


def _common(git: Repository, tip: str, *, dirty: bool) -> tuple[str, str]:
    target = git.target()
    if target is None:
        raise UsageError(
            "there is no branch to compare with",
            allowed="the default branch of origin, main or master, or the branch that CI names",
            fix="name the base, for example: pytest-quant compare HEAD~1",
        )
    common = git.merge_base(tip, target)
    if common is None:
        raise UsageError(
            f"{tip[:12]} and {target} have no common commit here",
            fix=_shallow_hint(git) or f"name the base, for example: pytest-quant compare {target}",
        )
    if common != tip or dirty:
        return common, f"merge base with {target}"
    before = git.parents(tip)
    if before:
        return before[0], f"the commit before {tip[:12]}, which is on {target}"
    raise UsageError(
        f"{tip[:12]} is on {target}, and no commit before it is here",
        fix=_shallow_hint(git) or "compare again when there is a second commit",
    )


def _shallow_hint(git: Repository) -> str:
    return "the repository is shallow and older commits are not here: git fetch --unshallow" if git.is_shallow() else ""
