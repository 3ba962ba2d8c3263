"""The precision of every compiled layer: counted from OpenVINO's runtime model, weighted by the source model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pytest_quant.backends.readback import (
    FLOATS,
    Kind,
    Shape,
    Tallied,
    attention_macs,
    convolution_macs,
    matrix_macs,
    precision_of,
    product_kind,
    recurrent_macs,
    tally,
)
from pytest_quant.errors import BuildError
from pytest_quant.result import Coverage


@dataclass(frozen=True, slots=True)
class PluginLayer:
    """One layer that the CPU plugin runs.

    Attributes
    ----------
    kind : the plugin's type of it, ``FullyConnected`` or ``Subgraph`` for example.
    kernel : its implementation, ``brgemm_avx512_i8``; the last word is often what it multiplies in.
    precision : the type that the plugin reports for it.
    origins : names of the operators of the model that became part of it.
    input_types : element types of its inputs, constants among them, in OpenVINO's short words, ``f32`` or ``i8``.
    """

    name: str
    kind: str
    kernel: str
    precision: str
    origins: tuple[str, ...]
    input_types: tuple[str, ...]


def layers_of(runtime: Any) -> list[PluginLayer]:
    """Return the layers of ``CompiledModel.get_runtime_model()`` in the order they run."""
    return [_layer(node) for node in runtime.get_ordered_ops()]


def _layer(node: Any) -> PluginLayer:
    facts = node.get_rt_info()
    return PluginLayer(
        name=node.get_friendly_name(),
        kind=_text(facts, "layerType"),
        kernel=_text(facts, "primitiveType"),
        precision=_text(facts, "runtimePrecision"),
        origins=tuple(name for name in _text(facts, "originalLayersNames").split(",") if name),
        input_types=tuple(port.get_element_type().get_type_name() for port in node.inputs()),
    )


def fixed_shapes(node: Any) -> tuple[Shape, ...] | None:
    """Return the shapes of all inputs and of the first output of a node; ``None`` if any shape is not fixed."""
    ports = [port.get_partial_shape() for port in (*node.inputs(), *node.outputs()[:1])]
    if any(shape.is_dynamic for shape in ports):
        return None
    return tuple(tuple(shape.to_shape()) for shape in ports)


def _text(facts: Any, name: str) -> str:
    return str(facts[name].astype(str)) if name in facts else ""


_TRANSPOSED = {"ConvolutionBackpropData": (1, 1), "GroupConvolutionBackpropData": (1, 2)}
_CONVOLUTIONS = {"Convolution": (1, 1), "GroupConvolution": (1, 2), "DeformableConvolution": (2, 1)} | _TRANSPOSED
"""By type the place of the weights among the inputs, and how many leading axes of them count output channels."""

RECURRENT = frozenset({"GRUCell", "GRUSequence", "LSTMCell", "LSTMSequence", "RNNCell", "RNNSequence"})
_ATTENTION = "ScaledDotProductAttention"
_NESTING = frozenset({"If", "Loop", "TensorIterator"})
OPERATORS = frozenset({"MatMul", _ATTENTION}) | _CONVOLUTIONS.keys() | RECURRENT
"""Those that multiply and accumulate, as a model spells them."""


@dataclass(frozen=True, slots=True)
class SourceGraph:
    """What the read-back must know of the model that was compiled.

    Attributes
    ----------
    macs : the multiply-accumulates of each operator that has any, by its name; ``None`` where shapes are not fixed.
    quantizers : names of the operators that round to few levels.
    hollow : names of the operators that run bodies of their own, without a product in any.
    behind : the products that each operator computes with, no other product between, by its name.
    """

    macs: Mapping[str, int | None]
    quantizers: frozenset[str]
    hollow: frozenset[str] = frozenset()
    behind: Mapping[str, frozenset[str]] = field(default_factory=dict)


def source_of(model: Any) -> SourceGraph:
    """Return the compute of `model`, whose shapes are fixed. Products of constants alone are none: they are folded."""
    macs: dict[str, int | None] = {}
    quantizers: set[str] = set()
    hollow: set[str] = set()
    constants: set[str] = set()
    behind: dict[str, frozenset[str]] = {}
    for node in model.get_ordered_ops():
        kind, name = node.get_type_name(), node.get_friendly_name()
        inputs = [port.get_source_output().get_node().get_friendly_name() for port in node.inputs()]
        behind[name] = frozenset().union(*(behind[each] for each in inputs))
        if kind == "Constant" or (inputs and constants.issuperset(inputs)):
            constants.add(name)
        elif kind in OPERATORS:
            shapes = fixed_shapes(node)
            macs[name] = None if shapes is None else operator_macs(kind, shapes[:-1], shapes[-1])
            behind[name] = frozenset({name})
        elif kind == "FakeQuantize":
            quantizers.add(name)
        elif kind in _NESTING and not _holds_products(node):
            hollow.add(name)
    return SourceGraph(macs, frozenset(quantizers), frozenset(hollow), behind)


def _holds_products(node: Any) -> bool:
    """Tell whether a body of `node` multiplies, or a body in that."""
    bodies = [node.get_function(i) for i in range(2)] if node.get_type_name() == "If" else [node.get_function()]
    inside = [child for body in bodies for child in body.get_ordered_ops()]
    kinds = {child.get_type_name() for child in inside}
    return not OPERATORS.isdisjoint(kinds) or any(
        _holds_products(child) for child in inside if child.get_type_name() in _NESTING
    )


def operator_macs(kind: str, inputs: Sequence[Shape], output: Shape) -> int:
    """Return the multiply-accumulates of an operator, bias and activation apart.

    Parameters
    ----------
    kind : OpenVINO's name of the operator, one of `OPERATORS`.
    inputs : shapes of all its inputs, weights among them, in the operator's order.
    output : shape of its first output.
    """
    if kind in _CONVOLUTIONS:
        place, leading = _CONVOLUTIONS[kind]
        return convolution_macs(inputs[0] if kind in _TRANSPOSED else output, inputs[place], leading)
    if kind == "MatMul":
        return matrix_macs(inputs[0], output)
    if kind in RECURRENT:
        return recurrent_macs(inputs[0], inputs[-3], inputs[-2])
    return attention_macs(*inputs[:3])


PROVIDER = "CPU"

COMPUTE = frozenset({
    "Convolution", "Deconvolution", "DeformableConvolution", "FullyConnected", "GatherMatmul", "LLMMLP", "MatMul",
    "PagedAttention", "QKVProjection", "RNNCell", "RNNSeq", "ScaledDotProductAttention",
    "ScaledDotProductAttentionWithKVCache",
})  # fmt: skip
"""Layer types of the CPU plugin that multiply and accumulate; an LSTM or GRU is an RNNSeq there."""

# What static quantization cannot bring to int8 where it ran in float, as reports call it: the plugin has no kernel of
# integers for recurrent cells, and has those for a ConvTranspose with one group and small strides only.
_NO_INTEGERS = {"Deconvolution": "ConvTranspose", "RNNCell": "recurrent cells", "RNNSeq": "recurrent cells"}

_BODIES = frozenset({"If", "SubModel", "TensorIterator"})
"""Layer types with a model of their own inside, which the runtime model does not show."""

FUSED = "Subgraph"
CONVERSIONS = frozenset({"FakeQuantize", "Reorder"})

SEEN_APART: Mapping[str, object] = {"SNIPPETS_MODE": "DISABLE"}
"""A setting of the CPU plugin: it fuses nothing into a `Subgraph` then. Which products are integers is decided
before that, in the pass that turns FakeQuantize into integer layers."""


def measure_coverage(source: Any, precision: str, compiled: Callable[[Mapping[str, object]], Any]) -> Coverage:
    """Count the layers of the runtime model of `source`, whose shapes are fixed.

    A fused layer with integers inside does not show the precision of its products. They are then looked up in the same
    model, compiled once more without fusing, and a note in the coverage names that.

    Parameters
    ----------
    source : an ``openvino.Model`` whose shapes are fixed.
    precision : the one asked for, ``fp32`` or ``int8``.
    compiled : compiles `source` with additional settings and returns the compiled model.
    """
    facts = source_of(source)
    layers = layers_of(compiled({}).get_runtime_model())
    apart = []
    if hidden_products(layers, facts, precision):
        with suppress(BuildError):
            apart = layers_of(compiled(SEEN_APART).get_runtime_model())
    return count_layers(layers, facts, precision, apart)


def hidden_products(layers: Sequence[PluginLayer], source: SourceGraph, precision: str) -> list[str]:
    """Return the names of the operators of `source` that ran inside a layer whose products cannot be seen.

    Parameters
    ----------
    layers : those of the runtime model, see `layers_of`.
    source : the compute of the model that was compiled, see `source_of`.
    precision : the one asked for, ``fp32`` or ``int8``.
    """
    return [node.name for node in _tally_layers(layers, source, precision) if node.kind is Kind.OPAQUE and node.name]


def count_layers(
    layers: Sequence[PluginLayer], source: SourceGraph, precision: str, apart: Sequence[PluginLayer] = ()
) -> Coverage:
    """Return the coverage of the layers that run.

    Parameters
    ----------
    layers : those of the runtime model, see `layers_of`.
    source : the compute of the model that was compiled, see `source_of`.
    precision : the one asked for, ``fp32`` or ``int8``.
    apart : layers of the same model compiled with `SEEN_APART`, in which products hidden in `layers` are looked up;
        empty where it was not compiled so.
    """
    tallied = _tally_layers(layers, source, precision)
    clear = {
        node.name: node for node in _tally_layers(apart, source, precision) if node.kind in (Kind.ASKED, Kind.OTHER)
    }
    named = {each.name for each in tallied}
    lost = [each for name, each in clear.items() if name in source.macs and name not in named]
    unknown = iter(lost if len(lost) == sum(each.name == "" and each.kind is Kind.OPAQUE for each in tallied) else ())
    seen = [
        (clear.get(each.name) or each if each.name else next(unknown, each)) if each.kind is Kind.OPAQUE else each
        for each in tallied
    ]
    identified = sum(before is not after for before, after in zip(tallied, seen, strict=True))
    coverage = tally(seen, PROVIDER)
    if not identified:
        return coverage
    settings = ", ".join(f"{name}={value}" for name, value in SEEN_APART.items())
    note = (
        f"{identified} products run inside a fused kernel that cannot be seen into; their precision was read from the "
        f"same model compiled without fusing ({settings})"
    )
    return replace(coverage, notes=(note,))


def _tally_layers(layers: Sequence[PluginLayer], source: SourceGraph, precision: str) -> list[Tallied]:
    """Return every layer, or one entry for each product of the model that became part of it."""
    products = {
        place: _products_in(layer, source) for place, layer in enumerate(layers) if layer.kind in COMPUTE | {FUSED}
    }
    answered = {name for place, names in products.items() if layers[place].kind in COMPUTE for name in names}
    for place, names in products.items():
        if layers[place].kind in COMPUTE and not names:
            # It is called like what was fused behind its product: an addition of a bias, or a scale.
            sources = {source.behind.get(origin, frozenset()) - answered for origin in layers[place].origins}
            names += next((each for each in sources if len(each) == 1), ())
            answered.update(names)
    tallied: list[Tallied] = []
    unnamed = 0
    for place, layer in enumerate(layers):
        names = products.get(place, [])
        if layer.kind == FUSED:
            names = [name for name in names if name not in answered]
            answered.update(names)
        kind_for = partial(kind_of, layer, quantizers=source.quantizers, swallows_compute=bool(names))
        kind = kind_for(precision)
        holds = precision in map(precision_of, layer.input_types[1:2])
        # Four bits are a width of weights: nothing multiplies in them.
        kind = Kind.ASKED if kind is Kind.OTHER and holds and precision == "int4" else kind
        beyond = _NO_INTEGERS.get(layer.kind, "")
        if names and kind in (Kind.ASKED, Kind.OTHER, Kind.OPAQUE):
            known = "", beyond, holds, kind_for("int8") is Kind.ASKED
            tallied += [Tallied(name, layer.kind, kind, source.macs[name], *known) for name in names]
            continue
        unnamed += kind in (Kind.ASKED, Kind.OTHER)
        if layer.kind in _BODIES and layer.origins and source.hollow.issuperset(layer.origins):
            kind = Kind.BESIDE
        # A cell of two directions is two layers, which carry numbers that differ from one process to the next.
        called = layer.name.rstrip("_0123456789") if layer.kind in _NO_INTEGERS else layer.name
        tallied.append(Tallied("" if kind is Kind.OPAQUE else called, layer.kind, kind, beyond=beyond, holds=holds))
    lost = [name for name in source.macs if name not in answered] if layers else []
    # Which of them the layers without a name are is not known.
    return tallied + [Tallied("", "Unknown", Kind.OPAQUE, source.macs[name]) for name in lost[unnamed:]]


def _products_in(layer: PluginLayer, source: SourceGraph) -> list[str]:
    """Return the products of the model that a layer is made from.

    The pass that makes integer layers renames: the product becomes ``name_original``, and what is left of the scale
    behind it ``name/DequantizationMultiply``, under which a layer that multiplies has swallowed the product itself.
    """
    products = []
    for origin in layer.origins:
        before, mark, _ = origin.rpartition("/Dequantization")
        scaled = before if mark and layer.kind in COMPUTE else ""
        products += [name for name in (origin, origin.removesuffix("_original"), scaled) if name in source.macs]
    return list(dict.fromkeys(products))


def find_computing_type(precision: str, kernel: str) -> str:
    """Return what a layer multiplied in: the last word of its kernel if that is a type, else its `precision`.

    A layer of int8 weights and float inputs reports i8 and runs ``brgemm_avx2_f32``: it decompresses its weights.
    """
    word = kernel.rpartition("_")[2].lower()
    return precision if product_kind(word, "") is Kind.BESIDE else word


def kind_of(layer: PluginLayer, precision: str, quantizers: frozenset[str], *, swallows_compute: bool = False) -> Kind:
    """Return how a layer counts in the coverage of an engine of `precision`.

    A fused subgraph without integers ran everything inside it in float. One that holds integers, as inputs, as its own
    type or in a quantizer inside it, is opaque: ``jit_avx512_f32`` names only the type of its inputs and outputs.

    Parameters
    ----------
    layer : a layer of the runtime model.
    precision : the one asked for, ``fp32`` or ``int8``.
    quantizers : names of the operators of the source model that round to few levels.
    swallows_compute : whether products of the source model became part of the layer; read for a fused subgraph only.
    """
    if layer.kind in _BODIES:
        return Kind.OPAQUE
    ran_in = find_computing_type(layer.precision, layer.kernel)
    if layer.kind in COMPUTE or (layer.kind == FUSED and swallows_compute):
        types = {precision_of(each) for each in layer.input_types}
        rounds = not (types.isdisjoint({"int4", "int8"}) and quantizers.isdisjoint(layer.origins))
        if layer.kind == FUSED and (rounds or precision_of(ran_in) not in FLOATS):
            return Kind.OPAQUE
        return product_kind(ran_in, precision)
    return Kind.CONVERSION if layer.kind in CONVERSIONS else Kind.BESIDE
