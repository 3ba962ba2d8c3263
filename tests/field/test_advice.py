"""Advice in reports was untrue, or led to the same error: followed, it brings what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime.quantization as ort_quantization
import pytest

from tests.integration.projects import run_marks
from tests.support import models

CONFTEST = """
import numpy as np
import pytest
from pytest_quant import Dataset


@pytest.fixture
def positive():
    x = np.abs(np.random.default_rng(0).normal(size=(60, 32))).astype(np.float32)
    return Dataset.from_arrays(x, calibration=20)


@pytest.fixture
def ids():
    return Dataset.from_arrays({"ids": np.random.default_rng(2).integers(0, 500, size=(40, 8))}, calibration=20)
"""


def tied(path: Path) -> None:
    """Write a language model whose head is the table of its embedding turned: 32 000 of its floats are that table."""
    rng = np.random.default_rng(2)
    table, middle = ((rng.normal(size=shape) / 8).astype(np.float32) for shape in ((500, 64), (64, 64)))
    graph = """(int64[n, t] ids) => (float[n, t, 500] y) {
        [embed] e = Gather(table, ids) [middle] m = MatMul(e, w) [tanh] h = Tanh(m)
        [turn] tt = Transpose<perm = [1, 0]>(table) [lm_head] y = MatMul(h, tt)
    }"""
    models.parsed(path, graph, table=table, w=middle)


def test_an_embedding_that_stays_in_float_is_named_and_quantized(pytester: pytest.Pytester) -> None:
    """The INT8 file is larger than FP32, its table is named, and what is pasted makes it as small as promised."""
    pytester.makeconftest(CONFTEST)
    tied(pytester.path / "tied.onnx")
    limits = "model='tied.onnx', data='ids', max_size_mb=0.09"
    marks = {"int8": f"{limits}, scheme='dynamic'", "int4": f"{limits}, precision='int4', scheme='weight-only'"}
    result, before = run_marks(pytester, marks)
    hints = {name: check["hints"][0] for name, check in before.items()}
    for name, check in before.items():
        assert check["resources"]["size_mb"] > check["resources"]["reference_size_mb"]
        assert hints[name]["paste"] == "options={'op_types': ['MatMul', 'Gather']}"
        assert ", which repairs it" in hints[name]["text"]
        assert any("0.128 MB for embed (Gather)" in hint["text"] for hint in check["hints"])
    result.stdout.fnmatch_lines(["*the engine is larger than FP32: that takes 0.1447 MB"])
    _, after = run_marks(pytester, {name: f"{marks[name]}, {hint['paste']}" for name, hint in hints.items()})
    for name, check in after.items():
        assert check["status"] == "PASS"
        assert check["resources"]["size_mb"] == pytest.approx(hints[name]["after"])


class _Reader(ort_quantization.CalibrationDataReader):  # type: ignore[misc]  # it has no types
    """Gives one batch of values above 0, so that int8 around 0 would waste half of its range."""

    def __init__(self) -> None:
        self._left = [{"x": np.abs(np.random.default_rng(1).normal(size=(60, 32))).astype(np.float32)}]

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The batch, then nothing."""
        return self._left.pop() if self._left else None


def test_ranges_beside_zero_are_refused_with_what_tensorrt_takes(pytester: pytest.Pytester) -> None:
    """ONNX Runtime's own int8 file: ``exclude`` changes nothing in it, and each of the two ways that are told works."""
    pytest.importorskip("tensorrt_rtx")
    pytester.makeconftest(CONFTEST)
    weight = np.random.default_rng(0).normal(size=(32, 8)).astype(np.float32)
    models.parsed(pytester.path / "net.onnx", "(float[n, 32] x) => (float[n, 8] y) { [fc] y = MatMul(x, w) }", w=weight)
    for name, is_symmetric in (("beside", False), ("around", True)):
        ort_quantization.quantize_static(
            pytester.path / "net.onnx",
            pytester.path / f"{name}.onnx",
            _Reader(),
            activation_type=ort_quantization.QuantType.QInt8,
            weight_type=ort_quantization.QuantType.QInt8,
            extra_options={"ActivationSymmetric": is_symmetric, "WeightSymmetric": True},
        )
    of = "model='net.onnx', data='positive', min_sqnr_db=20, backend='trt-rtx', options={'compute_capability': 'SM89'}"
    marks = {name: f"{of}, quantized='{name}.onnx'" for name in ("beside", "around")}
    _, checks = run_marks(pytester, {**marks, "by_tensorrt": f"{of}, scheme='static'"})
    assert {name: check["status"] for name, check in checks.items()} == {
        "beside": "ERROR",
        "around": "PASS",
        "by_tensorrt": "PASS",
    }
    text = checks["beside"]["message"]
    assert text.startswith("TensorRT cannot take beside.onnx: node 'x_QuantizeLinear' (QuantizeLinear)")
    assert "ActivationSymmetric=True" in text
    assert "drop quantized= and write scheme='static'" in text
    assert "exclude" not in text
