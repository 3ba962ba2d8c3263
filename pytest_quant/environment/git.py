"""Commit and branch of the code under test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_COMMAND = ("git", "status", "--porcelain=v2", "--branch", "--untracked-files=no")

_CI_BRANCH = (
    "GITHUB_HEAD_REF",
    "GITHUB_REF_NAME",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME",
    "CI_COMMIT_REF_NAME",
    "BUILD_SOURCEBRANCHNAME",
    "BUILDKITE_BRANCH",
    "CIRCLE_BRANCH",
    "GIT_BRANCH",
)
"""Where CI systems, which check out a commit and no branch, tell the branch; the more telling first."""


@dataclass(frozen=True, slots=True)
class GitState:
    """What is checked out.

    Attributes
    ----------
    commit : in hex; ``None`` before the first one.
    branch : ``None`` when no branch is checked out and no CI system tells one.
    dirty : a tracked file differs from the commit.
    """

    commit: str | None
    branch: str | None
    dirty: bool


def git_state(root: Path, timeout_s: float = 10.0) -> GitState | None:
    """Return what is checked out at `root`; ``None`` outside a repository, without git, or when git hangs."""
    # Looking must not take the lock that a git command of the user may want at this moment.
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        answer = subprocess.run(  # noqa: S603 - a constant command without a shell
            _COMMAND, cwd=root, env=environment, capture_output=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0:
        return None
    return parse_status(answer.stdout.decode(errors="replace"), os.environ)


def parse_status(text: str, environ: Mapping[str, str]) -> GitState:
    """Read the output of ``git status --porcelain=v2 --branch``; `environ` is asked when no branch is checked out."""
    lines = text.splitlines()
    header = dict(line.removeprefix("# ").split(" ", 1) for line in lines if line.startswith("# branch."))
    commit = header.get("branch.oid", "(initial)")
    branch: str | None = header.get("branch.head", "(detached)")
    if branch == "(detached)":
        branch = next((environ[name] for name in _CI_BRANCH if environ.get(name)), None)
    dirty = any(not line.startswith("#") for line in lines)
    return GitState(None if commit == "(initial)" else commit, branch, dirty)
