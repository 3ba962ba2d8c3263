"""Other tools read what a real run leaves: JUnit, pytest-benchmark's JSON, and the list of github-action-benchmark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml, Properties, TestCase

from pytest_quant.record import run_from_json
from pytest_quant.report.exports.figures import figures_of
from tests.integration.projects import CONFTEST, DATA
from tests.support import models
from tests.support.example import environment

ACTION = "PYTEST_QUANT_GITHUB_ACTION_BENCHMARK"
"""Environment variable that names a release of github-action-benchmark, as a runner checks one out: with ``dist`` and
``node_modules``. No package registry has it."""

TESTS = """
import pytest

@pytest.mark.quant(max_drop=100.0)
def test_good(): pass

@pytest.mark.quant(max_abs_error=0.0)
def test_too_far_off(): pass

@pytest.mark.quant(model="missing.onnx")
def test_broken(): pass
"""
FILES = ("--junitxml=junit.xml", "--benchmark-json=benchmark.json", "--quant-json=run.json")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a project that ran once, with the files that it was asked for."""
    folder = tmp_path_factory.mktemp("consumers")
    models.select_first(folder / "model.onnx")
    (folder / "conftest.py").write_text(CONFTEST.format(model="model.onnx", data=DATA))
    (folder / "test_it.py").write_text(TESTS)
    pytest_here = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
    done = called(folder, *pytest_here, "--quant-max-time=0.5", *FILES)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    return folder


def called(folder: Path, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program in the folder."""
    env = environment(locks=folder / "locks") | environ
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=env)


def checks(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the checks of ``--quant-json`` by the name of their test."""
    document = json.loads((folder / "run.json").read_text("utf-8"))
    return {check["nodeid"].split("::")[1]: check for check in document["checks"]}


def test_junitparser_finds_outcomes_and_figures(ran: Path) -> None:
    """Each case has the outcome of its check, and its properties are the figures of its record."""
    cases = {case.name: case for suite in JUnitXml.fromfile(str(ran / "junit.xml")) for case in suite}
    assert cases.keys() == checks(ran).keys()
    assert all(isinstance(case, TestCase) for case in cases.values())
    outcomes = {name: (case.is_passed, case.is_failure, case.is_error) for name, case in cases.items()}
    assert outcomes == {
        "test_good": (True, False, False),
        "test_too_far_off": (False, True, False),
        "test_broken": (False, False, True),
    }
    for name, check in checks(ran).items():
        found = {one.name: one.value for one in cases[name].child(Properties) or ()}
        assert found["quant.status"] == check["status"]
        if check["latency"] is not None:
            assert float(found["quant.speedup"]) == check["latency"]["speedup"]
            assert float(found["quant.candidate_p50_ms"]) == check["latency"]["candidate_p50_ms"]
            assert float(found["quant.agreement_pct"]) == check["accuracy"]["agreement_pct"]
            assert float(found["quant.coverage_pct"]) == check["coverage"]["pct"]


def test_pytest_benchmark_compares_a_file_of_a_real_run(ran: Path) -> None:
    """Its own command reads the JSON that its option wrote, in which each timed check is two benchmarks."""
    compare = (sys.executable, "-c", "from pytest_benchmark.cli import main; main()", "compare", "benchmark.json")
    done = called(ran, *compare, "--columns=median,rounds", "--sort=name", "--csv=compared")
    assert done.returncode == 0, done.stdout + done.stderr
    benchmarks = json.loads((ran / "benchmark.json").read_text("utf-8"))["benchmarks"]
    timed = [name for name, check in checks(ran).items() if check["latency"] is not None]
    assert sorted(one["name"] for one in benchmarks) == sorted(
        f"{name} {engine}" for name in timed for engine in ("candidate", "reference")
    )
    assert all(one["name"] in done.stdout for one in benchmarks)
    for one in benchmarks:
        latency = checks(ran)[one["name"].split()[0]]["latency"]
        told = {
            name: one["extra_info"][f"quant.{name}"] for name in ("speedup", "candidate_p50_ms", "reference_p50_ms")
        }
        assert told == {name: latency[name] for name in told}


PARSE = """
const {extractResult} = require(process.argv[1] + '/dist/src/extract.js');
const {buildComment} = require(process.argv[1] + '/dist/src/write.js');
extractResult({tool: process.argv[2], outputFilePath: process.argv[3]}).then((found) => {
    console.log(JSON.stringify({benches: found.benches, comment: buildComment('quant', found, found)}));
});
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize(("tool", "better"), [("customSmallerIsBetter", "lower"), ("customBiggerIsBetter", "higher")])
def test_github_action_benchmark_reads_ours(ran: Path, tool: str, better: str) -> None:
    """Its own parser gives each figure with its name, unit and interval, and its comment shows them."""
    found = parsed(ran, tool, exported(ran, better))
    (run, records) = run_from_json(json.loads((ran / "run.json").read_text("utf-8")))
    expected = [one for record in records for one in figures_of(record) if one.better == better]
    assert [(one["value"], one["unit"]) for one in found["benches"]] == [(one.value, one.unit) for one in expected]
    assert all(f"run {run.id}" in one["extra"] for one in found["benches"])
    for one, figure in zip(found["benches"], expected, strict=True):
        assert one.get("range") == (None if figure.low is None else f"{figure.low!r} to {figure.high!r}")
        assert f"`{one['name']}`" in found["comment"]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_github_action_benchmark_reads_pytest_benchmark_s_file(ran: Path) -> None:
    """Its tool ``pytest`` takes the JSON of the same run as it is."""
    found = parsed(ran, "pytest", ran / "benchmark.json")
    assert {one["unit"] for one in found["benches"]} == {"iter/sec"}
    assert "test_it.py::test_good candidate" in {one["name"] for one in found["benches"]}


def exported(folder: Path, better: str) -> Path:
    """Write the list of one direction with our own command."""
    file = folder / f"{better}.json"
    command = (sys.executable, "-c", "from pytest_quant.cli import main; main()", "export", str(file))
    done = called(folder, *command, "--format", "github-action-benchmark", "--better", better)
    assert done.returncode == 0, done.stderr
    return file


def parsed(folder: Path, tool: str, file: Path) -> dict[str, Any]:
    """Return what the action makes of a file, on a push to a repository."""
    action = os.environ.get(ACTION)
    if not action:
        pytest.skip(f"${ACTION} does not name a release of github-action-benchmark")
    commit = {"id": "c0ffee", "message": "m", "timestamp": "2026-01-02T03:04:05Z", "url": "https://example.org"}
    event = folder / "event.json"
    event.write_text(json.dumps({"head_commit": commit | {"author": {}, "committer": {}}}))
    done = called(
        folder, "node", "-e", PARSE, action, tool, str(file), GITHUB_EVENT_PATH=str(event), GITHUB_REPOSITORY="a/b"
    )
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    return read
