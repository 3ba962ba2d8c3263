"""What pytest-benchmark, as it is installed here, makes of our benchmarks; most samples are made up."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.integration.projects import output, read_checks, write_project
from tests.support import models
from tests.support.in_process import run_here

CONFTEST = """
import pytest

SAMPLES = {"reference": [4_000_000, 5_000_000, 9_000_000], "candidate": [2_000_000, 3_000_000, 4_000_000]}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" and item.name.startswith("test_quantized"):
        report.quant_samples = SAMPLES
    return report
"""

TESTS = """
import pytest


@pytest.mark.parametrize("model", ["small", "large"])
def test_quantized(model, record_property):
    record_property("quant.speedup", 1.5)


def test_plain():
    pass
"""

NAMES = [f"test_quantized[{model}] {engine}" for model in ("large", "small") for engine in ("candidate", "reference")]
SECONDS = {"reference": [0.004, 0.005, 0.009], "candidate": [0.002, 0.003, 0.004]}


@pytest.fixture(autouse=True)
def project(pytester: pytest.Pytester) -> None:
    """Two tests that were timed, and one that was not."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_timed=TESTS)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run the project, with workers in processes of its own; it passes."""
    result = pytester.runpytest_subprocess(*arguments) if "-n" in arguments else run_here(pytester, *arguments)
    assert result.ret == pytest.ExitCode.OK
    return result


def benchmarks(file: Path) -> dict[str, Any]:
    """Return the benchmarks of a JSON file by name."""
    return {each["name"]: each for each in json.loads(file.read_text("utf-8"))["benchmarks"]}


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_the_json_holds_candidate_and_reference_once(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    """Each with its samples in seconds, their statistics, and our figures; xdist's workers add nothing twice."""
    run(pytester, "--benchmark-json=found.json", *workers)
    result = benchmarks(pytester.path / "found.json")
    assert sorted(result) == NAMES
    for name, each in result.items():
        nodeid, engine = name.split()
        seconds = SECONDS[engine]
        assert each["stats"]["data"] == pytest.approx(seconds)
        assert each["stats"]["median"] == pytest.approx(statistics.median(seconds))
        assert each["stats"]["rounds"] == len(seconds)
        assert each["fullname"] == f"test_timed.py::{name}"
        assert each["group"] == f"test_timed.py::{nodeid}"
        assert each["extra_info"] == {"quant.speedup": 1.5}


def test_a_saved_run_is_compared_with_the_next(pytester: pytest.Pytester) -> None:
    """``--benchmark-compare`` sets the new run beside the saved one, and ``pytest-benchmark compare`` shows both."""
    run(pytester, "--benchmark-autosave")
    result = run(pytester, "--benchmark-autosave", "--benchmark-compare=0001")
    for name in NAMES:
        result.stdout.fnmatch_lines_random([f"{glob(name)} (NOW) *", f"{glob(name)} (0001*) *"])
    shown = pytester.run("pytest-benchmark", "compare", "0001", "0002")
    assert shown.ret == 0
    for name in NAMES:
        shown.stdout.fnmatch_lines_random([f"{glob(name)} (0001*) *", f"{glob(name)} (0002*) *"])


def test_unasked_it_shows_nothing(pytester: pytest.Pytester) -> None:
    """Its tables say what ours says; a benchmark of its own has its row as ever."""
    result = run(pytester)
    assert "Name (time in" not in result.stdout.str()
    pytester.makepyfile(test_own="def test_own(benchmark):\n    benchmark(len, ())\n")
    result = run(pytester)
    result.stdout.fnmatch_lines(["Name (time in *", "test_own *"])
    assert "candidate" not in result.stdout.str()


def test_without_pytest_benchmark_nothing_is_missed(pytester: pytest.Pytester) -> None:
    """A run with it turned off passes, and its package is not imported for us."""
    pytester.makeconftest(
        CONFTEST
        + "\n\ndef pytest_unconfigure():\n    import sys\n    assert 'pytest_benchmark.stats' not in sys.modules\n"
    )
    result = pytester.runpytest_subprocess("-p", "no:benchmark")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=3)


def glob(name: str) -> str:
    """Return `name` for fnmatch, its brackets taken as they are."""
    return name.replace("[", "[[]")


def test_candidate_and_reference_of_a_real_check_are_benchmarks(pytester: pytest.Pytester) -> None:
    """Timed by us, and kept by pytest-benchmark."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester)
    run_here(pytester, "--quant-max-time=0.5", "--benchmark-json=one.json", "test_model.py")
    assert len(benchmarks(pytester.path / "one.json")) == 2


def test_benchmark_options_switch_our_timing_off(pytester: pytest.Pytester) -> None:
    """A limit on what is timed is then reported as not measured, never passed."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, mark="min_speedup=0.001, max_energy_mj=1.0")
    result = run_here(pytester, "--benchmark-disable", "--quant-json=run.json", "test_model.py")
    (check,) = read_checks(pytester.path / "run.json")
    assert check["status"] == "INCONCLUSIVE", output(result)
    assert check["latency"] is None
    reasons = {verdict["limit"]: verdict["reason"] for verdict in check["verdicts"]}
    assert reasons["min_speedup"] == reasons["max_energy_mj"] == "not measured: --benchmark-disable is set"
