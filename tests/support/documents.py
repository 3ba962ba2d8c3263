"""The texts for users, README.md and the guides: their blocks, tables, headings and links, as Markdown has them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support.example import ROOT

GUIDES = ROOT / "pytest_quant" / "guides"
REFERENCE = GUIDES / "reference.md"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and the line of the file on which it begins."""

    language: str
    text: str
    line: int

    @property
    def file_name(self) -> str:
        """The file that a block of Python is, as its first line names it; empty where it names none."""
        named = re.match(r"# (\w+\.py)\n", self.text)
        return named[1] if named else ""


@dataclass(frozen=True)
class Document:
    """One text, read with the rules of CommonMark and the tables of GitHub."""

    file: Path

    @cached_property
    def text(self) -> str:
        """All of it."""
        return self.file.read_text("utf-8")

    @cached_property
    def _tokens(self) -> list[Token]:
        return MarkdownIt("commonmark").enable("table").parse(self.text)

    def blocks(self, *languages: str) -> list[Block]:
        """Return the fenced blocks of these languages, or all of them."""
        found = [
            Block(token.info.strip(), token.content, (token.map or [0])[0] + 1)
            for token in self._tokens
            if token.type in ("fence", "code_block")
        ]
        return [block for block in found if not languages or block.language in languages]

    def headings(self, level: str = "") -> list[str]:
        """Return the texts of all headings, or of those of one level such as ``h1``, without marks."""
        opened = ((one, inline) for one, inline in pairwise(self._tokens) if one.type == "heading_open")
        return [_plain(inline) for one, inline in opened if level in ("", one.tag)]

    def anchors(self) -> set[str]:
        """Return what links to a heading may name, by the rules of GitHub."""
        slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in self.headings()]
        seen: Counter[str] = Counter()
        found = set()
        for slug in slugs:
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
        return found

    def links(self) -> list[str]:
        """Return the targets of all links and pictures."""
        names = {"link_open": "href", "image": "src"}
        inside = (child for token in self._tokens for child in token.children or ())
        return [str(child.attrs[names[child.type]]) for child in inside if child.type in names]

    def prose(self) -> str:
        """Return the text without its blocks and without code in sentences."""
        inlines = (token for token in self._tokens if token.type == "inline")
        return "\n".join(
            "".join(child.content if child.type == "text" else " " for child in token.children or ())
            for token in inlines
        )

    def table(self, head: str) -> list[list[str]]:
        """Return the rows of the table whose first head is `head`, without marks of code in the first column."""
        (rows,) = [rows for rows in self._tables() if rows[0][0].strip("`") == head]
        return [[row[0].strip("`"), *row[1:]] for row in rows[1:]]

    def _tables(self) -> Iterator[list[list[str]]]:
        rows: list[list[str]] = []
        for token, following in zip(self._tokens, [*self._tokens[1:], Token("end", "", 0)], strict=True):
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("td_open", "th_open"):
                rows[-1].append(following.content)
            elif token.type == "table_close":
                yield rows
                rows = []


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))


README = Document(ROOT / "README.md")
INDEX = Document(GUIDES / "README.md")


def guides() -> list[Document]:
    """Return the guides that are written by hand, and those that are made, in the order of their names."""
    return [Document(file) for file in sorted(GUIDES.glob("*.md")) if file.name != "README.md"]
