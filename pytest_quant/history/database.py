"""The way to the database: what it needs is an extra, and is imported when a history is opened."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_quant.errors import HistoryError

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

_LIBRARIES = ("alembic", "sqlalchemy")

INSTALL = 'pip install "pytest-quant[history]"'
"""Line that brings what a history needs."""


def missing_libraries() -> str:
    """Return what a history needs and is not installed, as the rest of a sentence; empty when nothing is missing."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if not missing:
        return ""
    return f"it needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"


def require_libraries() -> None:
    """Raise `HistoryError` with the line to install when a history can be neither read nor written here."""
    missing = missing_libraries()
    if missing:
        raise HistoryError(f"there can be no history here: {missing}", fix=INSTALL)


def open_store(place: str | Path) -> Store:
    """Open the history at `place`, a file or a database URL, creating it when it is not there.

    Raises
    ------
    HistoryError : the libraries are not installed, it cannot be opened, or a newer version of this package wrote it; a
        damaged file stays as it is.
    """
    require_libraries()
    from pytest_quant.history.connect import open_engine
    from pytest_quant.history.store import Store

    return Store(*open_engine(place))
