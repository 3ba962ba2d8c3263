"""Layers of a TensorRT engine as a profile has them."""

from __future__ import annotations

import pytest

from pytest_quant.backends.layers import LayerTime
from pytest_quant.backends.trt.coverage import Layer
from pytest_quant.backends.trt.layers import layer_times_of

OPS = {"q": "QuantizeLinear", "dq": "DequantizeLinear", "conv": "Conv", "relu": "Relu", "turn": "Transpose"}


@pytest.mark.parametrize(
    ("layer", "nodes", "role"),
    [
        (Layer("conv + relu", "CaskConvolution", ("Int8",), ("dq", "conv", "relu", "q")), ("conv", "relu"), "compute"),
        (Layer("q", "Scale", ("Float",), ("q",)), (), "reformat"),
        (Layer("Reformatting CopyNode for Input Tensor 0", "Reformat", ("Float",), ()), (), "reformat"),
        (Layer("turn", "Shuffle", ("Float",), ("turn",)), ("turn",), "compute"),
        (Layer("shuffle between", "Shuffle", ("Float",), ()), (), "reformat"),
        (Layer("__myl_wait", "signal", (), ()), (), "other"),
    ],
)
def test_nodes_and_role(layer: Layer, nodes: tuple[str, ...], role: str) -> None:
    """Q/DQ nodes are no counterpart of anything in a float engine; a layer of them alone changes types."""
    (found,) = layer_times_of([layer], OPS)
    assert (found.nodes, found.role) == (nodes, role)


def test_the_precision_is_that_of_the_first_input() -> None:
    """In our words where there is one for it."""
    words = {"Int8": "int8", "Half": "fp16", "BFloat16": "bf16", "Float": "fp32", "FP8": "fp8", "Int32": "int32"}
    layers = [Layer(word, "Conv", (word, "Float"), ("conv",)) for word in words]
    assert [one.precision for one in layer_times_of(layers, OPS)] == list(words.values())


def test_what_ran_is_in_the_order_of_the_profiler() -> None:
    """A layer that never ran is left out, and one that the inspector does not know is other."""
    layers = [Layer("idle", "NoOp", (), ()), Layer("conv", "Conv", ("Half",), ("conv",))]
    assert layer_times_of(layers, OPS, {"secret": 1.0, "conv": 2.0}) == (
        LayerTime("secret", "", "", 1.0, (), "other"),
        LayerTime("conv", "Conv", "fp16", 2.0, ("conv",), "compute"),
    )


def test_without_a_run_all_layers_are_there_without_times() -> None:
    """So it is with an engine that was built for a GPU that is not here."""
    layers = [Layer("conv", "Conv", ("Half",), ("conv",)), Layer("idle", "NoOp", (), ())]
    assert [(one.name, one.ms) for one in layer_times_of(layers, OPS)] == [("conv", None), ("idle", None)]
