"""One mark over several runtimes, and TensorRT without a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pytest_quant.environment.gpu import find_gpus
from tests.support.in_process import run_here

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
