"""The libraries that two commits ask for, and the environment that the older one gets when they are not the same."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_quant.errors import QuantError, UsageError

_FILES = (
    *("requirements*.txt", "requirements*.in", "constraints*.txt", "requirements/*.txt", "*requirements.txt"),
    *("uv.lock", "poetry.lock", "pdm.lock", "Pipfile", "Pipfile.lock", "pylock*.toml", "pixi.lock", "pixi.toml"),
    *("conda-lock.yml", "environment.yml", "environment.yaml", "setup.cfg", "setup.py", "pyproject.toml"),
)
_TABLES = (
    *(("project", "dependencies"), ("project", "optional-dependencies"), ("project", "requires-python")),
    *(("dependency-groups",), ("tool", "poetry"), ("tool", "pdm"), ("tool", "uv"), ("tool", "pixi")),
)
"""Of a ``pyproject.toml``, the parts that name libraries; the rest of it changes with every other commit."""

_TREE = "{worktree}"
_ENV_TIMEOUT_S = 3600.0
_LAST_LINES = 3


def changed_dependencies(base: Path, head: Path, below: Path) -> tuple[str, ...]:
    """Return the files that name libraries and differ, relative to the two folders.

    Parameters
    ----------
    base, head : top folders of the two trees.
    below : folder of the tests, relative to both; files there and above it count.
    """
    folders = [below, *below.parents]
    names = {name for top in (base, head) for folder in folders for name in _named(top, folder)}
    return tuple(sorted(name.as_posix() for name in names if _libraries(base / name) != _libraries(head / name)))


def _named(top: Path, folder: Path) -> Iterator[Path]:
    for pattern in _FILES:
        yield from (file.relative_to(top) for file in (top / folder).glob(pattern) if file.is_file())


def _libraries(file: Path) -> object:
    """Return what a file says about libraries; ``None`` where it is not there."""
    try:
        content = file.read_bytes()
        if file.name != "pyproject.toml":
            return content
        read = tomllib.loads(content.decode("utf-8"))
    except OSError:
        return None
    except ValueError:
        return content
    return [_table(read, names) for names in _TABLES]


def _table(read: dict[str, Any], names: tuple[str, ...]) -> object:
    table: object = read
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    return table


def own_python(asked: str, tree: Path) -> str:
    """Return the interpreter of an environment for the tests of `tree`.

    Parameters
    ----------
    asked : an interpreter, or a command that makes an environment for the folder ``{worktree}`` in it, and prints the
        interpreter on its last line.
    tree : the files, where the command runs.

    Raises
    ------
    QuantError : the command fails, or neither is an interpreter.
    """
    if shutil.which(asked) is not None:
        return str(Path(asked).absolute()) if os.sep in asked else asked
    command = [word.replace(_TREE, str(tree)) for word in _words(asked)]
    try:
        done = subprocess.run(  # nosec B603 # noqa: S603 - a command that the user wrote, without a shell
            command, cwd=tree, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            check=False, timeout=_ENV_TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_environment(asked, str(error)) from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-_LAST_LINES:]
        raise _no_environment(asked, f"it ended with {done.returncode}: {' / '.join(said)}")
    printed = done.stdout.strip().splitlines()
    python = str(tree / printed[-1].strip()) if printed else ""
    if not printed or shutil.which(python) is None:
        raise _no_environment(asked, f"its last line names no interpreter: {printed[-1] if printed else 'nothing'}")
    return python


def _words(asked: str) -> list[str]:
    try:
        words = shlex.split(asked)
    except ValueError as error:
        raise _no_environment(asked, str(error)) from error
    if not words:
        raise _no_environment(asked, "it is empty")
    return words


def _no_environment(asked: str, why: str) -> QuantError:
    return UsageError(
        f"the command of --quant-against-env gives no environment: {why}",
        value=asked,
        allowed="an interpreter, or a command that prints one on its last line; {worktree} is the folder of the base",
        fix='for example: --quant-against-env "bash make-env.sh {worktree}"',
    )
