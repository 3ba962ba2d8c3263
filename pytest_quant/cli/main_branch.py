"""Which branch is the main one."""

from __future__ import annotations

from pathlib import Path

from pytest_quant.environment.git_command import ask_git

_REMOTE_HEAD = ("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
_HERE = ("for-each-ref", "--format=%(refname:short)", "refs/heads/main", "refs/heads/master")


def main_branch(root: Path) -> str:
    """Return the branch that the remote ``origin`` has as its own, else ``main`` or ``master``, whichever is here."""
    told = ask_git(root, *_REMOTE_HEAD)
    if told.ok:
        return told.text.removeprefix("origin/")
    local = ask_git(root, *_HERE).text.splitlines()
    return local[0] if local else "main"
