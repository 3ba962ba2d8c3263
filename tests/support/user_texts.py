"""What users read: the guides, and every string literal of the package and of the example, docstrings included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDES = (
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
    folder: Path
    words: str


@cache
def all_texts() -> tuple[Text, ...]:
    """Return every guide, but what a change log says of what is gone, and every literal of package and example."""
    guides = [Text(name, (ROOT / name).parent, _present((ROOT / name).read_text("utf-8"))) for name in GUIDES]
    modules = [*ROOT.glob("pytest_quant/**/*.py"), *ROOT.glob("example_project/**/*.py")]
    found = [
        Text(f"{file.relative_to(ROOT)}:{line}", file.parent, words)
        for file in sorted(modules)
        for line, words in literals(file.read_text("utf-8"))
    ]
    return (*guides, *found)


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
