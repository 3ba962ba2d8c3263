"""Text from outside as text that neither a terminal nor the log of a CI service acts upon.

Names come from models, data, branches, arguments and the messages of libraries. Escape sequences would colour, move or
hide what is printed; a line that begins with ``::`` is a command to GitHub Actions, and ``##vso[`` or ``##[`` anywhere
in a line one to Azure Pipelines and to GitHub Actions.
"""

from __future__ import annotations

import re

from pytest_quant.redact import redact

_AT_START = re.compile(r"^(\s*):(?=:)")
_IN_LINE = re.compile(r"#(?=#\w*\[)")


def clean(text: str) -> str:
    """Return `text` on one line, with every character that a terminal or a CI service would act upon as its escape."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    return _without_commands(text)


def clean_lines(text: str) -> str:
    """Return a message as it may be printed, its lines and tabs kept: each line clean, addresses without secrets."""
    return "\n".join(_clean_line(line.removesuffix("\r")) for line in redact(text).split("\n"))


def guard_lines(text: str) -> str:
    """Return text that was laid out of clean parts, styles included, with no line of it a command to a CI service.

    Where a long text is broken, a line may begin with what stood in its middle.
    """
    return "\n".join(map(_without_commands, text.split("\n")))


def guard_json(text: str) -> str:
    r"""Return the same document in JSON without ``##``, all that JSON leaves of what a terminal or a CI service reads.

    The second half of each is escaped as ``\u0023``.
    """
    return text.replace("##", "#\\u0023")


def _clean_line(line: str) -> str:
    return "\t".join(map(clean, line.split("\t"))) if "\t" in line else clean(line)


def _without_commands(line: str) -> str:
    if "##" in line:
        line = _IN_LINE.sub(r"\\x23", line)
    return _AT_START.sub(r"\1\\x3a", line) if "::" in line else line
