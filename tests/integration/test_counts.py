"""What pytest, JUnit and pytest-benchmark show is what the records say."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET  # the file is our own run's

import pytest

from tests.integration.projects import CONFTEST, DATA, output, read_checks
from tests.support import models
from tests.support.in_process import run_here

BRIEF = "--quant-max-time=0.5"
"""What is timed here is judged by nothing that depends on it."""

TESTS = """
import pytest


@pytest.mark.quant(max_drop=5.0)
def test_good():
    pass


@pytest.mark.quant(max_abs_error=0.0)
def test_too_far_off():
    pass


@pytest.mark.quant(max_size_mb=0.0, min_sqnr_db=200)
def test_too_big_and_too_noisy():
    pass


@pytest.mark.quant(model="missing.onnx")
def test_broken():
    pass


@pytest.mark.quant(max_latency_ms={"p99.999": 1000.0})
def test_a_percentile_of_too_few_runs():
    pass


@pytest.mark.quant(max_slowdown=5.0)
def test_nothing_was_accepted():
    pass


def test_plain():
    pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with one check of each status that this machine can give."""
    models.select_first(pytester.path / "model.onnx")
    pytester.makeconftest(CONFTEST.format(model="model.onnx", data=DATA))
    pytester.makepyfile(test_all=TESTS)
    return pytester


@pytest.mark.parametrize("workers", ["0", "2"])
def test_junit_counts_are_the_counts_of_statuses(project: pytest.Pytester, workers: str) -> None:
    """JUnit failures are FAIL, errors are ERROR, with any number of workers."""
    result = project.runpytest_subprocess("-n", workers, BRIEF, "--junitxml=junit.xml", "--quant-json=run.json")
    statuses = [check["status"] for check in read_checks(project.path / "run.json")]
    suite = ET.parse(project.path / "junit.xml").getroot().find("testsuite")  # noqa: S314 - our own file
    assert suite is not None
    assert sorted(set(statuses)) == ["ERROR", "FAIL", "INCONCLUSIVE", "NO_BASELINE", "PASS"], output(result)
    assert int(suite.attrib["failures"]) == statuses.count("FAIL") == 2
    assert int(suite.attrib["errors"]) == statuses.count("ERROR") == 1
    assert int(suite.attrib["skipped"]) == statuses.count("UNAVAILABLE") == 0
    assert result.ret == 1


def test_junit_carries_the_figures(project: pytest.Pytester) -> None:
    """Each testcase has its quant.* properties, and no whole record."""
    run_here(project, "--junitxml=junit.xml", "--quant-json=run.json", "--quant-no-latency")
    checks = {check["nodeid"].split("::")[-1]: check for check in read_checks(project.path / "run.json")}
    root = ET.parse(project.path / "junit.xml").getroot()  # noqa: S314 - our own file
    case = next(case for case in root.iter("testcase") if case.attrib["name"] == "test_good")
    figures = {item.attrib["name"]: item.attrib["value"] for item in case.iter("property")}
    assert figures
    assert all(name.startswith("quant.") for name in figures)
    assert figures["quant.status"] == "PASS"
    assert float(figures["quant.coverage_pct"]) == pytest.approx(checks["test_good"]["coverage"]["pct"])
    assert all(len(value) < 200 for value in figures.values())


def test_failures_come_without_a_traceback_and_say_which_limit(project: pytest.Pytester) -> None:
    """A broken limit is explained, not traced."""
    result = run_here(project, "--quant-no-latency")
    text = output(result)
    assert "Traceback" not in text
    assert "max_abs_error" in text
    assert "min_sqnr_db" in text
    assert "max_size_mb" in text


def test_strict_fails_what_could_not_be_judged(project: pytest.Pytester) -> None:
    """INCONCLUSIVE and NO_BASELINE pass by default and fail under --quant-strict."""
    loose = run_here(project, "--quant-no-latency")
    strict = run_here(project, "--quant-no-latency", "--quant-strict")
    loose.assert_outcomes(passed=4, failed=2, errors=1, warnings=2)
    strict.assert_outcomes(passed=2, failed=4, errors=1)


def test_pytest_benchmark_compares_our_checks(project: pytest.Pytester) -> None:
    """Candidate and reference of each check are benchmarks that pytest-benchmark lists and compares."""
    run_here(project, BRIEF, "-k", "test_good", "--benchmark-json=one.json")
    run_here(project, BRIEF, "-k", "test_good", "--benchmark-json=two.json")
    names = [entry["name"] for entry in json.loads((project.path / "one.json").read_text())["benchmarks"]]
    assert len(names) == 2
    command = [sys.executable, "-m", "pytest_benchmark", "compare", "one.json", "two.json"]
    compared = subprocess.run(command, cwd=project.path, capture_output=True, text=True, check=True).stdout
    assert all(compared.count(name) >= 1 for name in names), compared


@pytest.mark.parametrize("option", ["--benchmark-disable", "--benchmark-skip"])
def test_benchmark_options_switch_our_timing_off(pytester: pytest.Pytester, option: str) -> None:
    """A limit on what is timed is then reported as not measured, never passed."""
    models.select_first(pytester.path / "model.onnx")
    pytester.makeconftest(CONFTEST.format(model="model.onnx", data=DATA))
    pytester.makepyfile(
        "import pytest\n@pytest.mark.quant(min_speedup=0.001, max_energy_mj=1.0)\ndef test_it(): pass\n"
    )
    result = run_here(pytester, option, "--quant-json=run.json")
    (check,) = read_checks(pytester.path / "run.json")
    assert check["status"] == "INCONCLUSIVE", output(result)
    assert check["latency"] is None
    reasons = {verdict["limit"]: verdict["reason"] for verdict in check["verdicts"]}
    assert reasons["min_speedup"] == reasons["max_energy_mj"] == f"not measured: {option} is set"
