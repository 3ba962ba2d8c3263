"""The history keeps every record of every run, once."""

from __future__ import annotations

import random
import string
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from pytest_quant.history import open_store
from pytest_quant.history.store import Store
from pytest_quant.record import Run
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


def test_a_database_url_is_a_place(tmp_path: Path) -> None:
    """Four slashes: an absolute path."""
    store = open_store(f"sqlite:///{tmp_path}/new/history.db")
    store.append(RUN, [a_record()])
    assert open_store(tmp_path / "new" / "history.db").records(RUN.id) == [a_record()]


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
