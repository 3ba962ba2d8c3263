"""Layers of a plan, out of the builder's log, and what they mean."""

from __future__ import annotations

import pytest

from pytest_quant.backends.trt.coverage import Layer, count_layers, layer_of, layers_in_log

TENSOR = (
    "Dimensions: [-1,8], Strides: [8,1], StrideOrder: [1,0], Datatype: {}, Format: (Linear) Row major linear format"
)
LINE = (
    "Name: {name}, LayerType: {kind}, Inputs: [ {{ Name: a, {inputs}}}], Constants: [ {{ Name: c, {constants}}}], "
    "Outputs: [ {{ Name: o, {outputs}}}], TacticName: t, StreamId: 0, Metadata: {metadata}"
)


def line(kind: str, reads: str, nodes: str) -> str:
    """One line as the log has it; the weights are Int8 and the output is Float."""
    metadata = "".join(f"[ONNX Layer: {node}]" for node in nodes.split())
    tensors = {
        "inputs": TENSOR.format(reads), "constants": TENSOR.format("Int8"), "outputs": TENSOR.format("Float"),
    }  # fmt: skip
    return LINE.format(name=f"{nodes}_myl0", kind=kind, metadata=metadata, **tensors)


def test_only_what_is_read_decides() -> None:
    """Weights and outputs have types too, and are not mistaken for inputs."""
    (row,) = layers_in_log("Layers:\n" + line("correlation", "Float", "conv relu"))
    assert layer_of(row) == Layer("conv relu_myl0", "correlation", ("Float",), ("conv", "relu"))


def test_other_lines_are_not_layers() -> None:
    """A layer without inputs is one, a line about memory is not."""
    empty = (
        "Name: s, LayerType: shape_call, Inputs: [], Constants: [], Outputs: [], TacticName: , StreamId: 0, Metadata: "
    )
    text = f"[VERBOSE] Layers:\n{empty}\nAdding 1 engine(s) to plan file."
    assert [row["kind"] for row in layers_in_log(text)] == ["shape_call"]


OPS = {"conv": "Conv", "dense": "Gemm", "relu": "Relu"}


@pytest.mark.parametrize(
    ("conv", "dense", "pct", "opaque"),
    [
        (line("correlation", "Int8", "conv"), line("gemm", "Int8", "dense"), 100.0, 0),
        (line("correlation", "Int8", "conv"), line("gemm", "Float", "dense"), 50.0, 0),
        (line("correlation", "Float", "conv relu"), line("runtime_fusion", "Float", "dense"), 0.0, 0),
        (line("correlation", "Int8", "conv"), line("kgen", "Int8", "dense"), 50.0, 1),
        (line("correlation", "Int8", "conv"), "", 50.0, 1),
    ],
)
def test_coverage_of_a_plan(conv: str, dense: str, pct: float, opaque: int) -> None:
    """Products count by the type they read; one inside a pointwise kernel, or gone, is counted apart."""
    layers = [layer_of(row) for row in layers_in_log(f"{conv}\n{dense}")]
    found = count_layers(layers, OPS, "int8", "TensorRT", {})
    assert (found.pct, found.opaque_nodes, found.unit) == (pct, opaque, "nodes")


def test_a_product_split_over_layers_is_int8_only_if_all_are() -> None:
    """One half in float is not INT8."""
    both = f"{line('gemm', 'Int8', 'dense')}\n{line('gemm', 'Float', 'dense')}"
    found = count_layers([layer_of(row) for row in layers_in_log(both)], {"dense": "Gemm"}, "int8", "TensorRT", {})
    assert found.pct == 0.0


def test_products_weigh_what_they_multiply() -> None:
    """900 of 1000 multiply-accumulates in int8 are 90 %, although it is one product of two."""
    layers = [
        layer_of(row) for row in layers_in_log(f"{line('gemm', 'Int8', 'conv')}\n{line('gemm', 'Float', 'dense')}")
    ]
    found = count_layers(layers, OPS, "int8", "TensorRT", {"conv": 900, "dense": 100})
    assert (found.pct, found.unit) == (90.0, "MACs")


def test_a_recurrence_is_compute_that_is_not_int8() -> None:
    """An LSTM is part of what an int8 plan leaves in float, whatever its layers look like."""
    layers = [layer_of(row) for row in layers_in_log(f"{line('gemm', 'Int8', 'dense')}\n{line('kgen', 'Int8', 'rnn')}")]
    found = count_layers(layers, {"dense": "Gemm", "rnn": "LSTM"}, "int8", "TensorRT", {"dense": 100, "rnn": 300})
    assert (found.pct, found.float_nodes) == (25.0, ("rnn",))
