"""How commits lie to each other: what git answers about one repository."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pytest_quant.environment.ci import ci_target
from pytest_quant.environment.git_command import ask_git
from pytest_quant.errors import UsageError

MAX_DISTANCE = 50
"""So many first parents are looked at for records; what is further back says little about a change."""

_USUAL_TARGETS = ("origin/main", "origin/master", "main", "master")


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository around the folder `root`. Every method raises `UsageError` when git cannot answer."""

    root: Path

    def resolve(self, revision: str) -> str | None:
        """Return the full id of the commit that `revision` names, ``None`` when it names none."""
        # What follows the revision keeps one that looks like an option from being one.
        found = ask_git(self.root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if found.ok:
            return found.text
        self.check()
        return None

    def check(self) -> None:
        """Raise `UsageError` when there is no git, or no repository here; git's own words say which."""
        found = ask_git(self.root, "rev-parse", "--git-dir")
        if not found.ok:
            raise UsageError(
                f"git knows no repository at {self.root}",
                value=found.error,
                fix="run this inside the repository; without one, name runs of 'pytest-quant history' as BASE and HEAD",
            )

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the best common ancestor; ``None`` when the two have none, or it was not fetched."""
        found = ask_git(self.root, "merge-base", one, other)
        return found.text.splitlines()[0] if found.ok and found.text else None

    def parents(self, commit: str) -> tuple[str, ...]:
        """Return the parents, the first one first; none for a root commit, and for one that was not fetched."""
        found = ask_git(self.root, "rev-list", "--parents", "--max-count=1", commit, "--")
        return tuple(found.text.split()[1:]) if found.ok else ()

    def first_parents(self, commit: str, limit: int = MAX_DISTANCE) -> tuple[str, ...]:
        """Return `commit` and up to `limit` first parents below it, nearest first."""
        found = ask_git(self.root, "rev-list", "--first-parent", f"--max-count={limit + 1}", commit, "--")
        if not found.ok:
            raise UsageError(f"git cannot list the ancestors of {commit[:12]}", value=found.error)
        return tuple(found.text.split())

    def is_shallow(self) -> bool:
        """Whether only the last commits were fetched, as CI systems do."""
        return ask_git(self.root, "rev-parse", "--is-shallow-repository").text == "true"

    def target(self) -> str | None:
        """Return the branch that the work is to be merged into, as git spells it here; ``None`` when none is known.

        CI's variable for a pull request, else the default branch of ``origin``, else ``main`` or ``master``.

        Raises
        ------
        UsageError : CI names a branch that was not fetched.
        """
        asked = ci_target(os.environ)
        if asked is not None:
            return self._fetched(asked)
        default = ask_git(self.root, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
        names = ((default.text,) if default.ok else ()) + _USUAL_TARGETS
        return next((name for name in names if self.resolve(name) is not None), None)

    def _fetched(self, branch: str) -> str:
        for name in (f"origin/{branch}", branch):
            if self.resolve(name) is not None:
                return name
        raise UsageError(
            f"CI says that this is to be merged into '{branch}', and that branch is not here",
            fix=f"git fetch --unshallow origin {branch}:refs/remotes/origin/{branch}"
            if self.is_shallow()
            else f"git fetch origin {branch}:refs/remotes/origin/{branch}",
        )
