"""A run without a mark loads, prints and writes nothing of ours."""

from __future__ import annotations

import pytest

HEAVY = ["numpy", "onnx", "onnxruntime", "sqlalchemy", "scipy", "rich", "click", "torch", "pytest_quant.spec"]
SOURCE = """
import sys

def test_nothing_heavy():
    assert [name for name in {heavy!r} if name in sys.modules] == []

class TestPlain:
    def test_method(self): pass
"""


@pytest.mark.parametrize("ini", ["", "quant_backend = ort\nquant_strict = true\nquant_columns = model\n"])
def test_a_run_without_a_mark_is_as_if_we_were_not_there(pytester: pytest.Pytester, ini: str) -> None:
    """Also in a project that has ini options of ours; hypothesis is left out because it loads numpy by itself."""
    pytester.makeini(f"[pytest]\n{ini}")
    pytester.makepyfile(test_plain=SOURCE.format(heavy=HEAVY))
    args = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    pytester.runpytest_subprocess(*args, "-p", "no:quant").assert_outcomes(passed=2)
    without_us = {path.name for path in pytester.path.iterdir()}
    result = pytester.runpytest_subprocess(*args)
    result.assert_outcomes(passed=2)
    assert "quant" not in "\n".join(line for line in result.outlines if not line.startswith("plugins: "))
    assert {path.name for path in pytester.path.iterdir()} - {"runpytest-1"} == without_us


def test_importing_the_package_loads_nothing(pytester: pytest.Pytester) -> None:
    """Public names are loaded on first use."""
    code = f"import sys, pytest_quant; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = pytester.runpython_c(code)
    result.stdout.fnmatch_lines(["[[][]]"])
