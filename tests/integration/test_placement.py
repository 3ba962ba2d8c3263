"""Where a mark may stand, and that no marked test runs without its check. The session is a fake."""

from __future__ import annotations

import json

import pytest

from tests.integration.fake_session import CONFTEST, run_fake

EVERYWHERE = """
pytestmark = mark.quant(output="PASS")

def test_module(): pass

@mark.quant(output="FAIL")
def test_function(): pass

@mark.quant(output="INCONCLUSIVE")
class TestBase:
    def test_method(self): pass

    @mark.quant(output="FAIL")
    def test_closest(self): pass

@mark.quant(output="NO_BASELINE")
class TestDerived(TestBase):
    pass

@mark.parametrize("x", [1, pytest.param(2, marks=mark.quant(output="FAIL"))])
def test_parameter(x): pass
"""


def _statuses(pytester: pytest.Pytester) -> dict[str, str]:
    checks = json.loads((pytester.path / "run.json").read_text())["checks"]
    return {check["nodeid"].partition("::")[2]: check["status"] for check in checks}


def test_marks_on_functions_classes_modules_and_parameters(pytester: pytest.Pytester) -> None:
    """The closest mark wins, and a derived class is closer than its base."""
    run_fake(pytester, EVERYWHERE, "--quant-json=run.json", "-W", "ignore")
    assert _statuses(pytester) == {
        "test_module": "PASS",
        "test_function": "FAIL",
        "TestBase::test_method": "INCONCLUSIVE",
        "TestBase::test_closest": "FAIL",
        "TestDerived::test_method": "NO_BASELINE",
        "TestDerived::test_closest": "FAIL",
        "test_parameter[1]": "PASS",
        "test_parameter[2]": "FAIL",
    }


def test_a_mark_on_one_parameter_checks_that_one(pytester: pytest.Pytester) -> None:
    """The other cases are plain tests; a parametrized fixture may carry the mark too."""
    source = """
@mark.parametrize("x", [1, pytest.param(2, marks=mark.quant(model="other"))])
def test_parameter(x): pass

@pytest.fixture(params=[1, pytest.param(2, marks=mark.quant(model="other"))])
def case(request): return request.param

def test_fixture(case): pass

@pytest.fixture
def other(): return "other.onnx"
"""
    result = run_fake(
        pytester,
        source,
        "--quant-json=run.json",
        conftest=CONFTEST.split("@pytest.fixture")[0] + "@pytest.fixture\ndef quant_data(): return ([1.0], [0])\n",
    )
    result.assert_outcomes(passed=4)
    assert _statuses(pytester) == {"test_parameter[2]": "PASS", "test_fixture[2]": "PASS"}


def test_a_marked_parameter_may_have_a_parametrized_model(pytester: pytest.Pytester) -> None:
    """By a fixture with parameters, or by the test's own; with a mark on the function too, or on the parameter only."""
    conftest = CONFTEST.split("@pytest.fixture")[0] + "@pytest.fixture\ndef quant_data(): return ([1.0], [0])\n"
    source = """
@pytest.fixture(params=["a", "b"])
def quant_model(request): return f"{request.param}.onnx"

@mark.parametrize("x", [1, pytest.param(2, marks=mark.quant())])
def test_only_here(x): pass

@mark.quant()
@mark.parametrize("x", [1, pytest.param(2, marks=mark.quant(output="FAIL"))])
def test_here_too(x): pass

class TestIndirect:
    @pytest.fixture
    def quant_model(self, request): return request.param

    @mark.parametrize("quant_model", ["c.onnx", pytest.param("d.onnx", marks=mark.quant())], indirect=True)
    def test_own(self): pass
"""
    result = run_fake(pytester, source, "--quant-json=run.json", conftest=conftest)
    result.assert_outcomes(passed=8, failed=2)
    models = {"test_only_here[a-2]": "a", "test_only_here[b-2]": "b"}
    models |= {f"test_here_too[{model}-{x}]": model for model in "ab" for x in "12"}
    models |= {"TestIndirect::test_own[d.onnx]": "d"}
    checks = json.loads((pytester.path / "run.json").read_text())["checks"]
    assert {check["nodeid"].partition("::")[2]: check["model"] for check in checks} == models


def test_a_mark_added_after_collection_is_checked_too(pytester: pytest.Pytester) -> None:
    """Whoever adds the mark gets the check, or the error."""
    conftest = (
        CONFTEST
        + """
def pytest_collection_modifyitems(items):
    for item in items:
        keys = {"max_dropp": 1} if "wrong" in item.name else {"precision": ["fp32"]} if "list" in item.name else {}
        item.add_marker(pytest.mark.quant(**keys))
"""
    )
    source = "def test_right(): pass\ndef test_wrong(): pass\ndef test_list(): pass\n"
    result = run_fake(pytester, source, "--quant-json=run.json", conftest=conftest)
    result.assert_outcomes(passed=1, errors=2)
    assert _statuses(pytester) == {"test_right": "PASS"}
    result.stdout.fnmatch_lines(["*did you mean 'max_drop'?*", "*precision: the list cannot parametrize this test*"])


def test_items_that_cannot_run_their_check_are_refused(pytester: pytest.Pytester) -> None:
    """TestCase, doctests, shadowed fixtures and coroutines: none of them passes."""
    conftest = (
        CONFTEST
        + """
def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "test_it.documented":
            item.add_marker(pytest.mark.quant())
"""
    )
    source = """
import unittest

class TestOld(unittest.TestCase):
    @mark.quant()
    def test_method(self): pass

@mark.quant()
class TestMarked(unittest.TestCase):
    def test_method(self): pass

class TestShadow:
    @pytest.fixture
    def quant(self): return None

    @mark.quant()
    def test_shadowed(self): pass

@mark.quant()
async def test_coroutine(): pass

def documented():
    '''
    >>> 1
    1
    '''
"""
    result = run_fake(pytester, source, "--doctest-modules", conftest=conftest)
    result.assert_outcomes(errors=3, failed=2)
    result.stdout.fnmatch_lines(["*a unittest.TestCase is marked with quant*", "*a DoctestItem is marked with quant*"])
    result.stdout.fnmatch_lines(["this marked test would run without its check*", "*async def functions are not*"])


def test_the_fixture_in_an_unmarked_test_is_a_usage_error(pytester: pytest.Pytester) -> None:
    """The message says where the mark belongs, without a traceback."""
    result = run_fake(pytester, "def test_plain(quant): pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the fixture 'quant' is the check of a marked test*", "  next: write @pytest.mark.*"])
    assert "checking.py" not in result.stdout.str()


def test_the_authors_function_is_left_as_it_was(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that two files collect is checked in the one that marks it only."""
    monkeypatch.syspath_prepend(pytester.path)
    pytester.makepyfile(shared="def test_shared(request): assert hasattr(test_shared, 'pytestmark') is False\n")
    pytester.makepyfile(test_plain="from shared import test_shared\n")
    source = "from shared import test_shared\npytestmark = mark.quant()\n"
    result = run_fake(pytester, source, "--quant-json=run.json", f"--rootdir={pytester.path}")
    result.assert_outcomes(passed=2)
    assert _statuses(pytester) == {"test_shared": "PASS"}
