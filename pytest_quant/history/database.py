"""Access to the history: its folder, and its library, which is an extra."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_quant.errors import HistoryError

if TYPE_CHECKING:
    from pytest_quant.history.store import Store


FOLDER = ".quant"
"""Folder of the package below the root; a .gitignore inside excludes it from version control."""

INSTALL = 'pip install "pytest-quant[history]"'
"""Command that installs the library of a history."""


def missing_libraries() -> str:
    """Return that the library of a history is not installed, as the end of a sentence; empty when it is."""
    return "" if find_spec("sqlalchemy") else "it needs sqlalchemy, which is not installed"


def require_libraries() -> None:
    """Raise `HistoryError` with the command that installs it when the library of a history is missing."""
    missing = missing_libraries()
    if missing:
        raise HistoryError(f"there can be no history here: {missing}", fix=INSTALL)


def prepare_folder(folder: Path) -> None:
    """Create the folder of a history; one that is ours is excluded from version control. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    # Any other folder is the user's, who may want the history under version control.
    if folder.name == FOLDER and not ignore.exists():
        ignore.write_text(
            "# Created by pytest-quant: nothing here belongs into version control.\n*\n", encoding="utf-8"
        )


def open_store(place: str | Path) -> Store:
    """Open the history at `place`, a file or a database URL, creating it when it does not exist.

    Raises
    ------
    HistoryError : the library is not installed, it cannot be opened, or another version of this package wrote it; a
        damaged file is not changed.
    """
    require_libraries()
    from pytest_quant.history.connect import open_engine
    from pytest_quant.history.store import Store

    return Store(*open_engine(place))
