"""The files of other commits in a temporary folder, worktrees of git, and the libraries that they ask for.

Trees are removed with the block that made them, but not where the process is killed. The user's checkout, index and
branches are never touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_quant.environment.revision import GitAnswer, ask_git
from pytest_quant.errors import QuantError, UsageError
from pytest_quant.files import temporary_folder
from pytest_quant.host import join_words, split_words

_CHECKOUT_S = 3600.0
"""Git may fetch large files meanwhile."""

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
    notes : what is not in it as it is in a checkout of the user: submodules whose commit is not here.
    """

    path: Path
    commit: str
    notes: tuple[str, ...] = ()


def top_level(root: Path) -> Path:
    """Return the folder of the checkout around `root`. Raises `UsageError` outside of git."""
    answer = _git(root, "rev-parse", "--show-toplevel")
    if not answer.ok or not answer.text:
        fix = "run this inside a repository of git; 'git init' makes one"
        raise UsageError(f"git knows no checkout at {root}", value=answer.error or None, fix=fix)
    return Path(answer.text)


@contextmanager
def workplace(root: Path) -> Iterator[Path]:
    """Make a temporary folder for trees of the repository around `root`; it and they are removed with the block."""
    with temporary_folder() as place:
        try:
            yield place
        finally:
            for folder in place.iterdir():
                if (folder / ".git").is_file():
                    # Twice: a tree is locked while it is made, and an interrupt may have come then.
                    _git(root, "worktree", "remove", "--force", "--force", str(folder), timeout_s=_CHECKOUT_S)


def check_out(root: Path, commit: str, folder: Path) -> Tree:
    """Write the files of a commit of the repository around `root` into `folder`, which must not exist yet.

    No hook of the user is run, and no branch is made.

    Raises
    ------
    UsageError : git cannot write them.
    """
    answer = _git(
        root, "-c", f"core.hooksPath={os.devnull}", "-c", "core.longpaths=true",
        "worktree", "add", "--detach", str(folder), commit, timeout_s=_CHECKOUT_S,
    )  # fmt: skip
    if not answer.ok:
        what = f"git cannot write the files of {commit[:12]} into a folder of its own"
        fix = "mend what git says; files that lie elsewhere (Git LFS, a partial clone) must be fetched first"
        raise UsageError(what, value=answer.error, fix=fix)
    return Tree(folder, commit, tuple(_fill_submodules(root, folder)))


def _fill_submodules(root: Path, tree: Path, above: str = "") -> Iterator[str]:
    """Fill the submodules of `tree` from the submodules of the checkout at `root`, without a network.

    Yield a sentence about each that stays empty; `above` is the path of the module that has them.
    """
    answer = _git(tree, "config", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$")
    for key, path in (line.split(" ", 1) for line in answer.text.splitlines()):
        commit = _git(tree, "rev-parse", "--verify", "--quiet", f":{path}")
        kept = _git(root, "rev-parse", "--git-path", f"modules/{key[len('submodule.') : -len('.path')]}").text
        # One that the base has elsewhere is found by its name.
        source = root / path if (root / path / ".git").exists() else (root / kept).resolve()
        options = ("protocol.file.allow=always", f"core.hooksPath={os.devnull}", f"{key[:-4]}url={source}")
        update = (*(word for option in options for word in ("-c", option)), "submodule", "--quiet", "update")
        if commit.ok and _git(tree, *update, "--checkout", "--", path, timeout_s=_CHECKOUT_S).ok:
            yield from _fill_submodules(source, tree / path, f"{above}{path}/")
        elif commit.ok:
            brings = ("fetch", "origin", commit.text) if source.exists() else ("submodule", "update", "--init", path)
            line = join_words(("git", "-C", above + path if source.exists() else above or ".", *brings))
            yield f"the submodule {above}{path} is empty in the files of the base, for its commit is not here: {line}"


def _git(root: Path, *arguments: str, timeout_s: float = 30.0) -> GitAnswer:
    return ask_git(root, *arguments, timeout_s=timeout_s, without=LOCAL_VARIABLES)


_FILES = (
    *("requirements*.txt", "requirements*.in", "constraints*.txt", "requirements/*.txt", "*requirements.txt"),
    *("uv.lock", "poetry.lock", "pdm.lock", "Pipfile", "Pipfile.lock", "pylock*.toml", "pixi.lock", "pixi.toml"),
    *("conda-lock.yml", "environment.yml", "environment.yaml", "setup.cfg", "setup.py", "pyproject.toml"),
)
_TABLES = ("dependencies", "optional-dependencies", "requires-python", "poetry", "pdm", "uv", "pixi")
"""In ``project`` and ``tool`` of ``pyproject.toml``, what names libraries; the rest changes with every other commit."""


def changed_dependencies(base: Path, head: Path, below: Path) -> tuple[str, ...]:
    """Return the files that name libraries and differ, relative to the two folders.

    Parameters
    ----------
    base, head : top folders of the two trees.
    below : folder of the tests, relative to both; files there and above it count.
    """
    places = [(top, top / folder) for top in (base, head) for folder in (below, *below.parents)]
    found = ((top, file) for top, place in places for pattern in _FILES for file in place.glob(pattern))
    names = {file.relative_to(top) for top, file in found if file.is_file()}
    return tuple(sorted(name.as_posix() for name in names if _libraries(base / name) != _libraries(head / name)))


def _libraries(file: Path) -> object:
    """Return what a file says about libraries; ``None`` if it is missing."""
    try:
        content = file.read_bytes()
        if file.name != "pyproject.toml":
            # Git writes the ends of lines as this system has them; who edits a file may write others.
            return content.replace(b"\r\n", b"\n")
        read = tomllib.loads(content.decode("utf-8"))
    except OSError:
        return None
    except (ValueError, RecursionError):
        return content
    tables = [table for name in ("project", "tool") if isinstance(table := read.get(name, {}), dict)]
    return [read.get("dependency-groups"), *(table.get(name) for table in tables for name in _TABLES)]


def own_python(env_option: str, tree: Path) -> str:
    """Return the interpreter of an environment for the tests of `tree`.

    Parameters
    ----------
    env_option : an interpreter, or a command that makes an environment for the folder ``{worktree}`` in it, and prints
        the interpreter on its last line.
    tree : the files, where the command runs.

    Raises
    ------
    QuantError : the command fails, or neither is an interpreter.
    """
    if shutil.which(env_option) is not None:
        return str(Path(env_option).absolute()) if Path(env_option).name != env_option else env_option
    try:
        command = [word.replace("{worktree}", str(tree)) for word in split_words(env_option)]
        done = subprocess.run(  # nosec B603 # noqa: S603 - a command that the user wrote, without a shell
            command, cwd=tree, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace",
            check=False, timeout=3600.0,
        )  # fmt: skip
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        raise _environment_error(env_option, str(error)) from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise _environment_error(env_option, f"it ended with {done.returncode}: {' / '.join(said)}")
    last = done.stdout.strip().rpartition("\n")[2]
    python = str(tree / last.strip())
    if not last or shutil.which(python) is None:
        raise _environment_error(env_option, f"its last line names no interpreter: {last or 'nothing'}")
    return python


def _environment_error(env_option: str, why: str) -> QuantError:
    return UsageError(
        f"the command of --quant-against-env gives no environment: {why}",
        value=env_option,
        allowed="an interpreter, or a command that prints one on its last line; {worktree} is the folder of the base",
        fix='for example: --quant-against-env "bash make-env.sh {worktree}"',
    )
