"""Access to the database, whose libraries are an extra and are imported when a history is opened."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_quant.errors import HistoryError

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

_LIBRARIES = ("alembic", "sqlalchemy")

INSTALL = 'pip install "pytest-quant[history]"'
"""Command that installs the libraries of a history."""


def missing_libraries() -> str:
    """Return which libraries of a history are not installed, as the end of a sentence; empty when none is missing."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if not missing:
        return ""
    return f"it needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"


def require_libraries() -> None:
    """Raise `HistoryError` with the command to install when libraries of a history are missing."""
    missing = missing_libraries()
    if missing:
        raise HistoryError(f"there can be no history here: {missing}", fix=INSTALL)


def open_store(place: str | Path) -> Store:
    """Open the history at `place`, a file or a database URL, creating it when it does not exist.

    Raises
    ------
    HistoryError : the libraries are not installed, it cannot be opened, or a newer version of this package wrote it; a
        damaged file is not changed.
    """
    require_libraries()
    from pytest_quant.history.connect import open_engine
    from pytest_quant.history.store import Store

    return Store(*open_engine(place))
