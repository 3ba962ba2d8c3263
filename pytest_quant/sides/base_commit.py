"""The commit that a run is compared with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from pytest_quant.environment import Repository
from pytest_quant.errors import UsageError
from pytest_quant.history.merge_base import select_base

_NAME_IT = "name the base, for example: --quant-against=HEAD~1"
_MOST_LETTERS = 80


def find_base(git: Repository, revision: str | None, *, dirty: bool) -> tuple[str, str]:
    """Return the full id of the base, and a line that names it.

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
    if revision is not None:
        commit = find_commit(git, revision)
        return commit, f"base {commit[:12]}: {revision}"
    try:
        # Every commit will do: what is compared is measured now.
        chosen = select_base(lambda commits: commits, git, dirty=dirty)
    except UsageError as error:
        fix = error.fix if error.fix is not None and "git fetch" in error.fix else _NAME_IT
        raise UsageError(error.what, value=error.value, allowed=error.allowed, fix=fix) from error
    return chosen.asked, f"base {chosen.asked[:12]}: {chosen.asked_as}"


def find_commit(git: Repository, revision: str) -> str:
    """Return the full id of a commit. Raises `UsageError` with how to fetch it when it is not here."""
    commit = git.resolve(revision)
    if commit is not None:
        return commit
    if Path(revision).exists():
        fix = f"the merge base is meant when no revision is written: --quant-against=merge-base {shlex.quote(revision)}"
    else:
        fix = _fetch(git, revision)
    raise UsageError(
        "git knows no such commit", value=revision[:_MOST_LETTERS], allowed="a branch, a tag, a commit, or HEAD~1",
        fix=fix,
    )  # fmt: skip


def _fetch(git: Repository, revision: str) -> str:
    """Return the command that brings a revision; a depth of one suffices, for only its files are needed."""
    shallow = git.is_shallow()
    depth = "--depth=1 " if shallow else ""
    if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", revision):
        return f"git fetch {depth}origin {revision}"
    below = re.fullmatch(r"(?:HEAD|@)(?:~(\d*)|(\^+))", revision)
    if below and shallow:
        return f"git fetch --deepen={below[1] or len(below[2] or '^')} origin"
    if re.search(r"[~^:@{]|\.\.", revision):
        return "git fetch --unshallow origin" if shallow else "git fetch origin; 'git log' shows what is here"
    name = revision.removeprefix("origin/")
    refspec = shlex.quote(f"{name}:refs/remotes/origin/{name}")
    return f"git fetch {depth}origin {refspec}, and name origin/{name}"
