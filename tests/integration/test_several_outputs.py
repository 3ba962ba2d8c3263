"""A model with boxes in pixels and scores: each output is judged by itself, on a real engine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.integration.projects import output, run_project, write_project
from tests.support import models

BOXES = 4
CLASSES = 3
UNLABELLED = "return Dataset.from_arrays(x, calibration=40)"


def two_heads(path: Path, score_gain: float = 1.0) -> Path:
    """Write a model (n, 8) -> boxes (n, 4) in pixels, hundreds of them, and scores (n, 3), each of about 1.

    `score_gain` is what the score head's result is multiplied by at last.
    """
    random = np.random.default_rng(1)
    tensors = {
        "to_boxes": (200 * random.normal(size=(models.FEATURES, BOXES))).astype(np.float32),
        "to_scores": random.normal(size=(models.FEATURES, CLASSES)).astype(np.float32),
        "gain": np.float32(score_gain),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "to_boxes"], ["boxes"], name="box_head"),
        helper.make_node("MatMul", ["x", "to_scores"], ["raw"], name="score_head"),
        helper.make_node("Mul", ["raw", "gain"], ["scores"], name="gain_of_scores"),
    ]
    graph = helper.make_graph(
        nodes,
        "two_heads",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", models.FEATURES])],
        [
            helper.make_tensor_value_info("boxes", TensorProto.FLOAT, ["n", BOXES]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", CLASSES]),
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()],
    )
    return models.save(graph, path, 17)


def joined(source: Path, path: Path) -> Path:
    """Write the model at `source` with boxes and scores in one output ``both`` (n, 7)."""
    import onnx

    model = onnx.load(str(source))
    model.graph.node.append(helper.make_node("Concat", ["boxes", "scores"], ["both"], name="join", axis=1))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("both", TensorProto.FLOAT, ["n", BOXES + CLASSES]))
    path.write_bytes(model.SerializeToString())
    return path


def quantize(source: Path, path: Path) -> Path:
    """Quantize the matrix products of a model by ONNX Runtime's own tool."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._batches: Iterator[dict[str, NDArray[np.float32]]] = iter([{"x": models.samples(64)[0]}])

        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            return next(self._batches, None)

    logging.disable(logging.WARNING)
    quantize_static(
        str(source), str(path), Reader(), quant_format=QuantFormat.QDQ, op_types_to_quantize=["MatMul"],
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
    logging.disable(logging.NOTSET)
    return path


@pytest.fixture
def dead(pytester: pytest.Pytester) -> Path:
    """A quantized model whose scores are multiplied by 0, beside the good float model ``model.onnx``."""
    two_heads(pytester.path / "model.onnx")
    return quantize(two_heads(pytester.path / "dead_float.onnx", 0.0), pytester.path / "dead.onnx")


def test_a_dead_head_beside_boxes_in_pixels_fails(pytester: pytest.Pytester, dead: Path) -> None:
    """Pooled by energy both heads have more than 40 dB; by itself the score head has 0."""
    write_project(pytester, data=UNLABELLED, mark="quantized='dead.onnx', min_sqnr_db=20")
    result, (check,) = run_project(pytester)
    result.assert_outcomes(failed=1)
    verdict = {one["limit"]: one for one in check["verdicts"]}["min_sqnr_db"]
    assert (verdict["status"], verdict["observed"]) == ("FAIL", pytest.approx(0.0, abs=1e-6))
    assert "'scores'" in verdict["reason"]
    assert check["accuracy"]["worst_output"] == "scores"
    by_output = check["accuracy"]["by_output"]
    assert by_output["boxes"]["sqnr_db"] > 30
    assert by_output["scores"]["sqnr_db"] == check["accuracy"]["sqnr_db"] == pytest.approx(0.0, abs=1e-6)
    assert "'scores'" in output(result)


def test_a_dead_head_fails_without_any_limit(pytester: pytest.Pytester, dead: Path) -> None:
    """It says nothing about the input; a limit on coverage only is what most marks begin with."""
    write_project(pytester, data=UNLABELLED, mark="quantized='dead.onnx'")
    result, (check,) = run_project(pytester)
    result.assert_outcomes(failed=1)
    broken = [one for one in check["verdicts"] if one["status"] == "FAIL"]
    assert [one["limit"] for one in broken] == ["outputs"]
    assert broken[0]["reason"].startswith("output 'scores': constant, 0 everywhere, where the reference goes from")
    assert [fault["output"] for fault in check["accuracy"]["faults"]] == ["scores"]
    assert check["accuracy"]["by_output"]["scores"]["reference_constant"] is False
    text = " ".join(output(result).split())
    assert "an output is the same whatever the input" in text
    assert "cannot be compared" not in text


@pytest.mark.parametrize(
    ("mark", "status"),
    [
        ("min_sqnr_db={'scores': 20, 'boxes': 30}", {"min_sqnr_db[scores]": "FAIL", "min_sqnr_db[boxes]": "PASS"}),
        ("min_sqnr_db=20, output='boxes'", {"min_sqnr_db": "PASS"}),
        (
            "max_abs_error={'boxes': 100}, min_cosine=0.99",
            {"max_abs_error[boxes]": "PASS", "min_cosine": "INCONCLUSIVE"},
        ),
    ],
)
def test_limits_by_output(pytester: pytest.Pytester, dead: Path, mark: str, status: dict[str, str]) -> None:
    """A dict has one verdict for each output that it names; ``output`` judges one of them, and finds faults of all."""
    assert dead.is_file()
    write_project(pytester, data=UNLABELLED, mark=f"quantized='dead.onnx', {mark}")
    _, (check,) = run_project(pytester)
    found = {one["limit"]: one["status"] for one in check["verdicts"]}
    assert found == {"outputs": "FAIL", "min_coverage": "PASS", **status}


GROUPS = "channels={'both': {'boxes': (0, 4), 'scores': (4, 7)}}"


@pytest.mark.parametrize(
    ("mark", "status"),
    [
        ("min_sqnr_db=20", {"min_coverage": "PASS", "min_sqnr_db": "PASS"}),
        (f"min_sqnr_db=20, {GROUPS}", {"outputs": "FAIL", "min_coverage": "PASS", "min_sqnr_db": "FAIL"}),
        (
            f"min_sqnr_db={{'both.boxes': 20}}, {GROUPS}",
            {"outputs": "FAIL", "min_coverage": "PASS", "min_sqnr_db[both.boxes]": "PASS"},
        ),
    ],
    ids=["as one", "by group", "by name"],
)
def test_groups_of_channels_tell_a_dead_half(
    pytester: pytest.Pytester, dead: Path, mark: str, status: dict[str, str]
) -> None:
    """In one tensor of boxes and scores only the user can say which is which."""
    joined(pytester.path / "model.onnx", pytester.path / "joined.onnx")
    joined(dead, pytester.path / "dead_joined.onnx")
    write_project(
        pytester,
        data=UNLABELLED,
        model="joined.onnx",
        mark=f"quantized='dead_joined.onnx', {mark}",
    )
    _, (check,) = run_project(pytester)
    assert {one["limit"]: one["status"] for one in check["verdicts"]} == status


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        ("min_sqnr_db={'score': 20}", "did you mean 'scores'?"),
        ("channels={'scores': {'all': (0, 4)}}", "(0, 4) on axis 1 of shape (n, 3)"),
    ],
)
def test_what_the_model_does_not_have_is_an_error(pytester: pytest.Pytester, dead: Path, mark: str, says: str) -> None:
    """It names the nearest output, or the shape, before anything is judged."""
    assert dead.is_file()
    write_project(pytester, data=UNLABELLED, mark=f"quantized='dead.onnx', {mark}")
    result, (check,) = run_project(pytester)
    result.assert_outcomes(errors=1)
    assert says in output(result)
    assert check["status"] == "ERROR"
