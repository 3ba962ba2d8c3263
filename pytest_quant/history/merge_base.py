"""The commit to compare with: the merge base, or the nearest commit before it that has records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from pytest_quant.environment import MAX_DISTANCE, Repository
from pytest_quant.errors import UsageError
from pytest_quant.printable import clean


@dataclass(frozen=True, slots=True)
class ChosenBase:
    """The commit whose records a comparison starts from.

    Attributes
    ----------
    commit : ``None`` when no commit within reach has records.
    asked : full id of the commit at which the search started.
    asked_as : description of that commit, ``merge base with origin/main``.
    distance : first parents from `asked` to `commit`.
    hint : why older commits may be missing, and the command that helps; else empty.
    """

    commit: str | None
    asked: str
    asked_as: str
    distance: int = 0
    hint: str = ""

    def __str__(self) -> str:
        """Return one line for the user."""
        hint = f"; {self.hint}" if self.hint else ""
        if self.commit is None:
            looked = f"{self.asked[:12]} ({self.asked_as}) and {self.distance} first parents below it"
            return f"no base: there are no records of {looked}{hint}"
        if self.distance == 0:
            return f"base {self.commit[:12]}: {self.asked_as}"
        steps = f"{self.distance} first parent{'s' if self.distance > 1 else ''} below {self.asked[:12]}"
        return f"base {self.commit[:12]}: {steps} ({self.asked_as}), which has no records{hint}"


def select_base(
    known: Callable[[Sequence[str]], Collection[str]],
    git: Repository,
    base: str | None = None,
    head: str = "HEAD",
    *,
    dirty: bool = False,
) -> ChosenBase:
    """Choose the commit to compare `head` with.

    Parameters
    ----------
    known : returns those of the given commits that have records of a clean tree, see `Store.commits`.
    git : the repository.
    base : a revision; ``None`` for the merge base of `head` and its target branch. Where that is `head` itself,
        because it is on that branch, the search starts at its first parent.
    head : the revision that is compared.
    dirty : the tree at `head` has uncommitted changes, so that it may be compared with `head` itself.

    Raises
    ------
    UsageError : git does not know a revision, or no target branch, or no common ancestor.
    """
    tip = resolve(git, head)
    asked, asked_as = _merge_base(git, tip, dirty=dirty) if base is None else (resolve(git, base), clean(base))
    line = git.first_parents(asked, MAX_DISTANCE)
    recorded = set(known(line))
    hint = _shallow_hint(git) if len(line) <= MAX_DISTANCE else ""
    for distance, commit in enumerate(line):
        if commit in recorded:
            return ChosenBase(commit, asked, asked_as, distance, hint if distance else "")
    return ChosenBase(None, asked, asked_as, len(line) - 1, hint)


def resolve(git: Repository, revision: str) -> str:
    """Return the full id of the commit that `revision` names. Raises `UsageError` when git knows none."""
    commit = git.resolve(revision)
    if commit is None:
        shallow = _shallow_hint(git)
        raise UsageError(
            "git knows no such commit",
            value=revision,
            allowed="a branch, a tag, a commit, or HEAD~1",
            fix=shallow or "git fetch, when it is on another branch; 'git log' shows what is here",
        )
    return commit


def _merge_base(git: Repository, tip: str, *, dirty: bool) -> tuple[str, str]:
    target = git.target()
    if target is None:
        raise UsageError(
            "there is no branch to compare with",
            allowed="the default branch of origin, main or master, or the one that CI names",
            fix="name the base, for example: pytest-quant compare HEAD~1",
        )
    common = git.merge_base(tip, target)
    if common is None:
        raise UsageError(
            f"{tip[:12]} and {target} have no common commit here",
            fix=_shallow_hint(git) or "name the base, for example: pytest-quant compare HEAD~1",
        )
    if common != tip or dirty:
        return common, f"merge base with {target}"
    before = git.parents(tip)
    if before:
        return before[0], f"the commit before, for {tip[:12]} is on {target}"
    raise UsageError(
        f"{tip[:12]} is on {target}, and no commit before it is here",
        fix=_shallow_hint(git) or "compare again when there is a second commit",
    )


def _shallow_hint(git: Repository) -> str:
    if git.is_shallow():
        return "the repository is shallow and older commits are not here: git fetch --unshallow"
    return ""
