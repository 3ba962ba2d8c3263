"""Foreign text becomes text that is safe to print, in a terminal and in the log of a CI service."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.errors import QuantError
from pytest_quant.printable import clean, clean_lines, guard_lines

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


@pytest.mark.parametrize("text", ["test_it.py::test_a", "a ::error::b", "## Heading [x]", "c#[1]", "http://[::1]/x"])
def test_what_is_no_command_stays_as_it_is(text: str) -> None:
    """Node ids, headings and addresses."""
    assert clean(text) == clean_lines(text) == text


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
    ],
)
def test_escapes_show(text: str, shown: str) -> None:
    """Escape sequences, line breaks, direction overrides, lone surrogates, the one-byte CSI, and commands."""
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
