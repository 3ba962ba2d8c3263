"""Tables of an older version are brought up to date once, with all that they hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

from pytest_quant.errors import HistoryError
from pytest_quant.history import connect, open_store
from pytest_quant.history.schema import METADATA
from pytest_quant.history.store import Store
from pytest_quant.record import Record, Run
from tests.support.old_history import write_version_1
from tests.unit.record.examples import RUN, a_pass, a_record, unavailable

_OTHER = replace(RUN, id="other", started_at="2026-03-04T00:00:00+00:00", dirty=True, branch=None)
_OLD = [(RUN, [a_record(), unavailable()]), (_OTHER, [a_pass()])]


def test_every_run_and_record_moves(history_url: str) -> None:
    """A history of version 1 gives what it held, and takes more."""
    write_version_1(history_url, _OLD)
    store = open_store(history_url)
    assert [(run, list(records)) for run, records in store.each_run()] == _OLD
    assert store.append(RUN, []) is False
    assert store.append(replace(RUN, id="new"), [a_pass()]) is True


def test_what_moved_is_found_like_what_is_new(history_url: str, tmp_path: Path) -> None:
    """Runs, series, points and launches are those of the same runs in a new history."""
    write_version_1(history_url, _OLD)
    old, new = open_store(history_url), open_store(tmp_path / "new.db")
    new.append_many(_OLD)
    series = a_record().series
    assert old.runs() == new.runs()
    assert old.series() == new.series()
    assert old.points(series) == new.points(series)
    assert len(old.points(series)) == 2
    assert old.launches(RUN.commit or "") == new.launches(RUN.commit or "")


def _intervals(store: Store) -> list[tuple[float | None, ...]]:
    """Return the intervals of every point of one series, oldest first."""
    points = store.points(a_record().series)
    return [
        (one.speedup_low, one.speedup_high, one.p50_low_ms, one.p50_high_ms, one.drop_low, one.drop_high)
        for one in points
    ]


def _to_version_4(url: str) -> None:
    """Take back what version 5 of the tables added."""
    with create_engine(url).begin() as connection:
        for name in ("speedup_low", "speedup_high", "p50_low_ms", "p50_high_ms", "drop_low", "drop_high"):
            connection.execute(text(f"ALTER TABLE quant_checks DROP COLUMN {name}"))
        connection.execute(text("UPDATE quant_schema SET version = 4"))
        connection.execute(text("UPDATE quant_alembic SET version_num = '0004'"))


def _launches(days: int, *records: Record) -> list[tuple[Run, list[Record]]]:
    """Return a run with `records` on each of the first days of May."""
    return [(replace(RUN, id=f"{day:02}", started_at=f"2026-05-{day:02}"), list(records)) for day in range(1, days + 1)]


def test_the_intervals_of_older_checks_are_read_out_of_their_records(history_url: str) -> None:
    """They are those of the same runs in a new history, beside checks without any; a damaged record has none."""
    store = open_store(history_url)
    store.append_many(_launches(25, unavailable(), a_record()))
    before, nothing = _intervals(store), (None,) * 6
    assert nothing not in before
    _to_version_4(history_url)
    with create_engine(history_url).begin() as connection:
        newest = text("UPDATE quant_records SET record = :kept WHERE run = (SELECT max(run) FROM quant_records)")
        connection.execute(newest, {"kept": b"{}"})
    assert _intervals(open_store(history_url)) == [*before[:-1], nothing]


def test_of_very_many_checks_the_newest_have_intervals(history_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten runs at a time, so that opening the history of years takes seconds."""
    monkeypatch.setattr("pytest_quant.history.schema.OLDER_WITH_INTERVALS", 15)
    open_store(history_url).append_many(_launches(30, a_record()))
    _to_version_4(history_url)
    after = _intervals(open_store(history_url))
    assert [one == (None,) * 6 for one in after] == [True] * 10 + [False] * 20


def test_a_damaged_record_moves_as_it_is(history_url: str) -> None:
    """It is named when it is read, and the others are whole."""
    write_version_1(history_url, _OLD)
    with create_engine(history_url).begin() as connection:
        connection.execute(text("UPDATE quant_checks SET record = '{' WHERE position = 0 AND run_id = 'other'"))
        connection.execute(text("UPDATE quant_runs SET started_at = 'long ago', run = '{' WHERE id = 'other'"))
    store = open_store(history_url)
    assert store.records(RUN.id) == [a_record(), unavailable()]
    with pytest.raises(HistoryError, match="damaged"):
        store.records("other")


def test_new_and_moved_tables_are_what_the_code_expects(history_url: str) -> None:
    """Alembic finds no difference between the database and the tables of the code."""
    write_version_1(history_url, _OLD)
    open_store(history_url)
    with create_engine(history_url).connect() as connection:
        names = set(inspect(connection).get_table_names())
        differences = compare_metadata(MigrationContext.configure(connection), METADATA)
    assert names == METADATA.tables.keys() | {"quant_alembic"}
    assert [what for what in differences if what[0] != "remove_table"] == []


def test_a_migration_that_breaks_leaves_the_tables_as_they_were(
    history_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables and data change in one transaction; the next start does it all."""
    write_version_1(history_url, _OLD)

    def broken(name: str) -> None:
        raise KeyboardInterrupt(name)

    with monkeypatch.context() as patch:
        # The last step of the migration.
        patch.setattr("alembic.op.drop_table", broken)
        with pytest.raises(KeyboardInterrupt):
            open_store(history_url)
    with create_engine(history_url).connect() as connection:
        assert "quant_series" not in inspect(connection).get_table_names()
        assert connection.execute(text("SELECT count(run_id) FROM quant_checks")).scalar() == 3
    assert [(run, list(records)) for run, records in open_store(history_url).each_run()] == _OLD


def test_a_current_history_is_opened_without_the_lock(history_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many runners that start at once do not wait for each other."""
    open_store(history_url)

    def locked(file: Path | None) -> None:
        raise AssertionError(file)

    monkeypatch.setattr(connect, "_one_process", locked)
    assert open_store(history_url).runs() == []


def test_a_newer_history_is_refused_and_stays(history_url: str) -> None:
    """Nothing is written: its version, its runs and its tables are as before."""
    open_store(history_url).append(RUN, [a_record()])
    with create_engine(history_url).begin() as connection:
        connection.execute(text("UPDATE quant_schema SET version = 99"))
    with pytest.raises(HistoryError, match="newer pytest-quant") as caught:
        open_store(history_url)
    assert "version 99" in str(caught.value)
    with create_engine(history_url).connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM quant_runs")).scalar() == 1
        assert connection.execute(text("SELECT version FROM quant_schema")).scalar() == 99


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
    """Their tables stay, Alembic's own among them, and ours are beside them."""
    with create_engine(postgres_url).begin() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('theirs')"))
    assert open_store(postgres_url).append(RUN, [a_record()])
    with create_engine(postgres_url).connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == ["theirs"]
