"""The history keeps every record of every run, once, and damage costs no more than what is damaged."""

from __future__ import annotations

import random
import string
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Executable, create_engine, delete, update

from pytest_quant.errors import HistoryError, UsageError
from pytest_quant.history import open_store
from pytest_quant.history.connect import RECORDS, RUNS
from pytest_quant.history.rows import StoredCheck
from pytest_quant.history.store import Store
from pytest_quant.record import Record, Run
from pytest_quant.result import Status
from tests.unit.record.examples import RUN, a_pass, a_record, unavailable

_LATER = replace(RUN, id="20260203T000000Z-bb", started_at="2026-02-03T00:00:00+00:00", commit=None, branch=None)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A file in a folder that does not exist yet."""
    return tmp_path / ".quant" / "history.db"


@pytest.fixture
def store(place: Path) -> Store:
    """A history with two runs, the later one added first."""
    store = open_store(place)
    store.append(_LATER, [a_pass(), unavailable()])
    store.append(RUN, [a_record()])
    return store


def test_records_come_back_as_they_went_in(store: Store) -> None:
    """Every figure of every section, in the order of the run."""
    assert [stored.record for stored in store.checks()] == [a_pass(), unavailable(), a_record()]
    assert [stored.run for stored in store.checks(limit=1)] == [_LATER]
    assert store.records(RUN.id) == [a_record()]


def test_the_folder_ignores_itself_for_git(store: Store, place: Path) -> None:
    """As pytest's own cache does."""
    assert "*" in (place.parent / ".gitignore").read_text().splitlines()


def test_a_folder_of_the_user_is_left_alone(tmp_path: Path) -> None:
    """Whoever names a place of his own may want it under version control."""
    open_store(tmp_path / "records" / "mine.db")
    assert not (tmp_path / "records" / ".gitignore").exists()


def test_readers_do_not_wait_for_writers(place: Path, store: Store) -> None:
    """The journal is a write-ahead log: a transaction that stays open blocks no reader."""
    engine = create_engine(f"sqlite:///{place}")
    with engine.connect() as writer:
        assert writer.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        writer.exec_driver_sql("BEGIN IMMEDIATE")
        assert len(store.runs()) == 2


def _noise(length: int) -> str:
    """Return text that no compression shortens, as the index of a server would."""
    return "".join(random.Random(length).choices(string.ascii_letters + string.digits, k=length))  # noqa: S311


@pytest.mark.parametrize(
    "run",
    [
        replace(RUN, branch=_noise(9000)),
        replace(RUN, commit=_noise(9000)),
        replace(RUN, id=_noise(9000)),
        replace(RUN, branch="\N{SMILING FACE WITH SUNGLASSES}" * 600),
    ],
    ids=["branch", "commit", "id", "letters of four bytes"],
)
def test_names_of_any_length_are_kept_and_found(history_url: str, run: Run) -> None:
    """PostgreSQL's indexes hold some 2700 bytes of a text; a name in a file of someone else may be longer."""
    store = open_store(history_url)
    near = replace(run, id="20260301T000000Z-cc", branch=f"{run.branch}x", commit=f"{run.commit}x")
    store.append(run, [a_record()])
    store.append(near, [a_record()])
    assert run.branch is not None
    assert run.commit is not None
    assert [stored.run for stored in store.runs(branch=run.branch)] == [run]
    assert store.commits([run.commit]) == {run.commit}
    assert [check.run for check in store.launches(run.commit)] == [run]
    assert store.run(run.id).run == run
    assert len(store.records(run.id)) == 1


_SECOND = replace(RUN, id="other", started_at="2026-02-01T00:00:00+00:00")


@pytest.fixture
def two_runs(history_url: str) -> str:
    """Two runs with five records, numbered 1 and 2."""
    store = open_store(history_url)
    store.append(RUN, [a_record(), a_pass(), unavailable()])
    store.append(_SECOND, [a_pass(), a_record()])
    return history_url


def test_the_newest_pass_of_a_series_is_found(two_runs: str) -> None:
    """Whatever came after it, of whatever commit; a series that never passed has none."""
    store = open_store(two_runs)
    store.append(replace(RUN, id="newest", started_at="2026-03-01T00:00:00+00:00"), [a_record()])
    assert store.last_pass(a_pass().series) == StoredCheck(_SECOND, a_pass())
    assert store.last_pass(unavailable().series) is None


def test_a_series_that_never_passed_has_the_newest_check_that_let_its_test_pass(history_url: str) -> None:
    """One against a baseline is NO_BASELINE until a record is accepted; once there is a PASS, that is it."""
    store = open_store(history_url)
    series = a_record().series
    statuses = (Status.NO_BASELINE, Status.INCONCLUSIVE, Status.FAIL, Status.ERROR)
    for month, status in enumerate(statuses, 1):
        store.append(replace(RUN, id=f"run{month}", started_at=f"2026-0{month}-01T00:00:00"), [a_record(status=status)])
    found = store.last_pass(series)
    assert found is not None
    assert (found.run.id, found.record.status) == ("run2", Status.INCONCLUSIVE)
    store.append(replace(RUN, id="earlier", started_at="2025-01-01T00:00:00+00:00"), [a_record(status=Status.PASS)])
    found = store.last_pass(series)
    assert found is not None
    assert found.run.id == "earlier"


def _spoil(url: str, *statements: Executable) -> None:
    with create_engine(url).begin() as connection:
        for statement in statements:
            connection.execute(statement)


def _spoil_record(url: str, content: bytes) -> None:
    """Replace the second record of the first run."""
    of_record = (RECORDS.c.run == 1) & (RECORDS.c.position == 1)
    _spoil(url, update(RECORDS).where(of_record).values(record=content))


def _read(two_runs: str) -> tuple[list[tuple[Run, tuple[Record, ...]]], list[str]]:
    """Return what can be read, and the sentences about the rest."""
    unreadable: list[str] = []
    return list(open_store(two_runs).each_run(unreadable=unreadable)), unreadable


def test_a_whole_history_is_read_whole(two_runs: str) -> None:
    """Every run with its records, and no sentence; or the one run that is wanted."""
    whole = [(RUN, (a_record(), a_pass(), unavailable())), (_SECOND, (a_pass(), a_record()))]
    assert _read(two_runs) == (whole, [])
    assert list(open_store(two_runs).each_run("other")) == whole[1:]
    assert list(open_store(two_runs).each_run("none")) == []


def test_a_damaged_record_is_named_and_left_out(two_runs: str) -> None:
    """By the id of its run and its place; without a list it is an error."""
    _spoil_record(two_runs, b"spoiled")
    runs, (sentence,) = _read(two_runs)
    assert runs == [(RUN, (a_record(), unavailable())), (_SECOND, (a_pass(), a_record()))]
    assert sentence.startswith(f"record 1 of run {RUN.id} of the history is damaged: ")
    with pytest.raises(HistoryError, match=f"record 1 of run {RUN.id}") as caught:
        list(open_store(two_runs).each_run())
    assert "pytest-quant history export FILE leaves it out" in (caught.value.fix or "")
    assert "pytest-quant history prune --run RUN removes its run" in (caught.value.fix or "")


def test_a_check_without_its_record_is_named(two_runs: str) -> None:
    """Its summary alone is no record."""
    _spoil(two_runs, delete(RECORDS).where((RECORDS.c.run == 1) & (RECORDS.c.position == 2)))
    runs, sentences = _read(two_runs)
    assert runs[0] == (RUN, (a_record(), a_pass()))
    assert sentences == [f"record 2 of run {RUN.id} of the history is damaged: its details are missing"]


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "content", [DEEP, b'{"series": 1}', b"\xff", b'{"n": ' + b"9" * 5000 + b"}"], ids=["deep", "keys", "text", "digits"]
)
def test_a_record_of_any_content_is_damage(two_runs: str, content: bytes) -> None:
    """Named by run and place wherever it is read, and all others are read."""
    _spoil_record(two_runs, zlib.compress(content))
    runs, (sentence,) = _read(two_runs)
    assert f"record 1 of run {RUN.id}" in sentence
    assert [len(records) for _, records in runs] == [2, 2]
    for reading in (open_store(two_runs).checks, lambda: open_store(two_runs).records(RUN.id)):
        with pytest.raises(HistoryError, match=f"record 1 of run {RUN.id}"):
            reading()


@pytest.mark.parametrize("text", [DEEP.decode(), "{}", '{"id": 1}'], ids=["deep", "keys", "types"])
def test_a_run_of_any_content_is_damage(two_runs: str, text: str) -> None:
    """Named by its id, also where runs are listed."""
    _spoil(two_runs, update(RUNS).where(RUNS.c.number == 2).values(run=text))
    runs, (sentence,) = _read(two_runs)
    assert [run.id for run, _ in runs] == [RUN.id]
    assert "run other" in sentence
    with pytest.raises(HistoryError, match="run other"):
        open_store(two_runs).runs()


def test_more_of_an_id_names_one_run(two_runs: str) -> None:
    """As the message about a beginning of several says, which lists them."""
    store = open_store(two_runs)
    store.append(replace(RUN, id=f"{RUN.id}2"), [a_pass()])
    with pytest.raises(UsageError, match="2 runs begin with") as caught:
        store.run(RUN.id[:-1])
    assert caught.value.fix == "write more of the id"
    longest = max((caught.value.allowed or "").split(", "), key=len)
    assert store.run(longest).run.id == f"{RUN.id}2"
