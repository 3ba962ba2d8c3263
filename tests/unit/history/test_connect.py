"""Where a history lies, how a message names it, how its tables come to be; one that cannot be used stays as it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from pytest_quant import history
from pytest_quant.errors import HistoryError
from pytest_quant.history import connect, open_store
from pytest_quant.history.connect import METADATA, SCHEMA, VERSION
from tests.unit.record.examples import RUN, a_record


@pytest.mark.parametrize("address", ["me:pa@s3cret@nowhere/x", "me:pa@s3cret/x@nowhere:5/x", "me:pa@s3cret/x@nowhere"])
def test_a_password_with_an_at_sign_goes_to_no_name_server(address: str) -> None:
    """SQLAlchemy takes the first @ for its end: the rest would be looked up as a host, and be repeated."""
    with pytest.raises(HistoryError) as caught:
        open_store(f"postgresql://{address}")
    assert "more than one @" in caught.value.what
    assert "%40" in (caught.value.fix or "")
    assert "s3cret" not in str(caught.value)


def test_a_driver_that_is_not_installed_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line to type, in place of an ImportError."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(HistoryError) as caught:
        open_store(f"postgresql://me@/x?host={tmp_path}")
    assert caught.value.fix == 'pip install "pytest-quant[postgres]"'


def test_nothing_is_opened_without_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is named with the line that brings it, and no file is made."""
    monkeypatch.setattr(history, "find_spec", lambda _: None)
    with pytest.raises(HistoryError, match="it needs sqlalchemy, which is not installed") as raised:
        history.open_store(tmp_path / "history.db")
    assert raised.value.fix == 'pip install "pytest-quant[history]"'
    assert list(tmp_path.iterdir()) == []


def test_creating_the_tables_is_one_transaction(history_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it breaks there are none; the next start creates all of them."""

    def broken(_table: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # The last step, after all tables.
        patch.setattr("sqlalchemy.insert", broken)
        with pytest.raises(KeyboardInterrupt):
            open_store(history_url)
    with create_engine(history_url).connect() as connection:
        assert inspect(connection).get_table_names() == []
    assert open_store(history_url).append(RUN, [a_record()])
    with create_engine(history_url).connect() as connection:
        assert set(inspect(connection).get_table_names()) == METADATA.tables.keys()


def test_a_current_history_is_opened_without_the_lock(history_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many runners that start at once do not wait for each other."""
    open_store(history_url)

    def writing(engine: object) -> None:
        raise AssertionError(engine)

    monkeypatch.setattr(connect, "open_transaction", writing)
    assert open_store(history_url).runs() == []


@pytest.mark.parametrize(
    ("version", "whose", "next_step"),
    [
        (VERSION + 1, "a newer pytest-quant", "pip install --upgrade pytest-quant"),
        (VERSION - 1, "an older pytest-quant", "pytest-quant history export FILE with the version that wrote it"),
    ],
    ids=["newer", "older"],
)
def test_a_history_of_another_version_is_refused_and_stays(
    history_url: str, version: int, whose: str, next_step: str
) -> None:
    """The message says both versions and what to do; the version, the runs and the tables are as before."""
    open_store(history_url).append(RUN, [a_record()])
    with create_engine(history_url).begin() as connection:
        connection.execute(text("UPDATE quant_schema SET version = :version"), {"version": version})
    with pytest.raises(HistoryError, match=f"was written by {whose}") as caught:
        open_store(history_url)
    assert (caught.value.value, caught.value.allowed) == (f"version {version} of its tables", f"version {VERSION}")
    assert next_step in (caught.value.fix or "")
    with create_engine(history_url).connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM quant_runs")).scalar() == 1
        assert connection.execute(text("SELECT version FROM quant_schema")).scalars().all() == [version]


def test_a_file_of_another_program_is_refused_and_stays(tmp_path: Path) -> None:
    """Its tables are named, and none of ours is added."""
    place = tmp_path / "bookmarks.db"
    with create_engine(f"sqlite:///{place}").begin() as connection:
        connection.execute(text("CREATE TABLE bookmarks (id INTEGER)"))
    before = place.read_bytes()
    with pytest.raises(HistoryError, match="another program") as caught:
        open_store(place)
    assert "bookmarks" in (caught.value.value or "")
    assert place.read_bytes() == before


def test_a_server_is_shared_with_other_programs(postgres_url: str) -> None:
    """Their tables stay, and ours are beside them."""
    with create_engine(postgres_url).begin() as connection:
        connection.execute(text("CREATE TABLE bookmarks (address VARCHAR(32))"))
        connection.execute(text("INSERT INTO bookmarks VALUES ('theirs')"))
    assert open_store(postgres_url).append(RUN, [a_record()])
    with create_engine(postgres_url).connect() as connection:
        assert connection.execute(text("SELECT address FROM bookmarks")).scalars().all() == ["theirs"]


def _is_refused(place: Path | str, *words: str) -> None:
    with pytest.raises(HistoryError) as caught:
        open_store(place).append(RUN, [a_record()])
    assert caught.value.fix
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"not a database, but longer than its header" * 9, b"SQLite format 3\0" + b"\xff" * 2000]
)
def test_a_corrupt_file_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    """It may be all that is left of a year's records."""
    place = tmp_path / "history.db"
    place.write_bytes(content)
    _is_refused(place, str(place), "not a database", "move the file away")
    assert place.read_bytes() == content


def test_what_is_in_the_way_of_the_file_is_told(tmp_path: Path) -> None:
    """A folder, a file in the place of the folder, and a pipe, which is not waited for."""
    (tmp_path / "folder").mkdir()
    _is_refused(tmp_path / "folder", "is a folder", "--quant-history")
    (tmp_path / ".quant").write_text("mine")
    _is_refused(tmp_path / ".quant" / "history.db", "--quant-history")
    assert (tmp_path / ".quant").read_text() == "mine"
    os.mkfifo(tmp_path / "pipe")
    _is_refused(tmp_path / "pipe", str(tmp_path / "pipe"))


@pytest.mark.parametrize("url", ["nothing://x", "sqlite+missing:///x.db", "://"])
def test_an_address_that_cannot_be_is_refused(url: str) -> None:
    """A driver that does not exist, or no address at all."""
    with pytest.raises(HistoryError):
        open_store(url)


def test_tables_that_were_left_half_done_are_finished(tmp_path: Path) -> None:
    """A process that was killed while it created them leaves no version."""
    place = tmp_path / "history.db"
    with create_engine(f"sqlite:///{place}").begin() as connection:
        SCHEMA.create(connection)
    assert open_store(place).append(RUN, [a_record()])


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT * FROM n"


@pytest.mark.parametrize(
    ("statements", "shown"),
    [
        (("DROP TABLE quant_runs", f"CREATE VIEW quant_runs AS {ENDLESS}"), "view quant_runs"),
        (("DROP TABLE quant_schema", f"CREATE VIEW Quant_Schema AS {ENDLESS}"), "view Quant_Schema"),
        (
            ("CREATE TRIGGER less AFTER INSERT ON quant_runs BEGIN DELETE FROM quant_runs WHERE id <> new.id; END",),
            "trigger less",
        ),
        (
            ("CREATE TRIGGER more AFTER INSERT ON quant_schema BEGIN INSERT INTO quant_schema VALUES (1); END",),
            "trigger more",
        ),
        (("DROP TABLE quant_checks", "create virtual table quant_checks using fts5(run)"), "table quant_checks"),
    ],
    ids=["endless view", "endless version", "deletes", "multiplies", "virtual"],
)
def test_what_runs_the_code_of_others_is_refused_before_it_is_read(
    tmp_path: Path, statements: tuple[str, ...], shown: str
) -> None:
    """A file from an artifact or a branch may be anybody's: it is named, and stays as it is."""
    place = tmp_path / "history.db"
    open_store(place).append(RUN, [a_record()])
    with create_engine(f"sqlite:///{place}").begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    _is_refused(place, "was changed by one", shown, "--quant-history=FILE")
    with create_engine(f"sqlite:///{place}").connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'")).scalar() in (0, 1)


def test_a_view_of_a_dashboard_beside_our_tables_stays_and_a_dropped_trigger_is_none(tmp_path: Path) -> None:
    """Only what we read or write could run it; the advice to drop a trigger of one's own works."""
    place = tmp_path / "history.db"
    open_store(place).append(RUN, [a_record()])
    with create_engine(f"sqlite:///{place}").begin() as connection:
        connection.execute(text("CREATE VIEW slowest AS SELECT id FROM quant_runs"))
        connection.execute(text("CREATE TRIGGER mine AFTER INSERT ON quant_runs BEGIN SELECT 1; END"))
    _is_refused(place, "trigger mine", "may be dropped")
    with create_engine(f"sqlite:///{place}").begin() as connection:
        connection.execute(text("DROP TRIGGER mine"))
    assert len(open_store(place).runs()) == 1
