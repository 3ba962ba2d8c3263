"""What options, marks and fixtures make of a status. The session is a fake that says the status."""

from __future__ import annotations

import json
import re

import pytest

from tests.integration.fake_session import CONFTEST, run_fake, run_fake_apart


def test_strict_fails_what_is_not_judged(pytester: pytest.Pytester) -> None:
    """INCONCLUSIVE and NO_BASELINE are failures then, from the ini file as well; what its author skips is no check."""
    source = "".join(
        f"@mark.quant(output={status!r})\ndef test_{status}(): pass\n"
        for status in ("INCONCLUSIVE", "NO_BASELINE", "PASS")
    )
    source += "@mark.skip(reason='not today')\n@mark.quant()\ndef test_skipped(): pass\n"
    for option in (("--quant-strict",), ("-o", "quant_strict=true")):
        run_fake(pytester, source, *option, "--quant-json=run.json").assert_outcomes(passed=1, failed=2, skipped=1)
        assert len(json.loads((pytester.path / "run.json").read_text())["checks"]) == 3


def test_a_filter_that_makes_warnings_errors_fails_what_is_not_judged(pytester: pytest.Pytester) -> None:
    """As a usual setting of pytest does: a failure that explains itself, not a traceback through the plugin."""
    source = "@mark.quant(output='INCONCLUSIVE')\ndef test_it(): pass\n@mark.quant()\ndef test_other(): pass\n"
    result = run_fake(pytester, source, "-W", "error::pytest_quant.InconclusiveWarning")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["*INCONCLUSIVE; *not judged", "  limit *", "test_it * INCONCLUSIVE", "2 checks: 1 PASS, 1 INCONCLUSIVE"]
    )
    text = result.stdout.str()
    assert "Traceback" not in text
    assert "check.py" not in text


@pytest.mark.parametrize("required", [(), ("--quant-require=ort",)])
def test_numbers_that_stand_in_for_samples_are_red_where_a_backend_is_required(
    pytester: pytest.Pytester, required: tuple[str, ...]
) -> None:
    """As in the workflow of ``init``; at a desk they are a warning, and real samples are one anywhere."""
    source = "@mark.quant(output='INCONCLUSIVE')\ndef test_it(): pass\n"
    random = CONFTEST.replace("([1.0], [0])", "pytest_quant.Dataset.placeholder([1.0])")
    result = run_fake(pytester, source, *required, conftest=f"import pytest_quant\n{random}")
    result.assert_outcomes(failed=len(required), passed=1 - len(required))
    run_fake(pytester, source, *required).assert_outcomes(passed=1)


_WRITES_REPORTS = """
def pytest_terminal_summary(terminalreporter):
    (report,) = terminalreporter.getreports("failed")
    with open("other.txt", "w") as file:
        file.write(str(report.longrepr))
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_what_to_look_at_is_coloured_on_the_terminal_alone(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    """The label of the limit; what other plugins write has none, even where colours are wanted of all."""
    source = "@mark.quant(output='FAIL')\ndef test_it(): pass\n"
    monkeypatch.setenv("PY_COLORS", "1")
    result = run_fake_apart(pytester, source, "--junitxml=junit.xml", *workers, conftest=CONFTEST + _WRITES_REPORTS)
    (line,) = (line for line in result.outlines if "max_drop: observed 2" in line)
    assert re.match(r"(\x1b\[\d+m)+ {2}limit \x1b\[0m {4}max_drop", line)
    for name in ("junit.xml", "other.txt"):
        text = (pytester.path / name).read_text()
        assert re.search(r"\n {2}limit {5}max_drop", text), name
        assert not re.search("\x1b|x1B", text), name


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
