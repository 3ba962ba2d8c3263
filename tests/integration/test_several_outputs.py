"""A model with boxes in pixels and scores: each output is judged by itself, on a real engine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tests.integration.projects import output, run_marks, write_project
from tests.support import models

BOXES = 4
CLASSES = 3
UNLABELLED = "return Dataset.from_arrays(x, calibration=40)"


def two_heads(path: Path, score_gain: float = 1.0) -> Path:
    """Write a model (n, 8) -> boxes (n, 4) in pixels, hundreds of them, and scores (n, 3), each of about 1.

    `score_gain` is what the score head's result is multiplied by at last.
    """
    random = np.random.default_rng(1)
    graph = f"""(float[n, {models.FEATURES}] x) => (float[n, {BOXES}] boxes, float[n, {CLASSES}] scores) {{
        [box_head] boxes = MatMul(x, to_boxes)
        [score_head] raw = MatMul(x, to_scores)
        [gain_of_scores] scores = Mul(raw, gain)
    }}"""
    to_boxes = (200 * random.normal(size=(models.FEATURES, BOXES))).astype(np.float32)
    to_scores = random.normal(size=(models.FEATURES, CLASSES)).astype(np.float32)
    gain = np.array(score_gain, np.float32)
    return models.parsed(path, graph, to_boxes=to_boxes, to_scores=to_scores, gain=gain)


def joined(source: Path, path: Path) -> Path:
    """Write the model at `source` with boxes and scores in one output ``both`` (n, 7)."""
    import onnx

    model = onnx.load(str(source))
    model.graph.node.append(helper.make_node("Concat", ["boxes", "scores"], ["both"], name="join", axis=1))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("both", TensorProto.FLOAT, ["n", BOXES + CLASSES]))
    path.write_bytes(model.SerializeToString())
    return path


def quantize(source: Path, path: Path, inputs: NDArray[np.float32], operator: str = "MatMul") -> Path:
    """Quantize the operators of one kind of a model with an input ``x`` by ONNX Runtime's own tool."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._batches: Iterator[dict[str, NDArray[np.float32]]] = iter([{"x": inputs}])

        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            return next(self._batches, None)

    logging.disable(logging.WARNING)
    quantize_static(
        str(source), str(path), Reader(), quant_format=QuantFormat.QDQ, op_types_to_quantize=[operator],
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
    logging.disable(logging.NOTSET)
    return path


DEAD = "quantized='dead.onnx'"
BOTH = "model='joined.onnx', quantized='dead_joined.onnx'"
GROUPS = "channels={'both': {'boxes': (0, 4), 'scores': (4, 7)}}"
MARKS: dict[str, tuple[str, dict[str, str]]] = {
    "no_limit": (DEAD, {"outputs": "FAIL"}),
    "one_limit": (f"{DEAD}, min_sqnr_db=20", {"outputs": "FAIL", "min_sqnr_db": "FAIL"}),
    "each_output": (
        f"{DEAD}, min_sqnr_db={{'scores': 20, 'boxes': 30}}",
        {"outputs": "FAIL", "min_sqnr_db[scores]": "FAIL", "min_sqnr_db[boxes]": "PASS"},
    ),
    "one_output": (f"{DEAD}, min_sqnr_db=20, output='boxes'", {"outputs": "FAIL", "min_sqnr_db": "PASS"}),
    "two_limits": (
        f"{DEAD}, max_abs_error={{'boxes': 100}}, min_cosine=0.99",
        {"outputs": "FAIL", "max_abs_error[boxes]": "PASS", "min_cosine": "INCONCLUSIVE"},
    ),
    "joined": (f"{BOTH}, min_sqnr_db=20", {"min_sqnr_db": "PASS"}),
    "groups": (f"{BOTH}, min_sqnr_db=20, {GROUPS}", {"outputs": "FAIL", "min_sqnr_db": "FAIL"}),
    "one_group": (
        f"{BOTH}, min_sqnr_db={{'both.boxes': 20}}, {GROUPS}",
        {"outputs": "FAIL", "min_sqnr_db[both.boxes]": "PASS"},
    ),
}
"""By name, the mark and the status of each verdict but that of the coverage."""

WRONG = {
    "no_such_output": (f"{DEAD}, min_sqnr_db={{'score': 20}}", "did you mean 'scores'?"),
    "too_many_channels": (f"{DEAD}, channels={{'scores': {{'all': (0, 4)}}}}", "(0, 4) on axis 1 of shape (n, 3)"),
}
"""What the model does not have: the mark, and the nearest output or the shape that the error names."""


def test_a_dead_head_beside_boxes_in_pixels_is_judged_by_itself(pytester: pytest.Pytester) -> None:
    """A quantized model whose scores are multiplied by 0: pooled by energy both heads have 40 dB, the scores have 0.

    Without any limit it fails too. In one tensor of boxes and scores only the user can say which is which.
    """
    float_model = two_heads(pytester.path / "model.onnx")
    float_dead = two_heads(pytester.path / "dead_float.onnx", 0.0)
    dead = quantize(float_dead, pytester.path / "dead.onnx", models.samples(64)[0])
    joined(float_model, pytester.path / "joined.onnx")
    joined(dead, pytester.path / "dead_joined.onnx")
    write_project(pytester, data=UNLABELLED)
    marks = {name: mark for name, (mark, _) in MARKS.items()} | {name: mark for name, (mark, _) in WRONG.items()}
    (pytester.path / "test_model.py").unlink()
    result, checks = run_marks(pytester, marks)
    outcome = {
        name: {each["limit"]: each["status"] for each in checks[name]["verdicts"] if each["limit"] != "min_coverage"}
        for name in MARKS
    }
    assert outcome == {name: statuses for name, (_, statuses) in MARKS.items()}
    for name, (_, words) in WRONG.items():
        assert checks[name]["status"] == "ERROR"
        assert words in checks[name]["message"]
    accuracy = checks["one_limit"]["accuracy"]
    (verdict,) = [each for each in checks["one_limit"]["verdicts"] if each["limit"] == "min_sqnr_db"]
    assert verdict["observed"] == accuracy["sqnr_db"] == pytest.approx(0.0, abs=1e-6)
    assert "'scores'" in verdict["reason"]
    assert accuracy["worst_output"] == "scores"
    assert accuracy["by_output"]["boxes"]["sqnr_db"] > 30
    (constant,) = [each for each in checks["no_limit"]["verdicts"] if each["status"] == "FAIL"]
    assert constant["reason"].startswith("output 'scores': constant, 0 everywhere, where the reference goes from")
    text = " ".join(output(result).split())
    assert "an output is the same whatever the input" in text
    assert "cannot be compared" not in text
