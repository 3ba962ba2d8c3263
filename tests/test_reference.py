"""The reference in the guides is what the code says now."""

from __future__ import annotations

import ast

from tests.reference import OF_CI, OF_OTHERS, PACKAGE, reference, variables
from tests.support.documents import REFERENCE


def test_the_reference_is_not_stale() -> None:
    """Otherwise run: python -m tests.reference --write."""
    assert REFERENCE.read_text("utf-8") == reference()


def test_every_environment_variable_that_is_read_is_in_it() -> None:
    """A variable that is asked for by its name in the code has a row; one of our own has a docstring."""
    listed = {*variables(), *OF_OTHERS, *(name for names in OF_CI.values() for name in names)}
    assert {name for name in read_variables() if name not in listed} <= HANDED_ON
    assert all(variables().values())


HANDED_ON = {"PYTHONPATH", "CUDA_LAUNCH_BLOCKING", "NO_COLOR", "PYTEST_XDIST_WORKER_COUNT"}
"""Given to processes that are started here, named in the row of another, or of all programs or pytest-xdist."""


def read_variables() -> set[str]:
    """Return the names that the package asks the environment for as literals."""
    result = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            name_node = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                of_environment = ast.unparse(node.func.value).endswith("environ") and node.func.attr == "get"
                name_node = node.args[0] if of_environment or node.func.attr == "getenv" else None
            elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ"):
                name_node = node.slice
            if isinstance(name_node, ast.Constant) and isinstance(name_node.value, str):
                result.add(name_node.value)
    return result
