"""Damage is named by run and place, and the rest is carried over."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Table, create_engine, delete, update

from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store, rows
from pytest_quant.history.connect import PAGE_BYTES
from pytest_quant.history.exchange.stream import read_runs
from pytest_quant.history.maintain import Damage, Verified, read_each, salvage, verify
from pytest_quant.history.schema import CHECKS, METADATA, RECORDS, RUNS
from tests.unit.record.examples import RUN, a_pass, a_record, unavailable

_OTHER = replace(RUN, id="other", started_at="2026-02-01T00:00:00+00:00")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two runs with five records, numbered 1 and 2."""
    place = tmp_path / "history.db"
    store = open_store(place)
    store.append(RUN, [a_record(), a_pass(), unavailable()])
    store.append(_OTHER, [a_pass(), a_record()])
    return place


def _spoil(place: Path, *statements: object) -> None:
    with create_engine(f"sqlite:///{place}").begin() as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[call-overload]


def _record(run: int, position: int) -> object:
    return (RECORDS.c.run == run) & (RECORDS.c.position == position)


def test_a_whole_history_is_counted(place: Path) -> None:
    """Its runs and their records."""
    assert verify(read_each(place)) == Verified(2, 5, ())


def test_a_damaged_record_is_named(place: Path) -> None:
    """By the id of its run and its place; all others are counted."""
    _spoil(place, update(RECORDS).where(_record(1, 1)).values(record=b"spoiled"))  # type: ignore[arg-type]
    found = verify(read_each(place))
    assert (found.runs, found.records) == (2, 4)
    assert [(damage.run_id, damage.position) for damage in found.damages] == [(RUN.id, 1)]
    assert "damaged" in found.damages[0].reason


def test_missing_records_are_damage(place: Path) -> None:
    """Details without which a summary is left, and a place that holds nothing at all."""
    _spoil(
        place,
        delete(RECORDS).where(_record(1, 2)),  # type: ignore[arg-type]
        delete(RECORDS).where(_record(2, 0)),  # type: ignore[arg-type]
        delete(CHECKS).where((CHECKS.c.run == 2) & (CHECKS.c.position == 0)),
    )
    assert verify(read_each(place)) == Verified(
        2, 3, (Damage(RUN.id, 2, "its details are missing"), Damage("other", 0, "it is missing"))
    )


def test_a_damaged_run_is_named(place: Path) -> None:
    """It counts as none."""
    _spoil(place, update(RUNS).where(RUNS.c.number == 2).values(run="{"))
    found = verify(read_each(place))
    assert found.runs == 1
    assert [(damage.run_id, damage.position) for damage in found.damages] == [("other", None)]


def test_the_rest_is_carried_over(place: Path, tmp_path: Path) -> None:
    """Into a file that goes into a new history; what is damaged is left out and told."""
    _spoil(
        place,
        update(RECORDS).where(_record(1, 1)).values(record=b"spoiled"),  # type: ignore[arg-type]
        update(RUNS).where(RUNS.c.number == 2).values(run="{"),
    )
    file = tmp_path / "rest.jsonl"
    assert salvage(read_each(place), file) == verify(read_each(place))
    assert list(read_runs(file)) == [(RUN, (a_record(), unavailable()))]


def test_a_file_that_is_there_is_not_overwritten(place: Path, tmp_path: Path) -> None:
    """It may be the last salvage."""
    file = tmp_path / "rest.jsonl"
    file.write_text("mine")
    with pytest.raises(HistoryError, match="cannot be written"):
        salvage(read_each(place), file)
    assert file.read_text() == "mine"


def test_spoiled_pages_do_not_stop_it(tmp_path: Path) -> None:
    """Every page of the second half of the file is overwritten: what is left is read, what is not is damage."""
    place = tmp_path / "history.db"
    store = open_store(place)
    store.append_many((replace(RUN, id=f"run-{number:03}"), [a_record(), a_pass()]) for number in range(400))
    with create_engine(f"sqlite:///{place}").connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(place.read_bytes())
    half = len(content) // (2 * PAGE_BYTES) * PAGE_BYTES
    content[half:] = b"\xaa" * (len(content) - half)
    place.write_bytes(content)
    found = verify(read_each(place))
    assert found.damages
    assert 0 < found.records < 800


@pytest.mark.parametrize("table", METADATA.tables.values(), ids=METADATA.tables)
def test_a_missing_table_is_damage(place: Path, table: Table) -> None:
    """Whichever it is, a history without it is not whole; nothing else is raised."""
    with create_engine(f"sqlite:///{place}").connect() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
        connection.exec_driver_sql(f"DROP TABLE {table.name}")
        connection.commit()
    found = verify(read_each(place))
    assert found.damages[0] == Damage(None, None, f"the table {table.name} is missing")


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "content", [DEEP, b'{"series": 1}', b"\xff", b'{"n": ' + b"9" * 5000 + b"}"], ids=["deep", "keys", "text", "digits"]
)
def test_a_record_of_any_content_is_damage(place: Path, content: bytes) -> None:
    """Named by run and place where it is verified and where it is read, and all others are counted."""
    _spoil(place, update(RECORDS).where(_record(1, 1)).values(record=zlib.compress(content)))  # type: ignore[arg-type]
    found = verify(read_each(place))
    assert [(damage.run_id, damage.position) for damage in found.damages] == [(RUN.id, 1)]
    assert found.records == 4
    for reading in (open_store(place).checks, lambda: open_store(place).records(RUN.id)):
        with pytest.raises(HistoryError, match=f"record 1 of run {RUN.id}"):
            reading()


def test_a_record_that_inflates_without_end_is_damage(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it fills the memory: zlib packs a thousandfold."""
    monkeypatch.setattr(rows, "MOST_RECORD_BYTES", 50_000)
    bomb = zlib.compress(b'{"x": "' + b" " * 100_000 + b'"}')
    _spoil(place, update(RECORDS).where(_record(1, 1)).values(record=bomb))  # type: ignore[arg-type]
    (damage,) = verify(read_each(place)).damages
    assert "inflates to more than 50000 bytes" in damage.reason


@pytest.mark.parametrize("text", [DEEP.decode(), "{}", '{"id": 1}'], ids=["deep", "keys", "types"])
def test_a_run_of_any_content_is_damage(place: Path, text: str) -> None:
    """Named by its id, also where its runs are listed."""
    _spoil(place, update(RUNS).where(RUNS.c.number == 2).values(run=text))
    found = verify(read_each(place))
    assert [(damage.run_id, damage.position) for damage in found.damages] == [("other", None)]
    with pytest.raises(HistoryError, match="run other"):
        open_store(place).runs()
