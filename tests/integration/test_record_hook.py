"""The hook ``pytest_quant_record`` is never in the way. The session is a fake."""

from __future__ import annotations

import pytest

from pytest_quant.history import open_store
from tests.integration.fake_session import CONFTEST, run_fake, run_fake_apart

SUITE = """
@mark.quant(output="PASS")
def test_pass(): pass

@mark.quant(output="FAIL")
def test_fail(): pass

@mark.quant(output="unavailable")
def test_unavailable(): pass

@mark.quant(output="broken")
def test_broken(): pass
"""
TESTS = [("test_pass", "PASS"), ("test_fail", "FAIL"), ("test_unavailable", "UNAVAILABLE"), ("test_broken", "ERROR")]


def test_an_implementation_takes_what_it_names(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record alone, as most do; several are all called, those of plugins too."""
    conftest = CONFTEST + "\ndef pytest_quant_record(record): print('\\nconftest', record.status)\n"
    plugin = "def pytest_quant_record(run, record): print('\\nplugin', record.status)\n"
    pytester.makepyfile(sender=plugin)
    monkeypatch.syspath_prepend(pytester.path)
    result = run_fake(pytester, SUITE, "-p", "sender", "-k", "test_pass", conftest=conftest)
    assert {"conftest PASS", "plugin PASS"} <= set(result.outlines)


@pytest.mark.parametrize(
    "arguments", [("--collect-only",), ("-k", "nothing"), ("--quant-leave=left", "--quant-no-history")], ids=str
)
def test_it_is_not_called_without_a_check_of_this_run(pytester: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    """Nothing ran, or the process measures another commit for the one that compares."""
    (pytester.path / "left").mkdir()
    called = CONFTEST + "\ndef pytest_quant_record(record): print('\\ncalled')\n"
    assert "called" not in run_fake(pytester, SUITE, *arguments, conftest=called).outlines
    assert "called" in run_fake(pytester, SUITE, "--quant-no-history", conftest=called).outlines


FAILING = (
    CONFTEST
    + """
import sys

def pytest_quant_record(record):
    if "unavailable" not in record.nodeid:
        {statement}
    print("\\nsent", record.nodeid)
"""
)
STATEMENTS = {
    "an error": "raise ValueError('no network')",
    "the end of the process": "sys.exit('no network')",
    "a failure of pytest": "pytest.fail('no network')",
    "a skip": "pytest.skip('no network')",
    "the end of the run": "pytest.exit('no network')",
}


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_what_it_raises_is_a_warning_and_changes_nothing(pytester: pytest.Pytester, statement: str) -> None:
    """Red, with the first test's name and the place; outcomes, exit code, history and table are those without it."""
    without = run_fake(pytester, SUITE)
    conftest = FAILING.format(statement=statement)
    result = run_fake(pytester, SUITE, "--color=yes", conftest=conftest)
    assert result.ret == without.ret
    assert result.parseoutcomes() == without.parseoutcomes()
    (line,) = [line for line in result.outlines if "pytest_quant_record" in line]
    assert line.startswith("\x1b[31mpytest_quant_record failed for test_it.py::test_pass and 2 more: ")
    written = (pytester.path / "conftest.py").read_text().splitlines()
    place = written.index(f"        {statement}") + 1
    assert f"no network (conftest.py:{place}); the records are kept" in line
    assert "sent test_it.py::test_unavailable" in result.outlines
    store = open_store(pytester.path / ".quant" / "history.db")
    nodeids = [[record.nodeid for record in store.records(run.run.id)] for run in store.runs()]
    assert nodeids == [[f"test_it.py::{name}" for name, _ in TESTS]] * 2


def test_two_ways_to_fail_are_two_warnings(pytester: pytest.Pytester) -> None:
    """Each with the tests that it befell; what a server says cannot act upon the terminal."""
    statement = "raise ValueError('\\x1b[2J' if 'pass' in record.nodeid else '::error::')"
    result = run_fake(pytester, SUITE, conftest=FAILING.format(statement=statement))
    lines = [line for line in result.outlines if "pytest_quant_record" in line]
    assert [line.split(": ")[0].removeprefix("pytest_quant_record failed for test_it.py::") for line in lines] == [
        "test_pass",
        "test_fail and 1 more",
    ]
    assert "\x1b[2J" not in result.stdout.str()


def test_ctrl_c_in_it_ends_the_run(pytester: pytest.Pytester) -> None:
    """As at any other time, and the records are written before."""
    conftest = FAILING.format(statement="raise KeyboardInterrupt")
    result = run_fake_apart(pytester, SUITE, conftest=conftest)
    assert result.ret
    (stored,) = open_store(pytester.path / ".quant" / "history.db").runs()
    assert sum(stored.counts.values()) == len(TESTS)
