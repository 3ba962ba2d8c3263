"""Opening the database, and its errors in our words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from filelock import FileLock
from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from pytest_quant.errors import HistoryError
from pytest_quant.history.schema import create_tables, refuse_newer, stored_version

FOLDER = ".quant"
"""Our own folder below the root; it ignores itself for git."""

_BUSY_TIMEOUT_S = 60

_FIXES = (
    (("not a database", "malformed"), "move the file away, and the next run starts a new history"),
    (("full", "no space"), "make room on the disk"),
    (("locked", "acquired"), "wait for the other process that uses it, and try again"),
)
_OTHER_FIX = "make the place writable, or name another file with --quant-history FILE"


def open_engine(place: str | Path) -> tuple[Engine, str]:
    """Open a database with our tables, creating both when they are not there.

    Parameters
    ----------
    place : a file for SQLite, or a database URL.

    Returns
    -------
    The engine, and `place` as messages may show it, without a password.

    Raises
    ------
    HistoryError : it cannot be opened, or a newer version of this package wrote it; then nothing was written.
    """
    url = _url(place)
    shown = url.database or "" if url.get_backend_name() == "sqlite" else url.render_as_string()
    with storage_errors(shown, "opened"):
        file = _sqlite_file(url)
        if file is not None:
            _prepare_folder(file.parent)
        engine = create_engine(url, poolclass=NullPool)
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _set_up_sqlite)
        _prepare_tables(engine, shown, file)
    return engine, shown


@contextmanager
def storage_errors(shown: str, action: str) -> Iterator[None]:
    """Turn what the database or the file system raises into a `HistoryError`; `action` is ``opened`` or ``read``."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        cause = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        fixes = (fix for words, fix in _FIXES if any(word in cause.lower() for word in words))
        raise HistoryError(
            f"the history {shown} cannot be {action}", value=cause, fix=next(fixes, _OTHER_FIX)
        ) from error


def _url(place: str | Path) -> URL:
    text = str(place)
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        return make_url(text)
    except ArgumentError as error:
        raise HistoryError(
            "the history's address cannot be read",
            value=text,
            allowed="a file, or a database URL such as sqlite:////data/history.db",
        ) from error


def _sqlite_file(url: URL) -> Path | None:
    if url.get_backend_name() != "sqlite" or not url.database:
        return None
    file = Path(url.database)
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder where the file should be")
    return file


def _prepare_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    # Any other folder is the user's, who may want the history under version control.
    if folder.name == FOLDER and not ignore.exists():
        ignore.write_text(
            "# Created by pytest-quant: nothing here belongs into version control.\n*\n", encoding="utf-8"
        )


def _set_up_sqlite(connection: sqlite3.Connection, _: object) -> None:
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_S * 1000}")
    connection.execute("PRAGMA foreign_keys = ON")


def _prepare_tables(engine: Engine, shown: str, file: Path | None) -> None:
    version = stored_version(engine)
    if version is None:
        with _only_one(file):
            version = stored_version(engine)
            if version is None:
                _create(engine)
                return
    refuse_newer(version, shown)


def _only_one(file: Path | None) -> AbstractContextManager[object]:
    """Let one process create the file: SQLite does not wait for another that switches the journal."""
    return nullcontext() if file is None else FileLock(f"{file}.lock", timeout=_BUSY_TIMEOUT_S)


def _create(engine: Engine) -> None:
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    with engine.begin() as connection:
        create_tables(connection)
