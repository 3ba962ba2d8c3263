"""Foreign text becomes text that is safe to print, and passwords and tokens leave an address and nothing else does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.errors import QuantError
from pytest_quant.printable import clean, clean_lines, guard_lines, redact, redact_address

COMMANDS = re.compile(r"^\s*::|##\w*\[", re.MULTILINE)
"""What GitHub Actions and Azure Pipelines read as commands, see ActionCommand.cs of the runner of GitHub."""
_PARTS = ["::", ":", "##", "#", "[", "vso", "error", " ", "\t", "\n", "\r", "\x1b", "a", "]", "\u202e"]
NASTY = st.lists(st.sampled_from(_PARTS) | st.characters()).map("".join)


@given(NASTY)
def test_no_character_acts_upon_the_terminal(text: str) -> None:
    """What is left prints, takes one line, and can be encoded."""
    shown = clean(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")


@given(NASTY)
def test_no_line_is_a_command_to_a_ci_service(text: str) -> None:
    """Neither of a name, nor of a message, nor of text that was laid out."""
    for shown in (clean(text), clean_lines(text), guard_lines(text)):
        assert COMMANDS.search("\n".join(shown.split("\n"))) is None
    assert guard_lines(clean_lines(text)) == clean_lines(text)


@given(NASTY)
def test_what_is_clean_stays(text: str) -> None:
    """A message that goes through several errors is escaped once."""
    assert clean(clean(text)) == clean(text)
    assert clean_lines(clean_lines(text)) == clean_lines(text)


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"], exclude_characters=":#")))
def test_plain_text_stays_as_it_is(text: str) -> None:
    """Only what is not printable is escaped."""
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb", "a\\nb"),
        ("\u202eevil", "\\u202eevil"),
        ("\udcff", "\\udcff"),
        ("\x9b1m", "\\x9b1m"),
        ("::error file=a::b", "\\x3a:error file=a::b"),
        ("  ::stop-commands::x", "  \\x3a:stop-commands::x"),
        ("a ##vso[task.setvariable]x", "a \\x23#vso[task.setvariable]x"),
        ("a ##[error]x", "a \\x23#[error]x"),
        *((text, text) for text in ("test_it.py::test_a", "## Heading [x]", "c#[1]", "http://[::1]/x")),
    ],
)
def test_escapes_show(text: str, shown: str) -> None:
    """Escape sequences, line breaks, direction overrides, lone surrogates, the one-byte CSI, and commands only."""
    assert clean(text) == shown


def test_a_message_keeps_its_lines() -> None:
    """Their ends as Windows writes them are ends; tabs and indents stay; addresses lose their secrets."""
    assert clean_lines("a\r\n\tb\x1b\n  ::group::c\n") == "a\n\tb\\x1b\n  \\x3a:group::c\n"
    assert clean_lines("see https://me:s3cret@host/x") == "see https://***@host/x"


def test_an_error_is_printable_from_its_birth() -> None:
    """Every part of it, wherever a part is printed alone."""
    nasty = "x\x1b[2J\n::error::https://me:s3cret@host"
    error = QuantError(nasty, value=nasty, allowed=nasty, fix=nasty, log=nasty)
    parts = (error.what, error.value, error.allowed, error.fix, error.log, str(error), repr(error))
    for text in map(str, parts):
        assert "\x1b" not in text
        assert "s3cret" not in text
        assert COMMANDS.search(text) is None


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


@pytest.mark.parametrize(("address", "shown"), [*ADDRESSES, *zip(HARMLESS, HARMLESS, strict=True)])
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
