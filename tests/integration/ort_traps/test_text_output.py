"""A classifier that says its class in words, as those converted from scikit-learn do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pytest_quant.cache import Cache
from pytest_quant.data import open_data
from pytest_quant.measure.accuracy import evaluate
from pytest_quant.measure.outputs import read_outputs, record_outputs, run_over, side_by_side
from pytest_quant.spec import Dataset, Model
from tests.integration.ort_traps.bench import engine_of, spec_of
from tests.support.leading import leading

SCORES = np.array([[1.0, 0.0], [0.0, 1.0], [0.2, 0.8]], dtype=np.float32)


def says(words: list[str], path: Path) -> Model:
    """Write a model of scores `x` (n, 2) to the class of the larger one, in words."""
    top = helper.make_node("ArgMax", ["x"], ["index"], axis=1, keepdims=0)
    word = helper.make_node(
        "LabelEncoder", ["index"], ["word"], domain="ai.onnx.ml", keys_int64s=[0, 1], values_strings=words
    )
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])]
    outputs = [helper.make_tensor_value_info("word", TensorProto.STRING, ["n"])]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([top, word], "words", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return Model.from_onnx(path)


@pytest.mark.parametrize(("words", "equal"), [(["cat", "horse"], True), (["cat", "hen"], False)])
def test_words_are_recorded_and_compared(words: list[str], equal: bool, tmp_path: Path) -> None:
    """Recorded words come back as they were, and those of a candidate are told equal or not."""
    reference = spec_of(says(["cat", "horse"], tmp_path / "reference.onnx"), None)
    candidate = spec_of(says(words, tmp_path / "candidate.onnx"), None)
    with engine_of(reference, lambda: iter(())) as first, engine_of(candidate, lambda: iter(())) as second:
        data = open_data(Dataset.from_arrays(SCORES), first.signature)
        recorded = record_outputs(leading(first, 2), data, Cache(tmp_path / "cache"), {})
        said = np.concatenate([chunk.outputs["word"] for chunk in read_outputs(recorded)])
        pairs = side_by_side(read_outputs(recorded), run_over(leading(second, 3), data))
        result = evaluate(pairs, None, output=None)
    assert said.tolist() == ["cat", "horse", "horse"]
    assert result.faults == ()
    assert result.identical is equal
