"""Opening the database, and its errors as `HistoryError`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from pytest_quant.errors import HistoryError
from pytest_quant.history.migrate import bring_up_to_date, set_up

FOLDER = ".quant"
"""Folder of the package below the root; a .gitignore inside excludes it from version control."""

_CONNECT_TIMEOUT_S = 10

_DRIVERS = {"sqlite": None, "postgres": "postgresql+psycopg", "postgresql": "postgresql+psycopg"}
"""Kinds of databases, and the driver of an address that names none."""

_FIXES = (
    (("not a database", "malformed"), "move the file away, and the next run starts a new history"),
    (("full", "no space"), "make room on the disk"),
    (("locked", "acquired", "lock timeout"), "wait for the other process that uses it, and try again"),
    (("psycopg",), 'pip install "pytest-quant[postgres]"'),
    (("connection", "server", "authentication", "resolve"), "see that the server runs and takes this user, try again"),
)
_OTHER_FIX = "make the place writable, or name another file with --quant-history FILE"


def open_engine(place: str | Path) -> tuple[Engine, str]:
    """Open a database with the tables of a history, creating or migrating them where needed.

    Parameters
    ----------
    place : a file for SQLite, or a database URL.

    Returns
    -------
    The engine, and `place` for messages, without a password.

    Raises
    ------
    HistoryError : it cannot be opened, or a newer version of this package wrote it; then nothing is changed.
    """
    url = _url(place)
    shown = shown_place(url)
    with storage_errors(shown, "opened", url.password):
        file = _sqlite_file(url)
        if file is not None:
            _prepare_folder(file.parent)
        if url.get_backend_name() == "postgresql" and "connect_timeout" not in url.query:
            # Without it an address that does not answer delays the tests by minutes.
            url = url.update_query_dict({"connect_timeout": str(_CONNECT_TIMEOUT_S)})
        engine = create_engine(url, poolclass=NullPool)
        set_up(engine)
        bring_up_to_date(engine, shown, file)
    return engine, shown


def shown_place(place: str | Path | URL) -> str:
    """Return the place of a history for messages: without a password, wherever the address contains it."""
    try:
        url = place if isinstance(place, URL) else _url(place)
    except HistoryError:
        return _redacted(str(place))
    if url.get_backend_name() == "sqlite":
        return url.database or ""
    secret = [name for name in url.query if "pass" in name.lower()]
    return url.difference_update_query(secret).render_as_string()


@contextmanager
def storage_errors(shown: str, action: str, password: str | None = None) -> Iterator[None]:
    """Raise errors of the database and the file system as `HistoryError`.

    Parameters
    ----------
    shown : place of the history for the message.
    action : past participle for the message, ``opened``, ``read`` or ``written``.
    password : removed from the message; ``None`` for none.
    """
    try:
        yield
    except (SQLAlchemyError, ModuleNotFoundError, OSError) as error:
        cause = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        if password:
            cause = cause.replace(password, "***")
        fixes = (fix for words, fix in _FIXES if any(word in cause.lower() for word in words))
        raise HistoryError(
            f"the history {shown} cannot be {action}", value=cause, fix=next(fixes, _OTHER_FIX)
        ) from error


def _url(place: str | Path) -> URL:
    address = str(place)
    if "://" not in address:
        return URL.create("sqlite", database=address)
    try:
        url = make_url(address)
        kind = url.get_backend_name()
    except (ArgumentError, ValueError) as error:
        raise _wrong_address(address) from error
    if kind not in _DRIVERS:
        raise _wrong_address(address)
    driver = _DRIVERS[kind]
    return url if driver is None or "+" in url.drivername else url.set(drivername=driver)


def _wrong_address(address: str) -> HistoryError:
    return HistoryError(
        "the history's address cannot be read",
        value=_redacted(address),
        allowed="a file, or a database URL: sqlite:////data/history.db, postgresql+psycopg://user@host/database",
    )


def _redacted(address: str) -> str:
    """Return an address that cannot be parsed, without every part that may be a password."""
    return re.sub(r"//.*@", "//***@", re.sub(r"(pass\w*=)[^&]*", r"\1***", address, flags=re.IGNORECASE))


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
