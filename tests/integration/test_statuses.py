"""Each status, and what pytest makes of it. The session is a fake that says the status."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET  # the file is our own run's

import pytest

from tests.integration.fake_session import run_fake, run_fake_apart

EACH = """
@mark.quant(output="PASS")
def test_pass(): pass

@mark.quant(output="FAIL")
def test_fail(): pass

@mark.quant(output="INCONCLUSIVE")
def test_inconclusive(): pass

@mark.quant(output="NO_BASELINE")
def test_no_baseline(): pass

@mark.quant(output="unavailable")
def test_unavailable(): pass

@mark.quant(output="broken")
def test_broken(): pass

@mark.quant(output="bug")
def test_bug(): pass

@mark.quant(output="unkept")
def test_unkept(): pass

@mark.quant(output="FAIL")
def test_body(): raise RuntimeError("the body is wrong")
"""
STATUSES = {
    "test_pass": "PASS",
    "test_fail": "FAIL",
    "test_inconclusive": "INCONCLUSIVE",
    "test_no_baseline": "NO_BASELINE",
    "test_unavailable": "UNAVAILABLE",
    "test_broken": "ERROR",
    "test_bug": "ERROR",
    "test_unkept": "ERROR",
    "test_body": "FAIL",
}


@pytest.mark.parametrize("workers", ["0", "2"])
def test_each_status_has_its_outcome_and_its_record(pytester: pytest.Pytester, workers: str) -> None:
    """Failures fail, errors are errors in set-up, UNAVAILABLE is skipped, and every check has one record."""
    result = run_fake_apart(pytester, EACH, "-n", workers, "--quant-json=run.json", "--junitxml=junit.xml")
    result.assert_outcomes(passed=3, failed=2, errors=3, skipped=1, warnings=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    checks = json.loads((pytester.path / "run.json").read_text())["checks"]
    assert [(check["nodeid"].split("::")[1], check["status"]) for check in checks] == list(STATUSES.items())
    suite = ET.parse(pytester.path / "junit.xml").getroot().find("testsuite")  # noqa: S314 - our own file
    assert suite is not None
    assert [suite.attrib[name] for name in ("failures", "errors", "skipped")] == ["2", "3", "1"]
    properties = {
        case.attrib["name"]: [
            item.attrib["value"] for item in case.iter("property") if item.attrib["name"] == "quant.status"
        ]
        for case in suite.iter("testcase")
    }
    assert properties == {name: [status] for name, status in STATUSES.items()}


def test_verdicts_and_errors_are_text_and_only_bugs_are_traced(pytester: pytest.Pytester) -> None:
    """A broken limit and a broken engine explain themselves; a bug and the body show their lines."""
    result = run_fake(pytester, EACH, "-W", "ignore")
    text = result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            "*ERROR at setup of test_broken*",
            "the engine is broken",
            "  got: this",
            "  next: repair it",
            "*ERROR at setup of test_bug*",
            "E * ZeroDivisionError: a bug",
            "*test_fail*",
            "*the reason of FAIL*",
            "*def test_body(): raise RuntimeError*",
            "E * RuntimeError: the body is wrong",
        ]
    )
    assert text.count("Traceback") == 0
    assert "checking.py" not in text.split("test_fail ___")[1].split("test_body ___")[0]


def test_strict_fails_what_is_not_judged(pytester: pytest.Pytester) -> None:
    """INCONCLUSIVE and NO_BASELINE are failures then, from the ini file as well."""
    strict = run_fake(pytester, EACH, "--quant-strict")
    strict.assert_outcomes(passed=1, failed=4, errors=3, skipped=1)
    from_ini = run_fake(pytester, EACH, "-o", "quant_strict=true")
    from_ini.assert_outcomes(passed=1, failed=4, errors=3, skipped=1)


def test_inconclusive_warns_with_its_reason(pytester: pytest.Pytester) -> None:
    """The warning has a name of its own, so that a filter can make an error of it."""
    source = "@mark.quant(output='INCONCLUSIVE')\ndef test_it(): pass\n"
    result = run_fake(pytester, source)
    result.stdout.fnmatch_lines(["*InconclusiveWarning: max_drop: the reason of INCONCLUSIVE"])
    assert result.ret == 0
    filtered = run_fake(pytester, source, "-W", "error::pytest_quant.InconclusiveWarning")
    filtered.assert_outcomes(failed=1)


def test_a_skip_says_the_fix_and_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    """The summary of skips names the test, the reason and the command."""
    result = run_fake(pytester, "@mark.quant(output='unavailable')\ndef test_it(): pass\n", "-rs")
    result.stdout.fnmatch_lines(["SKIPPED * test_it.py:3: backend 'ort' cannot run here: fake; pip install fake"])
    assert result.ret == 0


def test_a_required_backend_that_is_not_here_fails_its_tests(pytester: pytest.Pytester) -> None:
    """It is a failure before the body, and no `pytest.fail` that a strict xfail for one would swallow."""
    source = """
@mark.quant(output="unavailable")
def test_bare(): print("the body ran")

@mark.xfail(strict=True, raises=pytest.fail.Exception)
@mark.quant(output="unavailable")
def test_expected_to_be_caught(): pass

@mark.quant(output="unavailable")
def test_engine(quant_engine): pass
"""
    result = run_fake(pytester, source, "--quant-require=ort")
    result.assert_outcomes(failed=2, errors=1)
    result.stdout.fnmatch_lines(["backend 'ort' cannot run here: fake", "  next: pip install fake"])
    assert "the body ran" not in result.stdout.str()


@pytest.mark.parametrize("output", ["broken", "bug", "unavailable"])
def test_a_strict_xfail_for_a_failure_is_red_for_all_else(pytester: pytest.Pytester, output: str) -> None:
    """Only a broken limit is the failure that the test expects."""
    source = "@mark.xfail(strict=True, raises=pytest.fail.Exception)\n@mark.quant(output={!r})\ndef test_it(): pass\n"
    caught = run_fake(pytester, source.format("FAIL"), "--quant-require=ort")
    caught.assert_outcomes(xfailed=1)
    result = run_fake(pytester, source.format(output), "--quant-require=ort")
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_fixture_that_fails_is_an_error_with_a_record(pytester: pytest.Pytester) -> None:
    """An error in set-up is an ERROR in the records, whoever made it; its traceback is its author's."""
    source = """
@pytest.fixture
def network():
    raise ConnectionError("no network")

@mark.quant(model="network")
def test_model(): pass

@mark.quant()
def test_other(network): pass
"""
    result = run_fake(pytester, source, "--quant-json=run.json")
    result.assert_outcomes(errors=2)
    checks = json.loads((pytester.path / "run.json").read_text())["checks"]
    assert [check["status"] for check in checks] == ["ERROR", "ERROR"]
    assert all("no network" in check["message"] for check in checks)
    result.stdout.fnmatch_lines(["*raise ConnectionError*"])


def test_a_test_skipped_by_its_author_is_no_check(pytester: pytest.Pytester) -> None:
    """Nothing was asked, so nothing is recorded."""
    source = "@mark.skip(reason='not today')\n@mark.quant()\ndef test_it(): pass\n"
    result = run_fake(pytester, source, "--quant-json=run.json")
    result.assert_outcomes(skipped=1)
    assert json.loads((pytester.path / "run.json").read_text())["checks"] == []


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_expected_failure_is_xfail_in_the_table(pytester: pytest.Pytester, workers: str) -> None:
    """Its record stays a FAIL; a check that breaks in set-up as expected is XFAIL too."""
    tests = """
@mark.quant(output="FAIL")
@mark.xfail(strict=True, raises=pytest.fail.Exception)
def test_expected(): pass

@mark.quant(output="broken")
@mark.xfail(reason="no such model yet")
def test_unbuildable(): pass

@mark.quant(output="PASS")
def test_pass(): pass
"""
    result = run_fake_apart(pytester, tests, "-n", workers, "--quant-json=run.json")
    result.assert_outcomes(passed=1, xfailed=2)
    result.stdout.fnmatch_lines(["test_expected *XFAIL", "test_unbuildable *XFAIL", "test_pass *PASS"])
    result.stdout.fnmatch_lines(["3 checks: 1 PASS, 2 XFAIL"])
    checks = json.loads((pytester.path / "run.json").read_text())["checks"]
    assert [check["status"] for check in checks] == ["FAIL", "ERROR", "PASS"]


def test_a_check_that_could_not_be_says_why_in_its_row(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is the one place where all checks stand side by side."""
    monkeypatch.setenv("COLUMNS", "160")
    result = run_fake(pytester, EACH)
    result.stdout.fnmatch_lines(["test_broken * the engine is broken * ERROR"])


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_short_summary_names_the_limit_and_both_figures(pytester: pytest.Pytester, workers: str) -> None:
    """JUnit's message too; a failure that the body asks for stays as it is."""
    tests = """
@mark.quant(output="FAIL")
def test_limit(): pass

@mark.quant(output="FAIL")
def test_own(): pytest.fail("my own")
"""
    result = run_fake_apart(pytester, tests, "-n", workers, "--junitxml=junit.xml")
    result.stdout.fnmatch_lines_random(
        ["FAILED test_it.py::test_limit - max_drop 2 > 1.0", "FAILED test_it.py::test_own - Failed: my own"]
    )
    found = ET.parse(pytester.path / "junit.xml").getroot().iter("failure")  # noqa: S314 - our own file
    assert {one.attrib["message"] for one in found} == {"max_drop 2 > 1.0", "Failed: my own"}
