"""Commit and branch of the code under test."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_quant.environment.ci import ci_branch
from pytest_quant.environment.git_command import ask_git

_STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=no")


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
    answer = ask_git(root, *_STATUS, timeout_s=timeout_s)
    return parse_status(answer.text, os.environ) if answer.ok else None


def parse_status(text: str, environ: Mapping[str, str]) -> GitState:
    """Read the output of ``git status --porcelain=v2 --branch``; `environ` is asked when no branch is checked out."""
    lines = text.splitlines()
    header = dict(line.removeprefix("# ").split(" ", 1) for line in lines if line.startswith("# branch."))
    commit = header.get("branch.oid", "(initial)")
    branch: str | None = header.get("branch.head", "(detached)")
    if branch == "(detached)":
        branch = ci_branch(environ)
    dirty = any(not line.startswith("#") for line in lines)
    return GitState(None if commit == "(initial)" else commit, branch, dirty)
