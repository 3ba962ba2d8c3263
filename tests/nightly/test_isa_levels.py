"""The conformance suite at every level to which this machine's instruction set can be lowered.

OpenVINO and PyTorch compute with oneDNN, which reads ``ONEDNN_MAX_CPU_ISA`` once in each process; PyTorch's own kernels
follow ``ATEN_CPU_CAPABILITY``. ONNX Runtime's CPU provider has no such switch. What is run is what depends on kernels.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_quant.environment.machine import ONEDNN_LIMIT, isa_tier, onednn_tier

LEVELS = {"AVX2": "avx2", "AVX2_VNNI": "avx_vnni", "AVX512_CORE": "avx512", "AVX512_CORE_VNNI": "avx512_vnni"}
"""By the value of oneDNN's variable our word for the level."""

PROOF = "quantized_nodes_are_counted or half_quantized or planted_no_op or quantized_agrees"
ROOT = Path(__file__).parents[2]


def conformance(names: dict[str, str], chosen: str) -> subprocess.CompletedProcess[str]:
    """Run the `chosen` tests of the backends in `names`, as far as the packages that they need are installed."""
    files = [f"tests/conformance/test_{name}.py" for name, package in names.items() if find_spec(package) is not None]
    if not files:
        pytest.skip(f"none of {', '.join(names.values())} is installed")
    command = [sys.executable, "-m", "pytest", *files, "-k", chosen, "-q", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False)


def lower(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower this machine for the processes that are started, or skip: it is not above that level."""
    monkeypatch.setenv(ONEDNN_LIMIT, level)
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx512" if "512" in level else "avx2")
    if platform.machine().lower() not in ("x86_64", "amd64") or not onednn_tier() == LEVELS[level] != isa_tier():
        pytest.skip(f"this machine ({isa_tier()}) cannot be lowered to {level}")


@pytest.mark.parametrize("level", LEVELS)
def test_proof_and_numbers_of_openvino(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ran is read back right, and int8 stays close to float, at a level below that of the machine."""
    lower(level, monkeypatch)
    run = conformance({"openvino": "nncf", "ort_openvino": "onnxruntime_ep_openvino"}, PROOF)
    assert run.returncode == 0, run.stdout + run.stderr


def test_proof_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without VNNI PyTorch's int8 kernels are others than with it, and are counted as int8 too."""
    lower("AVX2", monkeypatch)
    run = conformance({"torch": "torchao"}, "quantized_nodes_are_counted")
    assert run.returncode == 0, run.stdout + run.stderr
