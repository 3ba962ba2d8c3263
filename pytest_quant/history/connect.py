"""The tables of a history, and connections to it, which create missing tables.

Runs and records are stored as whole documents; the other columns are searched and listed without decoding them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import sqlalchemy as sa
from filelock import FileLock
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from pytest_quant.errors import HistoryError
from pytest_quant.files import prepare_folder
from pytest_quant.printable import redact_address

VERSION = 9
"""Of the tables; one more with each change of them. A history of another version is refused, see `connect`."""

METADATA = sa.MetaData()

# By bytes, as SQLite sorts: a server would sort by the rules of its locale.
_SORTED = sa.String().with_variant(sa.Text(collation="C"), "postgresql")

SCHEMA = sa.Table("quant_schema", METADATA, sa.Column("version", sa.Integer, primary_key=True))
"""Read by every version of this package before any other table."""

RUNS = sa.Table(
    "quant_runs",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("id", _SORTED, nullable=False, unique=True),
    sa.Column("started_at", _SORTED, nullable=False, index=True),
    sa.Column("commit", sa.String, index=True),
    sa.Column("branch", sa.String, index=True),
    sa.Column("dirty", sa.Boolean, nullable=False),
    sa.Column("run", sa.Text, nullable=False),
    sa.Column("tree", sa.String, index=True),
    sa.Column("repository", sa.String, nullable=False, index=True),
    sa.Column("thinned", sa.Boolean, nullable=False, server_default=sa.false()),
)
"""`started_at` is converted to UTC, so that its order is that of time. A run that is `thinned` is pruned no more."""

SERIES = sa.Table(
    "quant_series",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    # PostgreSQL indexes texts of up to 2700 bytes only, and a node id may be longer.
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    sa.Column("key", sa.Text, nullable=False),
)

CHECKS = sa.Table(
    "quant_checks",
    METADATA,
    sa.Column("run", sa.Integer, sa.ForeignKey("quant_runs.number", ondelete="CASCADE"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("series", sa.Integer, sa.ForeignKey("quant_series.number"), nullable=False),
    sa.Column("started_at", _SORTED, nullable=False),
    sa.Column("status", sa.String, nullable=False),
    sa.Column("figures", sa.Text, nullable=False),
    sa.Index("quant_checks_by_series", "series", "started_at"),
)
"""The summary of each check, see `CheckSummary`, whose figures are one text of JSON, so that a new one needs no column.

`started_at` is that of its run, so that one index finds a series in its order.
"""

RECORDS = sa.Table(
    "quant_records",
    METADATA,
    sa.Column("run", sa.Integer, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("record", sa.LargeBinary, nullable=False),
    sa.ForeignKeyConstraint(
        ["run", "position"],
        ["quant_checks.run", "quant_checks.position"],
        name="quant_records_check",
        ondelete="CASCADE",
    ),
)
"""A table of its own, so that the summaries of a series are stored close together."""

SELFTESTS = sa.Table(
    "quant_selftests",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("machine", sa.String(64), nullable=False),
    sa.Column("device", sa.String, nullable=False),
    sa.Column("measured_at", _SORTED, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    sa.Index("quant_selftests_by_machine", "machine", "device", "measured_at"),
)
"""What machines of one identity were found to hold. It is about machines and not about commits: a history that is
exported, imported, pushed or pulled leaves it where it was measured, and pruning keeps it."""

BUSY_TIMEOUT_S = 60
"""Longest wait of one process for another that writes."""

_BEGIN = "pytest_quant_begin"
"""Option of a connection: the statement that begins its transactions in SQLite; empty for none."""

_MADE_BY_OTHERS = """SELECT type || ' ' || name FROM sqlite_master WHERE type = 'trigger'
    OR (name LIKE 'quant!_%' ESCAPE '!' AND (type = 'view' OR upper(sql) LIKE 'CREATE VIRTUAL%'))"""
"""What runs whatever its maker wrote, without an end perhaps, where a history is read or written."""

_LOCK = 0x7175616E74
"""Number of the lock in PostgreSQL, the letters ``quant``; two databases of one server do not share it."""

PAGE_BYTES = 16_384
"""Of a new SQLite file: records have some 2 kB, and a page of 4 kB, the default, often has room for one only."""

_DRIVERS = {"sqlite": "sqlite", "postgres": "postgresql+psycopg", "postgresql": "postgresql+psycopg"}
"""Kinds of databases, and the driver of an address that names none."""

_FIXES = (
    (("not a database",), "move the file away, and the next run starts a new history"),
    (("malformed",), "sqlite3 FILE .recover | sqlite3 NEW saves what can be read; move the damaged file away"),
    (("full", "no space"), "make room on the disk"),
    (("locked", "acquired", "lock timeout"), "wait for the other process that uses it, and try again"),
    (
        ("permission denied for",),
        "a role that records needs SELECT and INSERT on all quant_ tables and USAGE on their sequences; "
        "the owner of the tables creates them, prunes and removes",
    ),
    (("psycopg",), 'pip install "pytest-quant[postgres]"'),
    (("connection", "server", "authentication", "resolve"), "see that the server runs and takes this user, try again"),
)

_OTHER_FIX = "make the place writable, or name another file with --quant-history=FILE"


@contextmanager
def open_transaction(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Open a transaction that writes, committed as a whole or not at all."""
    # SQLite waits for another writer at the beginning of a transaction only, not where reading turns into writing.
    with engine.connect().execution_options(**{_BEGIN: "BEGIN IMMEDIATE"}) as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text(f"SET LOCAL lock_timeout = '{BUSY_TIMEOUT_S}s'"))
        yield connection


def outside(engine: sa.Engine) -> sa.Connection:
    """Open a connection to SQLite without a transaction, which settings of the whole file require."""
    return engine.connect().execution_options(**{_BEGIN: ""})


def _set_up_sqlite(connection: sqlite3.Connection, _: object) -> None:
    # The driver would begin no transaction before a table is created or altered; `_begin_sqlite` always does.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")
    connection.execute("PRAGMA foreign_keys = ON")
    # What a schema of others calls has to be harmless.
    connection.execute("PRAGMA trusted_schema = OFF")


def _begin_sqlite(connection: sa.Connection) -> None:
    statement = connection.get_execution_options().get(_BEGIN, "BEGIN")
    if statement:
        connection.exec_driver_sql(statement)


def _create_tables(engine: sa.Engine, shown: str, file: Path | None) -> None:
    """Create the tables if they are missing; one process at a time, in one transaction.

    Parameters
    ----------
    engine : of the database.
    shown : place of the history for messages.
    file : of an SQLite database; ``None`` for a server.

    Raises
    ------
    HistoryError : the tables are of another version, or of another program; then nothing is changed.
    """
    with engine.connect() as connection:
        if _has_tables(connection, shown):
            return
    # The change of the journal of an SQLite file does not wait for other processes.
    with nullcontext() if file is None else FileLock(f"{file}.lock", timeout=BUSY_TIMEOUT_S):
        if file is not None:
            with outside(engine) as connection:
                # SQLite takes it for an empty file only.
                connection.exec_driver_sql(f"PRAGMA page_size = {PAGE_BYTES}")
                # Lets readers and writers work at once.
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        with open_transaction(engine) as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
            if not _has_tables(connection, shown):
                METADATA.create_all(connection)
                connection.execute(sa.insert(SCHEMA).values(version=VERSION))


def _has_tables(connection: sa.Connection, shown: str) -> bool:
    """Whether the tables are there. Raises `HistoryError` when they are of another version or program."""
    names, is_sqlite = sa.inspect(connection).get_table_names(), connection.dialect.name == "sqlite"
    made = list(connection.scalars(sa.text(_MADE_BY_OTHERS))) if is_sqlite else []
    is_foreign = bool(made) or (bool(names) and not any(name.startswith("quant_") for name in names))
    # A server's database may be shared with other programs.
    if is_sqlite and is_foreign:
        raise HistoryError(
            f"{shown} is a database of another program, or was changed by one",
            value=", ".join([*made, *(f"table {name}" for name in names)][:5]),
            allowed="a file that pytest-quant wrote, or a new file",
            fix="name another file with --quant-history=FILE; a trigger of your own may be dropped",
        )
    version = connection.execute(sa.select(sa.func.max(SCHEMA.c.version))).scalar() if SCHEMA.name in names else None
    if version not in (None, VERSION):
        age, fix = "a newer", "pip install --upgrade pytest-quant, or name another file with --quant-history=FILE"
        if version < VERSION:
            # The lines of an export are read by every later version.
            age, then = "an older", "then pytest-quant history import FILE --history NEW"
            fix = f"pytest-quant history export FILE with the version that wrote it, {then}"
        what = f"the history {shown} was written by {age} pytest-quant"
        raise HistoryError(what, value=f"version {version} of its tables", allowed=f"version {VERSION}", fix=fix)
    return version is not None


def open_engine(place: str | Path) -> tuple[sa.Engine, str]:
    """Open a database with the tables of a history, which are created if they are missing.

    Parameters
    ----------
    place : a file for SQLite, or a database URL.

    Returns
    -------
    The engine, and `place` for messages, without secrets.

    Raises
    ------
    HistoryError : it cannot be opened, or another version of this package wrote it; then nothing is changed.
    """
    url = _url(place)
    address = str(place)
    shown = redact_address(address) if "://" in address else address
    with storage_errors(shown, "opened"):
        file = _sqlite_file(url)
        if file is not None:
            prepare_folder(file.parent)
        if url.get_backend_name() == "postgresql" and "connect_timeout" not in url.query:
            # Without it an address that does not answer delays the tests by minutes.
            url = url.update_query_dict({"connect_timeout": "10"})
        # A statement prepared by name stays with a connection, which pgbouncer gives to others after each transaction.
        arguments = {"prepare_threshold": None} if url.get_driver_name() == "psycopg" else {}
        engine = sa.create_engine(url, poolclass=NullPool, connect_args=arguments)
        if url.get_backend_name() == "sqlite":
            sa.event.listen(engine, "connect", _set_up_sqlite)
            sa.event.listen(engine, "begin", _begin_sqlite)
        _create_tables(engine, shown, file)
    return engine, shown


@contextmanager
def storage_errors(shown: str, action: str) -> Iterator[None]:
    """Raise errors of the database and the file system as `HistoryError`.

    Parameters
    ----------
    shown : place of the history for the message.
    action : past participle for the message, ``opened``, ``read`` or ``written``.
    """
    try:
        yield
    except (SQLAlchemyError, ModuleNotFoundError, OSError) as error:
        cause = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        fixes = (fix for words, fix in _FIXES if any(word in cause.lower() for word in words))
        raise HistoryError(
            f"the history {shown} cannot be {action}", value=cause, fix=next(fixes, _OTHER_FIX)
        ) from error


def _url(place: str | Path) -> sa.URL:
    address = str(place)
    if "://" not in address:
        return sa.URL.create("sqlite", database=address)
    try:
        url = sa.make_url(address)
        kind = url.get_backend_name()
    except (ArgumentError, ValueError):
        kind = ""
    if kind not in _DRIVERS:
        raise HistoryError(
            "the history's address cannot be read",
            value=redact_address(address),
            allowed="a file, or a database URL: sqlite:////data/history.db, postgresql+psycopg://user@host/database",
        )
    if kind != "sqlite" and "@" in f"{url.host}{url.database}":
        # The rest of a password would be looked up as a host, and be repeated when there is none.
        raise HistoryError(
            "the history's address has more than one @",
            value=redact_address(address),
            allowed="one, between the password and the host",
            fix="write %40 for each @ in the name and the password",
        )
    return url if "+" in url.drivername else url.set(drivername=_DRIVERS[kind])


def _sqlite_file(url: sa.URL) -> Path | None:
    if url.get_backend_name() != "sqlite" or not url.database:
        return None
    file = Path(url.database.removeprefix("file:"))
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder, and must be a file")
    return file
