"""Trap of ONNX Runtime's static quantizer: it names copies of a shared bias without looking who has that name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from pytest_quant.spec import Model
from pytest_quant.testing.conformance.workbench import sqnr_db
from tests.integration.ort_traps.bench import engine_of, spec_of

BIASES = tuple(f"b{number}" for number in range(4))
"""What the quantizer would call a copy of ``b``, whatever number it begins with."""


def chain(folder: Path) -> Model:
    """Four 1 x 1 convolutions with one bias, whose outputs have the names that its copies would get."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.normal(size=(4, 4, 1, 1)).astype(np.float32), f"w{i}") for i in range(4)]
    bias = numpy_helper.from_array(rng.normal(size=4).astype(np.float32), "b")
    nodes = [
        helper.make_node("Conv", [("x", *BIASES)[i], f"w{i}", "b"], [name], name=f"conv_{i}")
        for i, name in enumerate(BIASES)
    ]
    graph = helper.make_graph(
        [*nodes, helper.make_node("Neg", [BIASES[-1]], ["y"], name="neg")],
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4, 2, 2])],
        [*weights, bias],
    )
    path = folder / "chain.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return Model.from_onnx(path)


def test_outputs_called_as_copies_of_a_shared_bias(tmp_path: Path) -> None:
    """Every convolution adds the bias, and the engine gives what the four products and sums give in float64."""
    model = chain(tmp_path)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(64, 4, 2, 2)).astype(np.float32)
    tensors = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / "chain.onnx").graph.initializer
    }
    states = x.astype(np.float64)
    for index in range(4):
        states = np.einsum("oi,nihw->nohw", tensors[f"w{index}"][:, :, 0, 0], states) + tensors["b"][:, None, None]
    with engine_of(spec_of(model, "static"), lambda: iter([{"x": x}])) as engine:
        assert sqnr_db({"y": -states}, engine.run({"x": x})) > 25
