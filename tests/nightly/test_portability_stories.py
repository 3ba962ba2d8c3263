"""Two public stories of INT8 files that are right on one processor and wrong on the next, and torch by a switch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime.quantization as ort_quantization
import pytest

from pytest_quant.environment.machine import has_vnni
from tests.integration.projects import run_marks
from tests.integration.test_portability import check_onednn, check_remedies, emulated, project
from tests.support import models

__all__ = ["project"]

pytestmark = pytest.mark.skipif(not has_vnni(), reason="on a CPU without VNNI all runs are those of an older one")


class _Uniform(ort_quantization.CalibrationDataReader):  # type: ignore[misc]  # it has no types
    """Gives one batch."""

    def __init__(self, batch: np.ndarray) -> None:
        self._left = [{"x": batch}]

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The batch, then nothing."""
        return self._left.pop() if self._left else None


def _quantize(source: Path, target: Path, batch: np.ndarray) -> None:
    """Quantize as people do: u8 activations, weights of eight bits, whatever processors it is shipped to."""
    ort_quantization.quantize_static(
        source,
        target,
        _Uniform(batch),
        quant_format=ort_quantization.QuantFormat.QDQ,
        activation_type=ort_quantization.QuantType.QUInt8,
        weight_type=ort_quantization.QuantType.QInt8,
    )


@emulated
def test_a_classifier_whose_answers_flip_elsewhere(project: pytest.Pytester) -> None:
    """nnstreamer#4865: an INT8 file that is right where it was made gives other classes on an older processor."""
    x = np.random.default_rng(4).normal(size=(64, 64)).astype(np.float32)
    _quantize(project.path / "dense.onnx", project.path / "int8.onnx", x)
    mark = "model='dense.onnx', quantized='int8.onnx', data='classes', min_agreement=90"
    _, checks = run_marks(project, {"here": mark, "everywhere": f"{mark}, cpus='any'"})
    assert (checks["here"]["status"], checks["everywhere"]["status"]) == ("PASS", "FAIL")
    check_remedies(project, checks["everywhere"], mark)


DETECTOR = """(float[n, 3, 16, 16] x) => (float[n, 1, 16, 16] y) {
    [c1] a = Conv<pads = [1, 1, 1, 1]>(x, w1) [r] h = Relu(a) [c2] s = Conv(h, w2, b) [y] y = Sigmoid(s) }"""
FOUND = """

def found(outputs, labels):
    return (outputs > 0.5).sum(axis=(1, 2, 3)).astype(float)


BOXES = Metric(found, better="higher", unit="", scale=1)
"""


@emulated
def test_a_detector_that_loses_boxes_elsewhere(project: pytest.Pytester) -> None:
    """docling.rs#351: fewer detections without VNNI; the limit on their number breaks there and only there."""
    rng = np.random.default_rng(3)
    w1 = np.abs(rng.normal(1.0, 0.2, (8, 3, 3, 3))).astype(np.float32) / 27
    w2 = np.abs(rng.normal(1.0, 0.2, (1, 8, 1, 1))).astype(np.float32)
    file = models.parsed(project.path / "boxes.onnx", DETECTOR, w1=w1, w2=w2, b=np.array([-4.1], np.float32))
    x = rng.uniform(size=(32, 3, 16, 16)).astype(np.float32)
    _quantize(file, project.path / "boxes_int8.onnx", x)
    with (project.path / "conftest.py").open("a") as conftest:
        conftest.write(FOUND)
    metric = "metric=__import__('conftest').BOXES"
    mark = f"model='boxes.onnx', quantized='boxes_int8.onnx', data='pictures', min_ratio=0.95, {metric}"
    _, checks = run_marks(project, {"here": mark, "everywhere": f"{mark}, cpus='any'"})
    assert (checks["here"]["status"], checks["everywhere"]["status"]) == ("PASS", "FAIL")
    there = checks["everywhere"]
    assert there["portability"]["drop"] >= there["accuracy"]["reference"] / 6
    check_remedies(project, there, mark)


MODULE = """

@pytest.fixture
def net():
    import torch
    from pytest_quant import Model

    layer = torch.nn.Linear(64, 10, bias=False)
    layer.weight.data = torch.from_numpy(W.T.copy())
    return Model.from_torch(torch.nn.Sequential(layer).eval(), (torch.zeros(4, 64),))
"""


def test_torch_is_limited_by_the_switch_of_onednn(project: pytest.Pytester) -> None:
    """Inductor compiles the program anew in the other process."""
    conftest = project.path / "conftest.py"
    conftest.write_text(conftest.read_text() + MODULE)
    check_onednn(project, "torch", "net", "options={'reduce_range': False}")
