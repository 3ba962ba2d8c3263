"""The example beyond its first run: two workers, its training script, and every toolchain on one model."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.test_example_project import CAUGHT, CHECKS, facts
from tests.support.example import EXAMPLE, ExampleRun, copy_example, environment, run_example

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
ROWS = {*map(SEED.format, SEED_ROWS), *map(QAT.format, ("ort", "openvino", "torch")), MINILM.format("test_dynamic")}


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
def toolchains_run(tmp_path_factory: pytest.TempPathFactory) -> ExampleRun:
    """One run of the example's folder ``toolchains``, with short timings, no advice, and nothing built before."""
    options = ("--quant-max-time=0.5", "--quant-diagnose-time=0", f"--quant-columns={COLUMNS}")
    return run_example(copy_example(tmp_path_factory.mktemp("toolchains")), "toolchains", *options)


def test_the_run_is_green_and_the_table_whole(toolchains_run: ExampleRun, show: Callable[[str], None]) -> None:
    """Eleven rows of two models in four toolchains, and three of MiniLM; the table is printed."""
    show(toolchains_run.output.rpartition(" quant ")[2].partition("\n")[2])
    assert toolchains_run.returncode == 0, toolchains_run.output
    assert set(toolchains_run.checks) == ROWS | set(CAUGHT_TOOLCHAINS)


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
