"""How large the package is, and how far a check goes through it: figures that only fall."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator

import pytest

import pytest_quant
from pytest_quant.spec import LIMITS
from tests.support.example import ROOT

MOST = {"code lines": 32_732, "files": 265, "classes": 313, "functions": 3_067}
"""A feature raises them by its budget, in a commit of its own that says why. Whoever takes out writes what is left."""

_SLACK = 100
"""Code lines below which a smaller figure need not be written."""

_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def code_lines(source: str) -> int:
    """Count lines that are not empty, a comment, or a docstring of a module, a class or a function."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            left_out.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and lines[token.start[0] - 1].lstrip().startswith("#"):
            left_out.add(token.start[0])
    return sum(1 for number, line in enumerate(lines, 1) if line.strip() and number not in left_out)


def sources() -> Iterator[str]:
    """Read every file of the package."""
    return (path.read_text("utf-8") for path in (ROOT / pytest_quant.__name__).rglob("*.py"))


def size() -> Counter[str]:
    """Count what `MOST` bounds."""
    result = Counter[str]()
    for source in sources():
        nodes = list(ast.walk(ast.parse(source)))
        result["files"] += 1
        result["code lines"] += code_lines(source)
        result["classes"] += sum(isinstance(node, ast.ClassDef) for node in nodes)
        result["functions"] += sum(isinstance(node, _FUNCTION) for node in nodes)
    return result


MOST_MODULES = 3
"""That may name a limit: the table of limits, its rule, and who plans for it."""


def named_limits(source: str) -> set[str]:
    """Return the limits that a module names as attributes, or compares with."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Compare):
            sides = (side for whole in (node.left, *node.comparators) for side in ast.walk(whole))
            found.update(side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str))
    return found & {*LIMITS}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("x = 1\n\n# why\ny = 2  # and\n", 2),
        ('"""Text\nof a module."""\n\nx = """a\nvalue"""\n', 2),
        ('def f():\n    """Text."""\n    # why\n    return 1\n', 2),
        ('X = 1\n"""What it is."""\n', 2),
        ("text = '''\n# no comment\n'''\n", 3),
    ],
)
def test_code_lines(source: str, lines: int) -> None:
    """Of a text as a value all lines count, and so do the texts below attributes."""
    assert code_lines(source) == lines


def test_the_package_does_not_grow() -> None:
    """Nor does it shrink without a new figure here, from which the next one starts."""
    now = size()
    assert {name: now[name] for name, most in MOST.items() if now[name] > most} == {}
    assert MOST["code lines"] - now["code lines"] < _SLACK, "write the smaller figures into MOST"


def test_a_limit_is_one_row() -> None:
    """What the table says of a limit is asked of the table, and not decided by its name somewhere else."""
    modules = Counter(name for source in sources() for name in named_limits(source))
    assert {name: n for name, n in modules.items() if n > MOST_MODULES} == {}


def test_a_check_does_not_go_further() -> None:
    """In a process of its own, since what is loaded already is not seen."""
    command = [sys.executable, "-m", "tests.straight_line"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
