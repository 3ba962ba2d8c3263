"""The files of other commits in a temporary folder: worktrees of git, which are removed however the process ends.

The user's checkout, index and branches are never touched. A killed process leaves a folder, which the next one removes.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_quant.environment.revision import GitAnswer, ask_git
from pytest_quant.errors import UsageError

_PREFIX = "pytest-quant-trees-"
_OWNER = "owner.json"
_NEW_S = 600.0
"""A folder without a note of its owner that is younger may be one that is just made."""

_CHECKOUT_S = 3600.0
"""Git may fetch large files meanwhile."""

_CLOCK_S = 2.0
_POINTER = b"version https://git-lfs"
_NAMED = 3

LOCAL_VARIABLES = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"),
    *("GIT_INTERNAL_SUPER_PREFIX", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_NO_REPLACE_OBJECTS"),
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_REPLACE_REF_BASE", "GIT_IMPLICIT_WORK_TREE"),
)
"""Set for a hook of git; within one they would point another tree at the user's index."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of one commit.

    Attributes
    ----------
    path : the folder.
    commit : full id.
    notes : what is not in it as it is in a checkout of the user: submodules, files kept elsewhere.
    """

    path: Path
    commit: str
    notes: tuple[str, ...] = ()


def top_level(root: Path) -> Path:
    """Return the folder of the checkout around `root`. Raises `UsageError` where there is none."""
    answer = _git(root, "rev-parse", "--show-toplevel")
    if not answer.ok:
        raise UsageError(
            f"git knows no checkout at {root}", value=answer.error, fix="run this inside a repository of git"
        )
    return Path(answer.text)


@contextmanager
def workplace(root: Path) -> Iterator[Path]:
    """Make a temporary folder for trees of the repository around `root`; it and they are removed with the block.

    What killed processes of this user left is removed first.
    """
    sweep()
    place = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    try:
        (place / _OWNER).write_text(json.dumps({"pid": os.getpid(), "repository": str(root)}), encoding="utf-8")
        yield place
    finally:
        _remove(place, root)


def check_out(root: Path, commit: str, folder: Path) -> Tree:
    """Write the files of a commit of the repository around `root` into `folder`, which must not exist yet.

    No hook of the user is run, and no branch is made.

    Raises
    ------
    UsageError : git cannot write them.
    """
    answer = _git(
        root, "-c", f"core.hooksPath={os.devnull}", "worktree", "add", "--detach", str(folder), commit,
        timeout_s=_CHECKOUT_S,
    )  # fmt: skip
    if not answer.ok:
        raise UsageError(
            f"git cannot write the files of {commit[:12]} into a folder of its own",
            value=answer.error,
            fix="mend what git says; files that lie elsewhere (Git LFS, a partial clone) must be fetched first",
        )
    return Tree(folder, commit, tuple(_not_as_usual(folder)))


def remove_tree(root: Path, folder: Path) -> None:
    """Remove a tree that `check_out` made, wholly or in part; what is no tree of git is removed all the same."""
    # Twice: a tree is locked while it is made, and an interrupt may have come then.
    _git(root, "worktree", "remove", "--force", "--force", str(folder), timeout_s=_CHECKOUT_S)
    shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove what killed processes of this user left in the temporary folder."""
    for place in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if place.is_symlink() or place.stat().st_uid != os.getuid():
                continue
            owner = _owner(place)
            if owner is None:
                if time.time() - place.stat().st_mtime > _NEW_S:
                    shutil.rmtree(place, ignore_errors=True)
            elif not _lives(owner[0], since=(place / _OWNER).stat().st_mtime):
                _remove(place.resolve(), owner[1])


def _owner(place: Path) -> tuple[int, Path] | None:
    try:
        owner = json.loads((place / _OWNER).read_text(encoding="utf-8"))
        return int(owner["pid"]), Path(owner["repository"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _lives(pid: int, since: float) -> bool:
    """Whether process `pid` runs, and ran at that time already: its number may be another one's by now."""
    # Here, because only who finds such a folder needs it.
    import psutil

    try:
        return bool(psutil.Process(pid).create_time() <= since + _CLOCK_S)
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True


def _remove(place: Path, root: Path) -> None:
    # Where the repository is gone there is nothing in it to tidy up.
    if root.is_dir():
        for folder in place.iterdir():
            if (folder / ".git").is_file():
                remove_tree(root, folder)
    shutil.rmtree(place, ignore_errors=True)


def _not_as_usual(tree: Path) -> Iterator[str]:
    if (tree / ".gitmodules").is_file():
        answer = _git(tree, "config", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$")
        paths = [line.split(" ", 1)[1] for line in answer.text.splitlines() if " " in line]
        if paths:
            yield f"submodules are empty in the files of the base: {_some(paths)}"
    answer = _git(tree, "ls-files", "-z", "--", ":(attr:filter=lfs)", timeout_s=_CHECKOUT_S)
    names = [name for name in answer.text.split("\0") if name] if answer.ok else []
    pointers = [name for name in names if _is_pointer(tree / name)]
    if pointers:
        yield f"files are pointers of Git LFS in the base, not their contents (git lfs fetch): {_some(pointers)}"


def _is_pointer(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(len(_POINTER)) == _POINTER
    except OSError:
        return False


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join([*names[:_NAMED], *([f"and {more} more"] if more > 0 else [])])


def _git(root: Path, *arguments: str, timeout_s: float = 30.0) -> GitAnswer:
    return ask_git(root, *arguments, timeout_s=timeout_s, without=LOCAL_VARIABLES)
