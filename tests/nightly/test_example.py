"""The example beyond its first run: two workers, its training script, every toolchain on one model, by one mark too."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.environment.gpu import find_gpus
from tests.integration.test_example_project import CAUGHT, CHECKS, facts
from tests.support.example import EXAMPLE, ExampleRun, copy_example, environment, run_example
from tests.support.in_process import run_here

SCRIPT = Path(__file__).with_name("recount.py")
SEED = "toolchains/test_seed_table.py::test_toolchain[{}]"
QAT = "toolchains/test_qat_digits.py::test_same_network_everywhere[{}-int8-qat]"
MINILM = "toolchains/test_minilm.py::{}"
COLUMNS = "model,backend,precision,scheme,metric,drop,agreement,p50,speedup,coverage,size,memory,build,status"
SEED_ROWS = [
    "ort fp32",
    "ort int8",
    "openvino fp32",
    "openvino int8",
    "torch fp32",
    "torch int8",
    "trt-rtx fp32",
    "trt-rtx int8",
]
CAUGHT_TOOLCHAINS = {
    SEED.format("torch int8"): "min_coverage",
    MINILM.format("test_dynamic_with_one_scale_per_tensor"): "min_sqnr_db",
    MINILM.format("test_static_on_all_operators"): "min_sqnr_db",
}
SAMPLE_PCT = {"pictures": 100.0 / 200, "digits": 100.0 / 898}
RECOUNTED = [
    *((SEED.format(row), "pictures") for row in SEED_ROWS),
    *((QAT.format(name), "digits") for name in ("ort", "openvino", "torch")),
]


def test_two_workers_find_the_same(example: Path, first_run: ExampleRun) -> None:
    """Under ``-n 2`` every verdict but those on time is the same, no good engine fails, each record is there once."""
    run = run_example(example, "-n", "2", "--quant-max-time=1", "--quant-diagnose-time=0")
    assert Counter(check["nodeid"] for check in run.document["checks"]) == Counter(CHECKS)
    assert facts(run) == facts(first_run)
    for name, check in run.checks.items():
        assert check["status"] != "FAIL" or name in CAUGHT, run.output


def test_the_training_script_writes_a_model_as_good_as_the_committed_one(tmp_path: Path) -> None:
    """Trained again, on whatever processor, it gets 95 % of the unseen digits right and opens as ONNX."""
    target = tmp_path / "again.onnx"
    result = subprocess.run(
        [sys.executable, "train_digits.py", str(target)],
        cwd=EXAMPLE,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    accuracy = float(result.stdout.split("bytes, ")[1].split(" %")[0])
    assert accuracy > 95
    assert target.stat().st_size < 300_000


@pytest.fixture(scope="module")
def toolchains_example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example project."""
    return copy_example(tmp_path_factory.mktemp("toolchains"))


@pytest.fixture(scope="module")
def toolchains_run(toolchains_example: Path) -> ExampleRun:
    """One run of the example's folder ``toolchains``, with short timings, no advice, and nothing built before."""
    options = ("--quant-max-time=0.5", "--quant-diagnose-time=0", f"--quant-columns={COLUMNS}")
    return run_example(toolchains_example, "toolchains", *options)


def test_the_run_is_green_and_the_table_whole(toolchains_run: ExampleRun, show: Callable[[str], None]) -> None:
    """Eleven rows of two models in four toolchains, and three of MiniLM; the table is printed."""
    show(toolchains_run.output.rpartition(" quant ")[2].partition("\n")[2])
    assert toolchains_run.returncode == 0, toolchains_run.output
    assert {name for name, _ in RECOUNTED} | {MINILM.format("test_dynamic")} | set(CAUGHT_TOOLCHAINS) == set(
        toolchains_run.checks
    )


@pytest.mark.parametrize("name", CAUGHT_TOOLCHAINS)
def test_what_must_be_caught_is_caught_by_the_one_limit(toolchains_run: ExampleRun, name: str) -> None:
    """Each breaks on the limit that was written for it, whatever its scores look like."""
    check = toolchains_run.checks[name]
    broken = [verdict["limit"] for verdict in check["verdicts"] if verdict["status"] == "FAIL"]
    assert (check["status"], broken) == ("FAIL", [CAUGHT_TOOLCHAINS[name]])


def test_the_no_op_looks_perfect(toolchains_run: ExampleRun) -> None:
    """One of fifty operators is quantized, and accuracy, agreement and SQNR are those of float."""
    check = toolchains_run.checks[SEED.format("torch int8")]
    assert check["coverage"]["pct"] == pytest.approx(100 / 50)
    assert check["accuracy"]["drop"] <= 0.5
    assert check["accuracy"]["agreement_pct"] > 99
    assert check["accuracy"]["sqnr_db"] > 30


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_simulation_is_labelled_and_not_timed(toolchains_run: ExampleRun, precision: str) -> None:
    """TensorRT-RTX built for a GPU that is not here: coverage and size are there, latency is not."""
    check = toolchains_run.checks[SEED.format(f"trt-rtx {precision}")]
    assert check["accuracy"]["simulated"] is True
    assert check["latency"] is None
    assert check["coverage"]["pct"] == 100.0
    assert check["resources"]["run_memory_mb"] is None
    assert "SIMULATED: 2 checks" in toolchains_run.output


@pytest.fixture(scope="module")
def recounted(toolchains_run: ExampleRun, toolchains_example: Path) -> dict[str, float]:
    """The accuracy of every candidate, by a program that shares no code with this package."""
    engines = []
    for name, data in RECOUNTED:
        check = toolchains_run.checks[name]
        engines.append({"key": check["digests"]["engine"], "backend": check["backend"], "data": data})
    request = {"cache": str(toolchains_example / ".quant" / "cache"), "engines": engines}
    program = subprocess.run(
        [sys.executable, SCRIPT],
        input=json.dumps(request),
        cwd=toolchains_example,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert program.returncode == 0, program.stderr
    found: list[Any] = json.loads(program.stdout.splitlines()[-1])
    return dict(zip((name for name, _ in RECOUNTED), found, strict=True))


@pytest.mark.parametrize(("name", "data"), RECOUNTED)
def test_accuracy_is_that_of_the_independent_program(
    toolchains_run: ExampleRun, recounted: dict[str, float], name: str, data: str
) -> None:
    """Equal for files that a runtime runs as they are; a compiled or simulated one may differ in a sample or two."""
    check = toolchains_run.checks[name]
    exact = check["backend"] in ("ort", "openvino")
    tolerance = 1e-9 if exact else 2 * SAMPLE_PCT[data] + 1e-9
    assert check["accuracy"]["candidate"] == pytest.approx(recounted[name], abs=tolerance)


CONFTEST = """
import numpy as np
import pytest
import torch
from pytest_quant import Dataset, Model


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Conv2d(1, 8, 3), torch.nn.Linear(288, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)).flatten(1))


@pytest.fixture
def quant_model():
    return Model.from_torch(Network(), (torch.zeros(2, 1, 8, 8),), name="network")


@pytest.fixture
def quant_data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 1, 8, 8)).astype(np.float32)
    return Dataset.from_arrays(x, x[:, 0, 0, :4].argmax(axis=1), calibration=50)
"""


def run(
    pytester: pytest.Pytester, mark: str, *args: str, start: Callable[..., pytest.RunResult] = run_here
) -> tuple[pytest.RunResult, dict[str, dict[str, Any]]]:
    """Run one test with this mark; return its checks by their id."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(f"import pytest\n@pytest.mark.quant({mark})\ndef test_network(): pass\n")
    result = start(pytester, "--quant-no-latency", "--quant-json=run.json", *args)
    checks = json.loads((pytester.path / "run.json").read_text())["checks"]
    return result, {check["nodeid"].partition("[")[2].rstrip("]") or "only": check for check in checks}


def test_one_module_in_three_runtimes(pytester: pytest.Pytester) -> None:
    """A list of backends makes readable ids; the module is exported once, and all agree with one FP32 reference."""
    result, checks = run(pytester, "backend=['ort', 'openvino', 'torch'], reference='ort', min_agreement=80")
    result.assert_outcomes(passed=3)
    assert set(checks) == {"ort-int8-static", "openvino-int8-static", "torch-int8-static"}
    assert len(list((pytester.path / ".quant" / "cache" / "export").iterdir())) == 1
    assert {check["cache"]["reference"] for check in checks.values()} == {"built", "hit"}
    for check in checks.values():
        assert check["coverage"]["pct"] == 100.0
        assert not check["accuracy"]["simulated"]


def test_a_second_run_exports_and_builds_nothing(pytester: pytest.Pytester) -> None:
    """The key of the export is the module's content, not its address."""
    mark = "backend=['ort'], precision='fp32', min_agreement=80"
    run(pytester, mark, start=pytest.Pytester.runpytest_subprocess)
    exported = pytester.path / ".quant" / "cache" / "export"
    before = list(exported.iterdir())
    _, checks = run(pytester, mark, start=pytest.Pytester.runpytest_subprocess)
    assert {check["cache"]["engine"] for check in checks.values()} == {"hit"}
    assert list(exported.iterdir()) == before


@pytest.mark.parametrize("backend", ["trt", "ort-trt"])
def test_tensorrt_without_a_gpu_is_simulated_only_when_asked(pytester: pytest.Pytester, backend: str) -> None:
    """Without the option the check is skipped loudly; with it all is labelled, and a limit on time stays open."""
    if find_gpus():
        pytest.skip("there is a GPU here")
    mark = f"backend='{backend}', min_agreement=80, max_latency_ms=5"
    result, checks = run(pytester, mark)
    result.assert_outcomes(skipped=1)
    assert checks["only"]["status"] == "UNAVAILABLE"
    result, checks = run(pytester, mark, "--quant-simulate=SM89")
    result.assert_outcomes(passed=1, warnings=1)
    check = checks["only"]
    assert check["accuracy"]["simulated"]
    assert check["coverage"]["pct"] == 100.0
    assert "simulated" in check["coverage"]["provider"]
    assert (check["resources"]["size_mb"], check["resources"]["build_s"]) == (None, None)
    assert check["status"] == "INCONCLUSIVE"
    assert {verdict["limit"]: verdict["status"] for verdict in check["verdicts"]}["max_latency_ms"] == "INCONCLUSIVE"
    result.stdout.fnmatch_lines(["*SIMULATED: 1 check*"])
