"""Failed checks as annotations of GitHub Actions, which shows them at the line of the test.

An annotation is a line of the log that begins with ``::error``. Everything foreign in it is escaped as the runner
unescapes it, so that it can neither end the annotation nor begin another command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_quant.printable import clean, guard_lines
from pytest_quant.record import Record
from pytest_quant.report.failure import failure
from pytest_quant.report.summary import name_of
from pytest_quant.report.text import count

MOST = 10
"""GitHub shows so many errors of one step."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A check that failed, and where its test stands.

    Attributes
    ----------
    file : as it is in the repository; empty where it is not known.
    line : counted from 1; ``None`` where it is not known.
    """

    record: Record
    file: str
    line: int | None


def annotate(failed: Sequence[Failed]) -> list[str]:
    """Return the lines for the log: one for each of the first failed checks, and one that counts the others."""
    lines = list(map(_annotation, failed[:MOST]))
    more = len(failed) - MOST
    if more > 0:
        lines.append(f"::notice title=pytest-quant::{count(more, 'more check')} failed; see the table of this run")
    return lines


def _annotation(one: Failed) -> str:
    properties = ",".join(f"{name}={_property(value)}" for name, value in _properties(one))
    return f"::error {properties}::{_data(failure(one.record))}"


def _properties(one: Failed) -> Iterator[tuple[str, str]]:
    if one.file:
        yield "file", one.file
        if one.line is not None:
            yield "line", str(one.line)
    yield "title", f"{one.record.status.value} {name_of(one.record)}"


def _data(text: str) -> str:
    """Escape the text of a command, as ``@actions/core`` does."""
    return guard_lines(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(clean(text)).replace(":", "%3A").replace(",", "%2C")
