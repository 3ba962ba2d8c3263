"""Damage is named by run and place and left out, and all else is read."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Executable, Table, create_engine, delete, update

from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store, rows
from pytest_quant.history.connect import PAGE_BYTES
from pytest_quant.history.schema import CHECKS, RECORDS, RUNS
from pytest_quant.record import Record, Run
from tests.unit.record.examples import RUN, a_pass, a_record, unavailable

_OTHER = replace(RUN, id="other", started_at="2026-02-01T00:00:00+00:00")


@pytest.fixture
def place(history_url: str) -> str:
    """Two runs with five records, numbered 1 and 2."""
    store = open_store(history_url)
    store.append(RUN, [a_record(), a_pass(), unavailable()])
    store.append(_OTHER, [a_pass(), a_record()])
    return history_url


def _spoil(url: str, *statements: Executable) -> None:
    with create_engine(url).begin() as connection:
        for statement in statements:
            connection.execute(statement)


def _spoil_record(url: str, content: bytes) -> None:
    """Replace the second record of the first run."""
    of_record = (RECORDS.c.run == 1) & (RECORDS.c.position == 1)
    _spoil(url, update(RECORDS).where(of_record).values(record=content))


def _read(place: str) -> tuple[list[tuple[Run, tuple[Record, ...]]], list[str]]:
    """Return what can be read, and the sentences about the rest."""
    unreadable: list[str] = []
    return list(open_store(place).each_run(unreadable=unreadable)), unreadable


def test_a_whole_history_is_read_whole(place: str) -> None:
    """Every run with its records, and no sentence; or the one run that is wanted."""
    whole = [(RUN, (a_record(), a_pass(), unavailable())), (_OTHER, (a_pass(), a_record()))]
    assert _read(place) == (whole, [])
    assert list(open_store(place).each_run("other")) == whole[1:]
    assert list(open_store(place).each_run("none")) == []


def test_a_damaged_record_is_named_and_left_out(place: str) -> None:
    """By the id of its run and its place; without a list it is an error."""
    _spoil_record(place, b"spoiled")
    runs, (sentence,) = _read(place)
    assert runs == [(RUN, (a_record(), unavailable())), (_OTHER, (a_pass(), a_record()))]
    assert sentence.startswith(f"record 1 of run {RUN.id} of the history is damaged: ")
    with pytest.raises(HistoryError, match=f"record 1 of run {RUN.id}") as caught:
        list(open_store(place).each_run())
    assert "pytest-quant history export FILE leaves it out" in (caught.value.fix or "")


def test_a_check_without_its_record_is_named(place: str) -> None:
    """Its summary alone is no record."""
    _spoil(place, delete(RECORDS).where((RECORDS.c.run == 1) & (RECORDS.c.position == 2)))
    runs, sentences = _read(place)
    assert runs[0] == (RUN, (a_record(), a_pass()))
    assert sentences == [f"record 2 of run {RUN.id} of the history is damaged: its details are missing"]


def test_a_damaged_run_is_named_and_left_out(place: str) -> None:
    """With its records, which belong to no run then."""
    _spoil(place, update(RUNS).where(RUNS.c.number == 2).values(run="{"))
    runs, (sentence,) = _read(place)
    assert [run.id for run, _ in runs] == [RUN.id]
    assert sentence.startswith("run other of the history is damaged: ")


def test_spoiled_pages_cost_the_runs_on_them(tmp_path: Path) -> None:
    """Every page of the second half of the file is overwritten: what is left is read whole, what is not is named."""
    place = tmp_path / "history.db"
    store = open_store(place)
    store.append_many((replace(RUN, id=f"run-{number:03}"), [a_record(), a_pass()]) for number in range(400))
    with create_engine(f"sqlite:///{place}").connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(place.read_bytes())
    half = len(content) // (2 * PAGE_BYTES) * PAGE_BYTES
    content[half:] = b"\xaa" * (len(content) - half)
    place.write_bytes(content)
    runs, sentences = _read(str(place))
    assert 0 < len(runs) < 400
    assert len(sentences) >= 400 - len(runs)
    whole = [records for _, records in runs if len(records) == 2]
    assert whole
    assert all(records == (a_record(), a_pass()) for records in whole)
    assert place.read_bytes() == bytes(content)


@pytest.mark.parametrize("table", [RUNS, CHECKS, RECORDS], ids=str)
def test_a_missing_table_is_named(tmp_path: Path, table: Table) -> None:
    """With every run that cannot be read without it; nothing else is raised."""
    place = tmp_path / "history.db"
    open_store(place).append_many([(RUN, [a_record()]), (_OTHER, [a_pass()])])
    with create_engine(f"sqlite:///{place}").connect() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
        connection.exec_driver_sql(f"DROP TABLE {table.name}")
        connection.commit()
    runs, sentences = _read(str(place))
    assert runs == []
    assert len(sentences) == 2
    assert all(f"no such table: {table.name}" in sentence for sentence in sentences)


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "content", [DEEP, b'{"series": 1}', b"\xff", b'{"n": ' + b"9" * 5000 + b"}"], ids=["deep", "keys", "text", "digits"]
)
def test_a_record_of_any_content_is_damage(place: str, content: bytes) -> None:
    """Named by run and place wherever it is read, and all others are read."""
    _spoil_record(place, zlib.compress(content))
    runs, (sentence,) = _read(place)
    assert f"record 1 of run {RUN.id}" in sentence
    assert [len(records) for _, records in runs] == [2, 2]
    for reading in (open_store(place).checks, lambda: open_store(place).records(RUN.id)):
        with pytest.raises(HistoryError, match=f"record 1 of run {RUN.id}"):
            reading()


def test_a_record_that_inflates_without_end_is_damage(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it fills the memory: zlib packs a thousandfold."""
    monkeypatch.setattr(rows, "MOST_RECORD_BYTES", 50_000)
    _spoil_record(place, zlib.compress(b'{"x": "' + b" " * 100_000 + b'"}'))
    _, (sentence,) = _read(place)
    assert "inflates to more than 50000 bytes" in sentence


@pytest.mark.parametrize("text", [DEEP.decode(), "{}", '{"id": 1}'], ids=["deep", "keys", "types"])
def test_a_run_of_any_content_is_damage(place: str, text: str) -> None:
    """Named by its id, also where runs are listed."""
    _spoil(place, update(RUNS).where(RUNS.c.number == 2).values(run=text))
    runs, (sentence,) = _read(place)
    assert [run.id for run, _ in runs] == [RUN.id]
    assert "run other" in sentence
    with pytest.raises(HistoryError, match="run other"):
        open_store(place).runs()
