"""Tables are created once and whole; those of another version or another program are refused and stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from pytest_quant.errors import HistoryError
from pytest_quant.history import connect, open_store
from pytest_quant.history.schema import METADATA, VERSION
from tests.unit.record.examples import RUN, a_record


def test_creating_the_tables_is_one_transaction(history_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it breaks there are none; the next start creates all of them."""

    def broken(_table: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # The last step, after all tables.
        patch.setattr(connect, "insert", broken)
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

    def locked(file: Path | None) -> None:
        raise AssertionError(file)

    monkeypatch.setattr(connect, "_one_process", locked)
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
