"""Runs of pytest within tests leave what this process has imported."""

from __future__ import annotations

import pytest

from tests.support.in_process import run_here

CONFTEST = """
from tests.conftest import pytest_runtest_teardown
pytest_plugins = ["pytester"]
"""
TWO = """
import sys

def test_imports(pytester):
    import colorsys

def test_has_it_still():
    assert "colorsys" in sys.modules
"""


def test_a_module_that_the_body_of_a_test_imports_stays(pytester: pytest.Pytester) -> None:
    """`pytester` forgets it: an extension module would be freed, and what had a pointer into it would end the process.

    PyTorch's import did, after a test had imported tensorboardX.
    """
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TWO)
    run_here(pytester).assert_outcomes(passed=2)
