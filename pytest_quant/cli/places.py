"""Where the commands look."""

from __future__ import annotations

from pathlib import Path

import click

FOLDER = ".quant"


def nearest_folder() -> Path:
    """Return the folder ``.quant`` here or in the nearest folder above; the one here when there is none."""
    here = Path.cwd()
    found = (folder / FOLDER for folder in (here, *here.parents) if (folder / FOLDER).is_dir())
    return next(found, here / FOLDER)


def history_place(asked: str | None) -> str:
    """Return the file or URL of the history."""
    return asked or str(nearest_folder() / "history.db")


history_option = click.option(
    "--history",
    "place",
    metavar="FILE_OR_URL",
    envvar="PYTEST_QUANT_HISTORY",
    help="The history, as given to --quant-history  [$PYTEST_QUANT_HISTORY, else .quant/history.db]",
)
