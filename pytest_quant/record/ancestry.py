"""Where the code under test comes from, and where it is to go: git's answer, else that of CI's variables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pytest_quant.environment import Repository, ci_branch, ci_commit, ci_pull_request, ci_target, git_state
from pytest_quant.errors import UsageError


@dataclass(frozen=True, slots=True)
class Ancestry:
    """The part of a run that is about commits, see `Run`."""

    commit: str | None
    branch: str | None
    dirty: bool
    parents: tuple[str, ...] = ()
    merge_base: str | None = None
    target: str | None = None
    pull_request: str | None = None


def ancestry(root: Path) -> Ancestry:
    """Return what is known about the code at `root`; nothing here fails, because the tests matter more."""
    pull_request = ci_pull_request(os.environ)
    state = git_state(root)
    if state is None:
        # A container whose user does not own the checkout, or that was given the files without .git.
        commit = ci_commit(os.environ)
        branch = ci_branch(os.environ) if commit else None
        return Ancestry(commit, branch, dirty=False, target=ci_target(os.environ), pull_request=pull_request)
    if state.commit is None:
        return Ancestry(None, state.branch, state.dirty, pull_request=pull_request)
    repository = Repository(root)
    target = _target(repository)
    return Ancestry(
        commit=state.commit,
        branch=state.branch,
        dirty=state.dirty,
        parents=repository.parents(state.commit),
        merge_base=None if target is None else repository.merge_base(state.commit, target),
        target=ci_target(os.environ) if target is None else target.removeprefix("origin/"),
        pull_request=pull_request,
    )


def _target(repository: Repository) -> str | None:
    try:
        return repository.target()
    except UsageError:
        # The branch was not fetched: then there is no merge base to be kept either.
        return None
