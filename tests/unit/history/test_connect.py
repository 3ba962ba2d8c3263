"""Where a history lies, how a message names it, how its tables come to be; one that cannot be used stays as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import URL, create_engine, inspect, text

from pytest_quant import history
from pytest_quant.errors import HistoryError
from pytest_quant.history import connect, open_store
from pytest_quant.history.connect import shown_place
from pytest_quant.history.schema import METADATA, SCHEMA, VERSION
from tests.unit.record.examples import RUN, a_record


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("a/history.db", "a/history.db"),
        ("sqlite:////a/history.db", "/a/history.db"),
        ("a@b:c@d.db", "a@b:c@d.db"),
        ("sqlite:////a@b/history.db?password=s3cret", "/a@b/history.db"),
        ("sqlite://me:s3cret@host:port/x.db", "sqlite://***@host:port/x.db"),
        ("postgresql+psycopg://me:s3cret@host:1/x", "postgresql+psycopg://me:***@host:1/x"),
        ("postgresql://me@host/x", "postgresql://me@host/x"),
        ("postgresql://host/x?password=s3cret&sslmode=require", "postgresql://host/x?password=***&sslmode=require"),
        ("postgresql://me:s3cret@host:port/x", "postgresql://me:***@host:port/x"),
        ("mysql://me:s3cret@host/x?password=s3cret", "mysql://***@host/x?password=***"),
    ],
)
def test_a_place_is_shown_without_its_password(place: str, shown: str) -> None:
    """A file as it is, a server as it was given, an address that cannot be read without what may be one."""
    assert shown_place(place) == shown


@settings(max_examples=50)
@given(st.text(alphabet="@:/?#%&=+ab€", min_size=3).map(lambda text: f"<{text}>"))
def test_no_password_is_shown(password: str) -> None:
    """Whatever characters it has, and however the URL spells them."""
    url = URL.create("postgresql", username="me", password=password, host="host", database="x")
    text = url.render_as_string(hide_password=False)
    assert shown_place(text) == "postgresql://me:***@host/x"


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


def test_the_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is said where it is there."""
    assert history.missing_libraries() == ""
    monkeypatch.setattr(history, "find_spec", lambda name: None if name == "sqlalchemy" else find_spec(name))
    assert history.missing_libraries() == "it needs sqlalchemy, which is not installed"


def test_nothing_is_opened_without_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The line that brings it is the next step, and no file is made."""
    monkeypatch.setattr(history, "find_spec", lambda _: None)
    with pytest.raises(HistoryError) as raised:
        history.open_store(tmp_path / "history.db")
    assert raised.value.fix == 'pip install "pytest-quant[history]"'
    assert list(tmp_path.iterdir()) == []


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

    def writing(engine: object) -> None:
        raise AssertionError(engine)

    monkeypatch.setattr(connect, "writing", writing)
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


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    """The message says that it is one."""
    place = tmp_path / "history.db"
    place.mkdir()
    _is_refused(place, str(place), "is a folder", "--quant-history")


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    """Nothing can be created below it."""
    (tmp_path / ".quant").write_text("mine")
    _is_refused(tmp_path / ".quant" / "history.db", "--quant-history")
    assert (tmp_path / ".quant").read_text() == "mine"


def test_a_named_pipe_in_the_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody may ever write to it."""
    os.mkfifo(tmp_path / "history.db")
    _is_refused(tmp_path / "history.db", str(tmp_path / "history.db"))


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


_LIMITED = """
import resource, signal, sys
from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store
from tests.unit.record.examples import RUN, a_record
from dataclasses import replace
store = open_store(sys.argv[1])
store.append(RUN, [a_record()])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    store.append(replace(RUN, id="too large"), [a_record()] * 200)
except HistoryError as error:
    print("refused:", error.what)
print(len(store.runs()))
"""


def test_a_disk_that_fills_up_loses_nothing(tmp_path: Path) -> None:
    """A run that does not fit is refused whole; what was there is there."""
    command = [sys.executable, "-c", _LIMITED, str(tmp_path / "history.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    refused, stored = done.stdout.splitlines()
    assert "cannot be written" in refused
    assert stored == "1"
