"""Failed checks as lines that GitHub's runner reads, and nothing else as one."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_quant.report.annotations import MOST, Failed, annotate
from pytest_quant.report.failure import failure
from tests.unit.record.examples import a_record

_COMMAND = re.compile(r"::(?P<name>\w+)(?: (?P<properties>.*?))?::(?P<data>.*)")


def read(line: str) -> tuple[str, dict[str, str], str]:
    """Read a command as GitHub's runner does: up to the second ``::``, and unescaped."""
    found = _COMMAND.fullmatch(line)
    assert found is not None, line
    properties = dict(one.split("=", 1) for one in (found["properties"] or "").split(",") if one)
    return found["name"], {key: _unescaped(value) for key, value in properties.items()}, _unescaped(found["data"])


def _unescaped(text: str) -> str:
    for escape, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escape, char)
    return text


def test_a_failure_is_an_error_at_the_test() -> None:
    """With file, line, status and name, and the whole screen as its text."""
    (line,) = annotate([Failed(a_record(), "tests/test_digits.py", 12)])
    name, properties, data = read(line)
    assert name == "error"
    assert properties == {"file": "tests/test_digits.py", "line": "12", "title": "FAIL digits ort-int8-static"}
    assert data == failure(a_record())
    assert "\n" in data


def test_a_place_that_is_not_known_is_left_out() -> None:
    """The runner would take an empty one for a file."""
    (line,) = annotate([Failed(a_record(), "", None)])
    assert list(read(line)[1]) == ["title"]


def test_more_than_github_shows_are_counted() -> None:
    """Ten errors, and a notice, of which ten more would be shown."""
    lines = annotate([Failed(a_record(), "t.py", number) for number in range(MOST + 7)])
    assert [read(line)[0] for line in lines] == ["error"] * 10 + ["notice"]
    assert "7 more checks failed" in lines[-1]
    assert len(annotate([Failed(a_record(), "t.py", 1)] * MOST)) == MOST


@pytest.mark.parametrize(
    "text",
    ["a\n::stop-commands::x", "a%0A::error::x", "a::b,file=evil.py", "100%", "##[error]x", "\x1b[31m\r::add-mask::y"],
)
def test_foreign_text_forges_nothing(text: str) -> None:
    """One line for one check, whose file is the test's, and whose text is what it was."""
    record = replace(a_record(), model=text, message=text)
    (line,) = annotate([Failed(record, "t,est:s.py", 1)])
    assert len(line.splitlines()) == 1
    assert not re.search(r"##\w*\[", line)
    name, properties, data = read(line)
    assert (name, properties["file"], properties["line"]) == ("error", "t,est:s.py", "1")
    assert data == failure(record)
