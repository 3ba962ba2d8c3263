"""The repository that files are written for: where it is, which forge runs its CI, its target branch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_quant.environment.revision import ask_git
from pytest_quant.errors import UsageError

Forge = Literal["github", "gitlab"]
FORGES: tuple[Forge, ...] = ("github", "gitlab")

GITLAB_FILE = ".gitlab-ci.yml"
"""The pipeline that GitLab runs."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/]*@)?(?P<host>[^/:@]+)")
_SCP = re.compile(r"(?:[^/@:]+@)?(?P<host>[^/:@]+):(?!//)")
_WRITABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+@#-]*")
"""Names of branches that need no quotes in YAML, in a shell, and in an expression of a forge."""

_SIGNS: dict[Forge, tuple[str, ...]] = {"github": (".github",), "gitlab": (GITLAB_FILE, ".gitlab")}
"""Files and folders that only one of them reads."""

_USUAL = ("main", "master")


@dataclass(frozen=True, slots=True)
class Checkout:
    """A working tree of git.

    Attributes
    ----------
    root : its top folder.
    remote : address of the remote ``origin``, else of the only one; empty without one.
    branch : the one that work is merged into.
    """

    root: Path
    remote: str
    branch: str


def find_checkout(here: Path) -> Checkout:
    """Return the checkout around `here`.

    Raises
    ------
    UsageError : there is none, git is not installed, or the name of its target branch cannot stand in a workflow.
    """
    found = ask_git(here, "rev-parse", "--show-toplevel")
    if not found.ok or not found.text:
        raise UsageError(
            f"git knows no checkout at {here}",
            value=found.error.partition("\n")[0] or None,
            fix="run it in a repository of git; 'git init' makes one",
        )
    root = Path(found.text)
    names = ask_git(root, "remote").text.splitlines()
    name = "origin" if "origin" in names else names[0] if len(names) == 1 else ""
    address = ask_git(root, "remote", "get-url", name).text.partition("\n")[0] if name else ""
    return Checkout(root, address, _target(root, name or "origin"))


def _target(root: Path, remote: str) -> str:
    """Return the default branch of the remote, else ``main`` or ``master``, else the only branch there is."""
    default = ask_git(root, "symbolic-ref", "--quiet", "--short", f"refs/remotes/{remote}/HEAD")
    here = ask_git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads").text.splitlines()
    current = ask_git(root, "symbolic-ref", "--quiet", "--short", "HEAD")
    known = [default.text.removeprefix(f"{remote}/")] if default.ok else [name for name in _USUAL if name in here]
    if not known and current.ok and len(here) <= 1:
        known = [current.text]
    branch = known[0] if known else _USUAL[0]
    if not _WRITABLE.fullmatch(branch):
        raise UsageError(
            "the name of the target branch cannot stand in a workflow",
            value=branch,
            allowed="letters, digits and ._/+@#-",
            fix="rename the branch: git branch -m",
        )
    return branch


def host_of(address: str) -> str:
    """Return the host in the address of a remote, in small letters; empty for a path."""
    found = _URL.match(address) or _SCP.match(address)
    return found["host"].lower() if found else ""


def find_forge(checkout: Checkout) -> Forge:
    """Return the forge whose name is in the remote's host, else the one whose files are here.

    Raises
    ------
    UsageError : neither tells.
    """
    host = host_of(checkout.remote)
    by_name: list[Forge] = [forge for forge in FORGES if forge in host]
    by_files: list[Forge] = [
        forge for forge in FORGES if any((checkout.root / sign).exists() for sign in _SIGNS[forge])
    ]
    for found in (by_name, by_files):
        if len(found) == 1:
            return found[0]
    raise UsageError(
        "nothing tells which forge runs the CI of this repository",
        value=f"the remote {checkout.remote}" if checkout.remote else "no remote",
        allowed="a remote whose host has github or gitlab in its name, or the files of one of them",
        fix="say it: pytest-quant init --github, or pytest-quant init --gitlab",
    )


def is_in_lfs(root: Path, path: str) -> bool:
    """Whether Git LFS keeps the content of the file `path`, which is relative to `root`."""
    return ask_git(root, "check-attr", "filter", "--", path).text.endswith(": lfs")


def is_kept_by_git(root: Path, path: str) -> bool:
    """Whether git has the file `path`, relative to `root`, in its index, so that a clone has it too once committed."""
    return ask_git(root, "ls-files", "--error-unmatch", "--", path).ok
