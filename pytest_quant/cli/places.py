"""Places that the commands use: history, cache, project root and main branch, and properties of the terminal."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from pytest_quant.cli.echo import say
from pytest_quant.errors import UsageError

FOLDER = ".quant"

HISTORY_VARIABLE = "PYTEST_QUANT_HISTORY"
"""Environment variable that names the history, a file or an address, as --quant-history does."""


def nearest_folder() -> Path:
    """Return the folder ``.quant`` here or in the nearest folder above; the one here when there is none."""
    here = Path.cwd()
    candidates = (folder / FOLDER for folder in (here, *here.parents) if (folder / FOLDER).is_dir())
    return next(candidates, here / FOLDER)


def history_place(asked: str | None) -> str:
    """Return the file or URL of the history."""
    return asked or str(nearest_folder() / "history.db")


def existing_history(asked: str | None) -> str:
    """Return the file or URL of a history, with what killed runs left added to it.

    Raises
    ------
    UsageError : it is a file that does not exist.
    HistoryError : nobody can tell whether it does, as of a folder that this user may not enter.
    """
    where = history_place(asked)
    _add_what_killed_runs_left(where)
    if "://" not in where and not _exists(where):
        raise UsageError(
            "there is no history yet", value=where, fix="run tests with a quant mark first, or give --history FILE"
        )
    return where


def _exists(file: str) -> bool:
    # Here, because help does without.
    from pytest_quant.history.connect import storage_errors

    with storage_errors(file, "opened"):
        return Path(file).exists()


def _add_what_killed_runs_left(where: str) -> None:
    # Here, because help does without.
    from pytest_quant.history.unfinished_runs import recover

    recovered = recover(where, nearest_folder().parent)
    for line in (*([str(recovered)] if recovered.runs else []), *recovered.refused):
        say(line, err=True)


def project_root() -> Path:
    """Return the project's folder: the nearest one here or above with baselines, else a history, else a repository."""
    here = Path.cwd()
    marks = ("quant-baselines.toml", FOLDER, ".git")
    candidates = (folder for mark in marks for folder in (here, *here.parents) if (folder / mark).exists())
    return next(candidates, here)


def _require_libraries(_context: click.Context, _option: click.Parameter, place: str | None) -> str | None:
    """Refuse a command that needs the history before it does anything, where the library of the history is missing."""
    # Here, because help should come at once.
    from pytest_quant.history import require_libraries

    require_libraries()
    return place


history_option = click.option(
    "--history",
    "place",
    callback=_require_libraries,
    metavar="FILE_OR_URL",
    envvar=HISTORY_VARIABLE,
    help="The history, as given to --quant-history  [$PYTEST_QUANT_HISTORY, else .quant/history.db]",
)

_REMOTE_HEAD = ("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
_HERE = ("for-each-ref", "--format=%(refname:short)", "refs/heads/main", "refs/heads/master")


def main_branch(root: Path) -> str:
    """Return the default branch of the remote ``origin``, else ``main`` or ``master``, whichever exists here."""
    # Here, because help does without.
    from pytest_quant.environment.revision import ask_git

    default = ask_git(root, *_REMOTE_HEAD)
    if default.ok:
        return default.text.removeprefix("origin/")
    local = ask_git(root, *_HERE).text.splitlines()
    return local[0] if local else "main"


def width() -> int:
    """Return the width of the terminal in characters, 100 where the output is no terminal."""
    return shutil.get_terminal_size((100, 24)).columns


def speaks_unicode() -> bool:
    """Whether the output can encode all characters of Unicode."""
    return (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf16")
