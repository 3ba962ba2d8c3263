"""Markdown for a pull request: foreign text that stays text, tables, folded lists, and a size that a forge takes.

GitHub and GitLab read more than Markdown out of a comment: mentions, references, addresses without brackets, names of
emoji and, at the start of a line, commands such as ``/merge``. What could become one of them is broken by a character
without a width, or written as an entity, which is shown as the character itself in HTML too. Names that cannot, as
nearly all node ids, stay as they are, so that the text can be read as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_quant.printable import clean
from pytest_quant.report.text import shorten

MAX_CHARACTERS = 60_000
"""GitHub refuses a comment of more than 65 536."""

_ZERO_WIDTH_SPACE = "&#8203;"

_ACTS = re.compile(
    r"""
    (?P<broken>
        [@#]                                    # mentions, issues, headings
        | [!%](?=[\w"])                         # merge requests and milestones of GitLab
        | [+-](?=[]}])                          # changes within a line of GitLab
        | :(?=//)                               # addresses
        | :(?=[a-z0-9_+-]+:)                    # emoji
        | (?<![^\W_])(?i:www)(?=\.)             # addresses without a scheme
        | \b(?i:GHSA|GH|CVE)(?=-\w)             # issues and advisories by name
    )
    | (?P<both>[~$&])                           # markup, and a label, snippet or epic of GitLab
    | (?P<entity>
        [<|`*\\]
        | (?<!\w)_++ | (?<!_)_++(?![^\W_])      # within a word they are no emphasis
        | ^\[ | \[(?![+-]?[^\W_])               # a link needs more behind it, which is not left either
        | \](?=[(\[:])
    )
    """,
    re.VERBOSE,
)

_LINE_STARTS = (re.compile(r"(\d{1,9})([.)])(?=\s|$)"), re.compile(r"()(\+(?=\s|$)|-(?=\s|--|-*$)|[=/>])"))
"""Lists, rules, quotes, headings, and commands of GitLab."""

_MAX_ENTRY = 400

_MAX_ENTRIES = 100

_RESERVE = 90
"""Characters for the line that says how many are left out."""


def inline(text: str, most: int = _MAX_ENTRY) -> str:
    """Return text of a cell or a heading: shown as it is, on one line, the middle left out beyond `most` characters."""
    return _ACTS.sub(_still, shorten(clean(text).strip(), most))


def plain(text: str, most: int = _MAX_ENTRY) -> str:
    """Return the same for text that a line or an entry of a list begins with."""
    shown = inline(text, most)
    matched = next(filter(None, (start.match(shown) for start in _LINE_STARTS)), None)
    return shown if matched is None else f"{matched[1]}{_entity(matched[2])}{shown[matched.end() :]}"


def _still(matched: re.Match[str]) -> str:
    if matched["broken"]:
        return matched["broken"] + _ZERO_WIDTH_SPACE
    if matched["both"]:
        return _entity(matched["both"]) + _ZERO_WIDTH_SPACE
    return _entity(matched["entity"])


def _entity(chars: str) -> str:
    return "".join(f"&#{ord(char)};" for char in chars)


def row(cells: Iterable[str]) -> str:
    """Return one line of a table, whose cells are Markdown already."""
    return f"| {' | '.join(cells)} |"


def entries(texts: Sequence[str], most: int = _MAX_ENTRIES) -> list[str]:
    """Return foreign texts as a list, of which `most` are shown and the others counted."""
    lines = [f"- {plain(text)}" for text in texts[:most]]
    return [*lines, f"- and {len(texts) - most} more"] if len(texts) > most else lines


def code_block(text: str) -> str:
    """Return a text that was laid out as it stands, in which nothing is read as Markdown."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def details(summary: str, lines: Sequence[str]) -> str:
    """Return a block that is folded; `summary` is foreign text, `lines` are Markdown."""
    return "\n".join(["", f"<details><summary>{inline(summary)}</summary>", "", *lines, "", "</details>"])


@dataclass(frozen=True, slots=True)
class Table:
    """A table, or a list, with what stands above it; without rows only that is shown.

    Attributes
    ----------
    heads : of the columns; empty for a list.
    rows : lines, see `row` and `entries`.
    above : paragraphs.
    """

    heads: tuple[str, ...]
    rows: tuple[str, ...]
    above: tuple[str, ...] = ()


def document(head: Sequence[str], tables: Sequence[Table], rest: Sequence[str], everything: str) -> str:
    """Return a whole comment of at most `MAX_CHARACTERS`; what does not fit is counted.

    The rest may take half of what the head leaves, and the tables what the rest does not need, each its share.

    Parameters
    ----------
    head : lines that are always shown.
    tables : the most important one first.
    rest : blocks, of which each is shown whole or not at all.
    everything : what has all of it, for the reader.
    """
    budget = MAX_CHARACTERS - _size(head)
    room = budget - min(_size(rest), budget // 2)
    shown: list[str] = []
    for number, table in enumerate(tables):
        shown += _lines(table, (room - _size(shown)) // (len(tables) - number), everything)
    return "\n".join([*head, *shown, *_fitting(rest, budget - _size(shown), everything)]) + "\n"


def _lines(table: Table, budget: int, everything: str) -> list[str]:
    top = [line for paragraph in table.above for line in (paragraph, "")]
    if not table.rows:
        return top
    if table.heads:
        top += [row(table.heads), "|" + "---|" * len(table.heads)]
    # A blank line ends the table.
    return [*top, *_fitting(table.rows, budget - _size(top) - 1, everything), ""]


def _fitting(blocks: Sequence[str], budget: int, everything: str) -> list[str]:
    """Return the first blocks that fit, and how many do not."""
    lines: list[str] = []
    used = 0
    for number, block in enumerate(blocks):
        size = _size([block])
        reserve = 0 if number == len(blocks) - 1 else _RESERVE
        if used + size + reserve > budget:
            return [*lines, "", f"{len(blocks) - number} more are left out; {everything} has all of them"]
        lines.append(block)
        used += size
    return lines


def _size(blocks: Sequence[str]) -> int:
    """Return the characters that these lines take, the ends of lines included."""
    return sum(len(block) + 1 for block in blocks)
