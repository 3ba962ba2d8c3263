"""Transactions that read, and transactions that write, alike on both databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, event, text

BUSY_TIMEOUT_S = 60
"""How long one process waits for another that writes."""

_BEGIN = "pytest_quant_begin"
"""Option of a connection: how its transactions begin in SQLite; empty for none."""


def set_up(engine: Engine) -> None:
    """Let transactions begin as `reading` and `writing` say; called once, before the first connection."""
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that only reads."""
    with engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that writes: all of it is kept, or nothing."""
    # SQLite waits for another writer at the beginning of a transaction only, not where reading turns into writing.
    with engine.connect().execution_options(**{_BEGIN: "BEGIN IMMEDIATE"}) as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SET LOCAL lock_timeout = '{BUSY_TIMEOUT_S}s'"))
        yield connection


@contextmanager
def outside(engine: Engine) -> Iterator[Connection]:
    """Open a connection to SQLite without a transaction, as its settings of the whole file need."""
    with engine.connect().execution_options(**{_BEGIN: ""}) as connection:
        yield connection


def _set_up_sqlite(connection: sqlite3.Connection, _: object) -> None:
    # The driver would begin no transaction before a table is created or altered; `_begin_sqlite` always does.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    statement = connection.get_execution_options().get(_BEGIN, "BEGIN")
    if statement:
        connection.exec_driver_sql(statement)
