"""What users read: README.md and the guides as Markdown has them, and literals of the package and the example."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
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
        result = [
            Block(token.info.strip(), token.content, (token.map or [0])[0] + 1)
            for token in self._tokens
            if token.type in ("fence", "code_block")
        ]
        return [block for block in result if not languages or block.language in languages]

    def headings(self) -> list[str]:
        """Return the texts of all headings, without marks."""
        return [_plain(inline) for each, inline in pairwise(self._tokens) if each.type == "heading_open"]

    def anchors(self) -> set[str]:
        """Return what links to a heading may name, by the rules of GitHub."""
        slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in self.headings()]
        seen: Counter[str] = Counter()
        result = set()
        for slug in slugs:
            result.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
        return result

    def links(self) -> list[str]:
        """Return the targets of all links and pictures."""
        names = {"link_open": "href", "image": "src"}
        inside = (child for token in self._tokens for child in token.children or ())
        return [str(child.attrs[names[child.type]]) for child in inside if child.type in names]

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


_TEXTS = (
    "README.md",
    *sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "pytest_quant" / "guides").glob("*.md")),
    "CHANGELOG.md",
    "example_project/README.md",
    "example_project/.github/workflows/quant.yml",
    "example_project/.gitlab-ci.yml",
    "tests/gpu/README.md",
)

UNKNOWN = "{}"
"""Stands for what a message fills in when it is raised; the test of that message looks at it."""


@dataclass(frozen=True, slots=True)
class Text:
    """What somebody reads, and where it stands."""

    place: str
    words: str


@cache
def all_texts() -> tuple[Text, ...]:
    """Return every guide, but what a change log says of what is gone, and every literal of package and example."""
    guides = [Text(name, _present((ROOT / name).read_text("utf-8"))) for name in _TEXTS]
    modules = [*ROOT.glob("pytest_quant/**/*.py"), *ROOT.glob("example_project/**/*.py")]
    result = [
        Text(f"{file.relative_to(ROOT)}:{line}", words)
        for file in sorted(modules)
        for line, words in literals(file.read_text("utf-8"))
    ]
    return (*guides, *result)


def _present(text: str) -> str:
    return text.partition("\n### Removed\n")[0]


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string literal; an f-string is one text, with the module's constants filled in."""
    tree = ast.parse(source)
    constants: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            words = _words_of(statement.value, constants)
            if words is not None:
                constants[statement.targets[0].id] = words
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and (isinstance(node, ast.JoinedStr) or id(node) not in parts):
            words = _words_of(node, constants)
            if words is not None:
                yield node.lineno, words


def _words_of(node: ast.AST, constants: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    return "".join(
        str(part.value)
        if isinstance(part, ast.Constant)
        else constants.get(part.value.id, UNKNOWN)
        if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name)
        else UNKNOWN
        for part in node.values
    )
