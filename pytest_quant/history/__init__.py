"""The history of all records, in an SQLite file or a PostgreSQL database.

Importing this loads no database library: it is an extra, and `open_store` raises where it is missing.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_quant.environment.revision import Repository
from pytest_quant.errors import HistoryError

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

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


def is_there(place: str | Path) -> bool:
    """Whether there is a history at `place`: a file that this user may see, or a server, which is not asked."""
    return "://" in str(place) or os.path.exists(place)  # noqa: PTH110 - a folder without rights is no error


def open_store(place: str | Path, root: Path | None = None) -> Store:
    """Open the history at `place`, a file or a database URL, creating it when it does not exist.

    Where `root` is given, what it is compared with, and trends, are of the repository around that folder.

    Raises
    ------
    HistoryError : the library is not installed, it cannot be opened, or another version of this package wrote it; a
        damaged file is not changed.
    """
    require_libraries()
    from pytest_quant.history.connect import open_engine
    from pytest_quant.history.store import Store

    return Store(*open_engine(place), () if root is None else Repository(root).names())
