"""What was compiled, in which precision: counted from OpenVINO's runtime model."""

from __future__ import annotations

from math import prod
from typing import Any

from pytest_quant.backends.tally import Kind, Tallied, tally
from pytest_quant.result import Coverage

PROVIDER = "CPU"

COMPUTE = frozenset(
    {
        "Convolution",
        "Deconvolution",
        "DeformableConvolution",
        "FullyConnected",
        "GatherMatmul",
        "LLMMLP",
        "MatMul",
        "PagedAttention",
        "QKVProjection",
        "RNNCell",
        "RNNSeq",
        "ScaledDotProductAttention",
        "ScaledDotProductAttentionWithKVCache",
    }
)
"""Layer types of the CPU plugin that multiply and accumulate; an LSTM or GRU is an RNNSeq there."""

_BODIES = frozenset({"If", "SubModel", "TensorIterator"})
"""Layer types with a model of their own inside, which the runtime model does not show."""

_FUSED = "Subgraph"
_CONVERSIONS = frozenset({"FakeQuantize", "Reorder"})
_ASKED = {"fp32": frozenset({"f32"}), "int8": frozenset({"u8", "i8"})}
_FLOATS = frozenset({"f32", "f16", "bf16"})
_SOURCE_COMPUTE = frozenset({"Convolution", "GroupConvolution", "MatMul"})
"""Operators of the model file whose disappearance into a fused node would hide compute."""


def measure_coverage(runtime: Any, precision: str, source: Any) -> Coverage:
    """Count the layers of a `runtime` model compiled for fixed shapes; `source` is the model it was made from."""
    sources = {node.get_friendly_name() for node in source.get_ordered_ops() if node.get_type_name() in _SOURCE_COMPUTE}
    layers = [one for node in runtime.get_ordered_ops() for one in _tallied(node, precision, sources)]
    return tally(layers, PROVIDER)


def _tallied(node: Any, precision: str, sources: set[str]) -> list[Tallied]:
    """Return the layer, or one entry for each compute node that a fused subgraph swallowed."""
    facts = node.get_rt_info()
    layer, ran_in = (
        _text(facts, "layerType"),
        computed_in(_text(facts, "runtimePrecision"), _text(facts, "primitiveType")),
    )
    compute = [name for name in _text(facts, "originalLayersNames").split(",") if name in sources]
    kind = kind_of(layer, ran_in, precision, swallows_compute=bool(compute))
    if layer == _FUSED and compute:
        return [Tallied(name, layer, kind) for name in compute]
    eligible = kind in (Kind.ASKED, Kind.OTHER)
    name = compute[0] if compute else node.get_friendly_name()
    return [Tallied(name, layer, kind, _macs(node, layer) if eligible else None)]


def computed_in(precision: str, kernel: str) -> str:
    """Return what a layer multiplied in: the last word of its kernel, where that is a type, else its `precision`.

    A layer of int8 weights and float inputs reports i8 and runs ``brgemm_avx2_f32``: it decompresses its weights.
    """
    word = kernel.rpartition("_")[2].lower()
    return word if word in _FLOATS | _ASKED["int8"] else precision


def kind_of(layer: str, ran_in: str, precision: str, *, swallows_compute: bool = False) -> Kind:
    """Tell what a layer means for an engine of `precision`.

    A fused subgraph that runs in float runs all it swallowed in float; of one that runs in integers it is not known.
    """
    if layer in _BODIES:
        return Kind.OPAQUE
    if layer in COMPUTE or (layer == _FUSED and swallows_compute):
        if layer == _FUSED and ran_in not in _FLOATS:
            return Kind.OPAQUE
        if ran_in not in _FLOATS | _ASKED["int8"]:
            return Kind.BESIDE
        return Kind.ASKED if ran_in in _ASKED[precision] else Kind.OTHER
    return Kind.CONVERSION if layer in _CONVERSIONS else Kind.BESIDE


def macs(layer: str, inputs: list[tuple[int, ...]], output: tuple[int, ...]) -> int | None:
    """Return the multiply-accumulates of a layer; ``None`` for types whose shapes do not tell.

    A convolution takes one product for each weight of an output channel: weights are (out, in, ...), grouped ones
    (groups, out, in, ...), one axis more than the input. A product of matrices takes K for each output element.
    """
    if layer == "Convolution":
        leading = 2 if len(inputs[1]) > len(inputs[0]) else 1
        return prod(output) * prod(inputs[1][leading:])
    if layer == "Deconvolution":
        leading = 2 if len(inputs[1]) > len(inputs[0]) else 1
        return prod(inputs[0]) * prod(inputs[1][leading:])
    if layer == "FullyConnected":
        return prod(output) * inputs[0][-1]
    if layer == "MatMul" and len(inputs[0]) > 1 and len(output) > 1:
        return prod(output) * prod(inputs[0][-2:]) // max(1, output[-2])
    return None


def _macs(node: Any, layer: str) -> int | None:
    shapes = [port.get_partial_shape() for port in (*node.inputs(), node.output(0))]
    if any(shape.is_dynamic for shape in shapes):
        return None
    *inputs, output = (tuple(shape.to_shape()) for shape in shapes)
    return macs(layer, inputs, output)


def _text(facts: Any, name: str) -> str:
    return str(facts[name].astype(str)) if name in facts else ""
