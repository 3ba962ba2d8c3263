"""Where a history lies, and how a message names it."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import URL

from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store
from pytest_quant.history.connect import shown_place
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


def test_a_short_password_changes_no_other_word(tmp_path: Path) -> None:
    """It is hidden where it stands in the address, not wherever its letters are."""
    with pytest.raises(HistoryError) as caught:
        open_store(f"postgresql://me:e@/x?host={tmp_path}")
    message = str(caught.value)
    assert "postgresql://me:***@/x" in message
    assert message.count("***") == 1
    assert "connection" in message


def test_a_driver_that_is_not_installed_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line to type, in place of an ImportError."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(HistoryError) as caught:
        open_store(f"postgresql://me@/x?host={tmp_path}")
    assert caught.value.fix == 'pip install "pytest-quant[postgres]"'


def test_two_records_need_no_page_each(tmp_path: Path) -> None:
    """Records a little larger than half a page of 4 kB, the default of SQLite, would take twice their size."""
    place = tmp_path / "history.db"
    record = a_record()
    open_store(place).append(RUN, [record])
    noise = [replace(record, message=np.random.default_rng(number).bytes(700).hex()) for number in range(200)]
    before = place.stat().st_size
    open_store(place).append(replace(RUN, id="other"), noise)
    with closing(sqlite3.connect(place)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (stored,) = database.execute("SELECT sum(length(record)) FROM quant_records").fetchone()
    assert stored / 201 > 2048
    assert place.stat().st_size - before < 1.3 * stored
