"""What the commands share: the only way to the terminal, and the places of history, cache and project.

Foreign text that is printed cannot act upon the terminal.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import click

from pytest_quant.errors import UsageError
from pytest_quant.files import FOLDER
from pytest_quant.history import is_there, require_libraries
from pytest_quant.history.unfinished_runs import recover
from pytest_quant.printable import clean_lines, guard_json, guard_lines

HISTORY_VARIABLE = "PYTEST_QUANT_HISTORY"
"""Environment variable that names the history, a file or an address, as --quant-history does."""


_COLOR = False if os.environ.get("NO_COLOR") else None
"""``None`` leaves colours to click, which writes them to terminals; see https://no-color.org."""


def say(text: str, *, err: bool = False, color: str | None = None) -> None:
    """Print a message.

    Parameters
    ----------
    text : with names and places in it as they are; secrets in addresses are left out.
    err : print to the standard error.
    color : of the whole text, as click names it.
    """
    click.secho(clean_lines(text), fg=color, err=err, color=_COLOR)


def show(text: str) -> None:
    """Print a table or a report, which was laid out and styled out of clean parts."""
    # Where the output is no terminal click removes the styles.
    click.echo(guard_lines(text), color=_COLOR)


def show_json(document: object, *, indent: int | None = None) -> None:
    """Print a document as JSON, on one line unless it is indented."""
    click.echo(guard_json(json.dumps(document, allow_nan=False, indent=indent)))


def width() -> int:
    """Return the width of the terminal in characters, 100 if the output is no terminal."""
    return shutil.get_terminal_size((100, 24)).columns


def split_names(text: str | None) -> tuple[str, ...]:
    """Return the names of an option that takes ``NAME[,NAME]``."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def nearest_folder() -> Path:
    """Return the folder ``.quant`` in this folder or in the nearest folder above; in this folder if none has it."""
    return _nearest(FOLDER) / FOLDER


def project_root() -> Path:
    """Return the project's folder: the nearest one here or above with baselines, else a history, else a repository."""
    return _nearest("quant-baselines.toml", FOLDER, ".git")


def _nearest(*names: str) -> Path:
    """Return the nearest folder, this one or one above, with the first of `names` that any has; else this one."""
    here = Path.cwd()
    return next((folder for name in names for folder in (here, *here.parents) if (folder / name).exists()), here)


def _require_libraries(_context: click.Context, _option: click.Parameter, place: str | None) -> str | None:
    """Refuse a command that needs the history, before it does anything, if the library of the history is missing."""
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


def history_place(place: str | None) -> str:
    """Return the file or URL of the history that an option names, else the environment; else of the nearest one."""
    return place or os.environ.get(HISTORY_VARIABLE) or str(nearest_folder() / "history.db")


def existing_history(place: str | None) -> str:
    """Return the file or URL of a history, with what killed runs left added to it.

    Raises
    ------
    UsageError : it is a file that does not exist, or that this user may not see.
    """
    where = history_place(place)
    added, refused = recover(where, nearest_folder().parent)
    for line in (*([added] if added else []), *refused):
        say(line, err=True)
    if not is_there(where):
        raise UsageError(
            "there is no history yet", value=where, fix="run tests with a quant mark first, or give --history FILE"
        )
    return where
