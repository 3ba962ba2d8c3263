"""Which branch is the main one."""

from __future__ import annotations

import subprocess
from pathlib import Path

_REMOTE_HEAD = ("git", "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
_HERE = ("git", "for-each-ref", "--format=%(refname:short)", "refs/heads/main", "refs/heads/master")


def main_branch(root: Path) -> str:
    """Return the branch that the remote ``origin`` has as its own, else ``main`` or ``master``, whichever is here."""
    told = _ask(_REMOTE_HEAD, root).removeprefix("origin/")
    local = _ask(_HERE, root).splitlines()
    return told or (local[0] if local else "main")


def _ask(command: tuple[str, ...], root: Path) -> str:
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""
