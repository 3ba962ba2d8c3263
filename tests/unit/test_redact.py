"""Passwords and tokens leave an address, and nothing else does, whatever text it stands in."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.redact import redact, redact_address

ADDRESSES = [
    ("postgresql://me:s3cret@host:5/x", "postgresql://me:***@host:5/x"),
    ("postgresql://me@server:s3cret@host/x", "postgresql://me@server:***@host/x"),
    ("postgresql+psycopg://me:a@s3cret@host/x", "postgresql+psycopg://me:***@host/x"),
    ("postgresql://me:s3/cr?et#x@host/x", "postgresql://me:***@host/x"),
    ("postgresql://host/x?password=s3cret@a", "postgresql://***@a"),
    ("postgresql://me@host/x?sslpassword=s3cret&sslmode=require", "postgresql://me@host/x?sslpassword=***&sslmode=require"),
    ("postgresql://me@host/x?%70assword=s3cret", "postgresql://me@host/x?%70assword=***"),
    ("https://s3cret@host/x.git", "https://***@host/x.git"),
    ("https://me:s3cret@host/x.git", "https://***@host/x.git"),
    ("https://host/x.git?private_token=s3cret&ref=main#access_token=s3cret", "https://host/x.git?private_token=***&ref=main#access_token=***"),
    ("ssh://git@host/x.git", "ssh://git@host/x.git"),
    ("git+ssh://me:s3cret@host/x.git", "git+ssh://me:***@host/x.git"),
    ("mysql://me:s3cret@host/x", "mysql://***@host/x"),
    ("://me:s3cret@host", "://***@host"),
]  # fmt: skip
HARMLESS = [
    "git@github.com:org/x.git",
    "/data/a:b@c/history.db",
    "../x.git",
    "origin",
    "https://host/x?design=a&page=2",
]


@pytest.mark.parametrize(("address", "shown"), ADDRESSES)
def test_what_stands_before_the_last_at_and_secret_parameters_are_hidden(address: str, shown: str) -> None:
    """In an address alone, and in whatever a library says of it; the rest of the words stays."""
    assert redact_address(address) == shown
    for before, after in (
        ("see ", ""),
        ("fatal: unable to access '", "': failed"),
        ('"', '", line 3'),
        ("<", "> or\n"),
    ):
        assert redact(f"{before}{address}{after}") == f"{before}{shown}{after}"


@pytest.mark.parametrize("address", HARMLESS)
def test_an_address_without_secrets_stays(address: str) -> None:
    """Also one of a file, with colons and @ in it."""
    assert redact_address(address) == address
    assert redact(f"cannot open {address}: gone") == f"cannot open {address}: gone"


def test_blanks_and_quotes_end_no_password() -> None:
    """Where the whole is the address, or it is quoted, or where an @ follows after the quote."""
    assert redact_address("https://me:a s3cret'@host/x") == "https://***@host/x"
    assert redact("access 'https://me:a s3cret@host/x': no") == "access 'https://***@host/x': no"
    assert redact("access 'https://me:a's3cret@host/x': no") == "access 'https://***@host/x': no"
    assert redact_address("me:s3cret@host/x") == "me:***@host/x"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("host=db password=s3cret dbname=x", "host=db password=*** dbname=x"),
        ("host=db password='s3 cr\\'et' dbname=x", "host=db password=*** dbname=x"),
        ("PGPASSWORD=s3cret pytest", "PGPASSWORD=*** pytest"),
        ("=> Authorization: Basic s3cret\n=> Accept: */*", "=> Authorization: ***\n=> Accept: */*"),
    ],
)
def test_what_libraries_write_of_a_connection_is_hidden(text: str, shown: str) -> None:
    """A connection as libpq writes it, a variable, and the header of a request in a trace of git."""
    assert redact(text) == shown


@given(st.text(), st.sampled_from([address for address, shown in ADDRESSES if shown != address]), st.text())
def test_no_text_around_an_address_gives_its_secret_away(before: str, address: str, after: str) -> None:
    """Whatever stands before and behind; and what was hidden stays as it is."""
    shown = redact(f"{before} {address} {after}")
    assert not re.search("s3/?cr", shown.removeprefix(before).removesuffix(after))
    assert redact(shown) == shown


@given(st.text(st.characters(exclude_characters="@=:")))
def test_text_without_an_address_stays(text: str) -> None:
    """Nothing in it looks like one."""
    assert redact(text) == text


def test_long_texts_take_no_long_time() -> None:
    """A megabyte of letters, of schemes or of quotes is read once, not once for each of its characters."""
    for text in ("a" * 1_000_000, "a://" * 250_000, "'" * 1_000_000, "a:" * 500_000, "passw" * 200_000):
        assert redact(text) == text
