"""How a model is quantized by scheme, options and instruction set, how else it could be, and what a scheme can take.

Static quantization takes the operators with weights (`WEIGHTED`) and those that hand 8-bit values on
(`PASSING`), so that a chain such as Conv, Relu, MaxPool, Conv stays in int8 and the CPU kernels fuse. It leaves
arithmetic between activations (Add, Mul, Softmax, normalization, Concat) in float: their int8 forms save little time
and cost accuracy (a file-type classifier falls from 0.88 to 0.08 with all operators, 0.88 with these). Dynamic
quantization takes matrix products with constant weights; ConvInteger is slower than a float Conv, so convolutions are
taken only in a model that has nothing else. ``op_types`` overrides both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import TypeAlias

import onnx

from pytest_quant.backends.offer import Remedy, change_scheme, set_option, seven_bits_note, vary_calibration
from pytest_quant.backends.onnx_files import model_file, read_nodes
from pytest_quant.backends.onnx_files.graphs import FLOAT_BYTES, PASSING, all_graphs, all_nodes, scopes
from pytest_quant.backends.onnx_files.lineage import excluded_parts
from pytest_quant.backends.ort import ALL_OPS, CPU, OrtOptions, parse_options
from pytest_quant.backends.ort.macs import FLOAT_OPS, FUSED, INT8_OPS, ONNX_OPS, PRODUCT_OPS, RanNode
from pytest_quant.backends.ort.prepare import WEIGHTED
from pytest_quant.environment.machine import adds_in_16_bits, isa_tier, onednn_tier
from pytest_quant.spec import Calibration, EngineSpec


def excluded_nodes(spec: EngineSpec, prepared: Path) -> list[str]:
    """Return the names by which the quantizer knows the nodes that `spec` excludes.

    A name may stand in the body of an If, Loop or Scan or in a function of the file; all nodes of that name are meant.
    A Gemm may be split again into ``name_MatMul``.

    Raises
    ------
    UsageError : the model has no node of that name, so that nothing would be left in float.
    """
    if not spec.exclude:
        return []
    parts = excluded_parts(spec, {node.name for node in all_nodes(read_nodes(prepared))})
    names = set(spec.exclude).union(*parts.values())
    return sorted(names | {f"{name}_MatMul" for name in names})


RECIPE_VERSION = "6"
"""Raised when the same ingredients would be built into something else."""

DYNAMIC = ("Attention", "LSTM", "MatMul")
"""Operators that a scheme takes unless ``op_types`` says otherwise; dynamic turns Gemm into MatMul first."""


def recipe_of(spec: EngineSpec) -> OrtOptions:
    """Resolve the options of `spec` on this machine: no choice but `op_types` is ``None``."""
    options = parse_options(spec.options)
    is_arm = _tier(spec) in ("i8mm", "dotprod", "sve", "neon")
    return replace(
        options,
        op_types=_op_types(spec, options),
        reduce_range=_saturates(spec, options) if options.reduce_range is None else options.reduce_range,
        activation_type=options.activation_type or ("int8" if is_arm else "uint8"),
        symmetric=options.symmetric if options.symmetric is not None else spec.precision == "int4",
    )


def notes_of(spec: EngineSpec) -> tuple[str, ...]:
    """Return the choices of `recipe_of` that the user did not make and should know of, a sentence each."""
    options = parse_options(spec.options)
    if options.reduce_range is not None or not _saturates(spec, options):
        return ()
    return (seven_bits_note(spec, "weights", _tier(spec), "'reduce_range': False"),)


def note_left_nodes(spec: EngineSpec, file: Path) -> tuple[str, ...]:
    """Say which nodes of the engine's `file` stay in float because the quantizer cannot take them."""
    left = find_left_nodes(spec, read_nodes(file).graph)
    named = shorten(", ".join(left), 200, placeholder=" ...")
    helps = recipe_of(spec).per_channel and spec.scheme != "weight-only"
    more = "; options={'per_channel': False} may quantize more" if helps else ""
    return (f"ONNX Runtime's quantizer cannot take {named}: left in float{more}",) if named else ()


def find_left_nodes(spec: EngineSpec, graph: onnx.GraphProto) -> list[str]:
    """Return the nodes that the quantizer of the scheme fails on, or writes as kernels refuse them, see `_fails`.

    Parameters
    ----------
    graph : what `prepare` wrote, or the engine's own, in which these nodes are as they were.
    """
    recipe, graphs = recipe_of(spec), list(all_graphs(graph))
    weights = {tensor.name: tensor for inner in graphs for tensor in inner.initializer}
    taken = _quantized_op_types(spec, recipe).intersection(WEIGHTED)
    nodes = [node for inner in graphs for node in inner.node if node.op_type in taken and node.name]
    failing = [node.name for node in nodes if _fails(node, weights.get(node.input[1]), spec.scheme, recipe)]
    return [name for name in failing if name not in spec.exclude]


def _fails(node: onnx.NodeProto, weight: onnx.TensorProto | None, scheme: str | None, recipe: OrtOptions) -> bool:
    """Tell whether a quantizer cannot take `node`.

    Those are, with a scale for each channel, a ConvTranspose of groups with a bias, which has more channels than its
    weights, and for dynamic what is multiplied by weights of more axes or fewer than a matrix; weights without a
    channel; for dynamic convolutions whose weights are computed; for weight-only matrices of doubles or integers.
    """
    if weight is None or scheme == "weight-only":
        floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
        return node.op_type == "Conv" and scheme == "dynamic" if weight is None else weight.data_type not in floats
    groups = any(each.name == "group" and each.i > 1 for each in node.attribute) and weight.dims[1] > 1
    is_biased = len(node.input) > 2 and recipe.quantizer_extra.get("QuantizeBias", True)
    is_uneven = scheme == "dynamic" and node.op_type == "MatMul" and len(weight.dims) != 2
    unfit = is_uneven or (node.op_type == "ConvTranspose" and groups and is_biased)
    return weight.dims[0 if node.op_type == "Conv" else -1] == 0 or bool(unfit and recipe.per_channel)


def static_op_types(recipe: OrtOptions) -> list[str]:
    """Return the op types to quantize, spelled out: an empty list means other things to calibrator and quantizer."""
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    return sorted(recipe.op_types or {*QDQRegistry, *QLinearOpsRegistry})


def _op_types(spec: EngineSpec, options: OrtOptions) -> tuple[str, ...] | None:
    if options.op_types is not None:
        return None if options.op_types == (ALL_OPS,) else tuple(sorted(options.op_types))
    return {"static": WEIGHTED + PASSING, "dynamic": DYNAMIC}.get(spec.scheme or "", ("MatMul",))


def _tier(spec: EngineSpec) -> str:
    """Return the instruction set of the kernels: OpenVINO as a provider multiplies by oneDNN, which can be lowered."""
    return onednn_tier() if spec.backend == "ort-openvino" else isa_tier()


def _saturates(spec: EngineSpec, options: OrtOptions) -> bool:
    """Tell whether u8 x s8 kernels would add in 16 bits and saturate; u8 weights run in kernels that widen."""
    return (
        spec.scheme in ("static", "dynamic")
        and options.weight_type == "int8"
        and adds_in_16_bits(_tier(spec), spec.cpus)
    )


_MATRICES = frozenset({"Gemm", "MatMul"})


def remedies(spec: EngineSpec, schemes: tuple[str | None, ...]) -> Iterator[Remedy]:
    """Yield the other ways to quantize `spec`; `schemes` are those of the backend for its precision."""
    recipe = recipe_of(spec)
    if spec.scheme in ("static", "dynamic") and not recipe.per_channel:
        yield from set_option(spec, "per_channel", True)
    if spec.scheme in ("static", "dynamic") and (recipe.reduce_range or _saturates(spec, recipe)):
        yield from set_option(spec, "reduce_range", not recipe.reduce_range)
    if spec.cpus and spec.precision == "int8":
        yield from set_option(spec, "x64quantprecision", True)
    if spec.scheme == "static":
        op_types = {node.op_type for node in all_nodes(read_nodes(model_file(spec.model)))}
        if "dynamic" in schemes and op_types & {*DYNAMIC, "Gemm"}:
            yield change_scheme(spec, "dynamic")
        yield from vary_ranges(spec, len(quantized_nodes(spec)))
    if spec.scheme == "dynamic" and "static" in schemes:
        yield change_scheme(spec, "static")
    yield from _quantize_tables(spec, recipe.op_types or ())
    if spec.scheme == "weight-only":
        for name, value in (("block_size", 16), ("symmetric", False), ("accuracy_level", 0)):
            if getattr(recipe, name) != value:
                yield from set_option(spec, name, value)


def float_tables(graph: onnx.GraphProto) -> set[str]:
    """Return the names of the nodes that look rows up in a table of floats, as embeddings do."""
    graphs = list(all_graphs(graph))
    floats = (each for inner in graphs for each in inner.initializer if each.data_type in FLOAT_BYTES)
    tables = {each.name for each in floats if len(each.dims) > 1}
    gathers = (node for inner in graphs for node in inner.node if node.op_type == "Gather")
    return {node.name for node in gathers if node.input[0] in tables}


def _quantize_tables(spec: EngineSpec, taken: tuple[str, ...]) -> Iterator[Remedy]:
    """Yield `spec` with its tables quantized too, beside the operators that are `taken`; nothing without tables."""
    model = read_nodes(model_file(spec.model))
    if taken and "Gather" not in taken and float_tables(model.graph):
        present = {"MatMul", *(node.op_type for node in all_nodes(model))}
        for remedy in set_option(spec, "op_types", [*(name for name in taken if name in present), "Gather"]):
            yield replace(remedy, is_smaller=True)


def vary_ranges(spec: EngineSpec, nodes: int) -> Iterator[Remedy]:
    """Yield the other ways to find the ranges of `nodes` nodes; entropy is slow, it tries every threshold in Python."""
    # The likeliest help first, and the slowest last.
    percentiles = Calibration("percentile"), Calibration("percentile", 99.9)
    for remedy in vary_calibration(spec, *percentiles, Calibration("minmax"), Calibration("entropy")):
        is_slow = remedy.spec.calibration.method == "entropy"
        # Half a second for one tensor with 1024 bins; a node has two.
        yield replace(remedy, more_s=0.5 * 2 * nodes) if is_slow else remedy


def quantized_nodes(spec: EngineSpec) -> tuple[str, ...]:
    """Return the named nodes of the user's model that the scheme takes and `spec` does not exclude.

    Operators that hand 8-bit values on are left out: where the products around them are in float they round nothing.
    """
    taken = _quantized_op_types(spec, recipe_of(spec))
    nodes = all_nodes(read_nodes(model_file(spec.model)))
    names = (node.name for node in nodes if node.op_type in taken and node.name and node.name not in spec.exclude)
    return tuple(dict.fromkeys(names))


def _quantized_op_types(spec: EngineSpec, recipe: OrtOptions) -> frozenset[str]:
    """Return the operators that the scheme quantizes."""
    if spec.scheme == "static":
        return frozenset(static_op_types(recipe)).difference(PASSING)
    if spec.scheme == "dynamic":
        return frozenset({*(recipe.op_types or DYNAMIC), "Conv", "Gemm"})
    return _MATRICES if spec.scheme == "weight-only" else frozenset()


Reach: TypeAlias = Callable[[RanNode], str]
"""Gives the operator of a node that the scheme cannot quantize, for reports; empty for one that it can."""


def reach_of(spec: EngineSpec, graph: onnx.GraphProto) -> Reach | None:
    """Return which products of an engine's `graph` the scheme of `spec` can quantize; ``None`` if it takes all.

    What ``exclude`` leaves in float it can quantize all the same. The static quantizer takes the main graph alone,
    whatever its options are.
    """
    if spec.scheme not in ("static", "dynamic", "weight-only"):
        return None
    left = find_left_nodes(spec, graph)
    taken: Collection[str] = _MATRICES
    # Names of products none of whose operands is a constant, the products inside bodies included.
    weightless = {
        node.name
        for inner, constants in scopes(graph)
        for node in inner.node
        if node.op_type in FLOAT_OPS and constants.isdisjoint((*node.input[:2], *node.output)) and node.name
    }
    if spec.scheme == "dynamic":
        op_types = recipe_of(spec).op_types
        taken = PRODUCT_OPS if op_types is None else {*op_types, *DYNAMIC, "Gemm"}
    elif spec.scheme == "static":
        # ONNX Runtime fuses products that were left in float into operators that the model has not.
        present = {node.op_type for inner in all_graphs(graph) for node in inner.node}
        taken = _static_kernel_op_types() | (FLOAT_OPS - present)

    def beyond(node: RanNode) -> str:
        operator, called = ONNX_OPS.get(node.op_type, node.op_type), node.name.removeprefix(FUSED)
        if spec.scheme == "static" and node.within:
            return f"{operator} inside {node.within}"
        # A node of the optimized graph keeps its name, or has one that begins with it.
        if spec.scheme != "static" and any(called == name or called.startswith(f"{name}/") for name in weightless):
            return f"{operator} between activations"
        if operator not in taken:
            return f"{operator}{' unless op_types names it' if (spec.scheme, operator) == ('dynamic', 'Conv') else ''}"
        return f"some {operator}" if called in left else ""

    return beyond


@cache
def _static_kernel_op_types() -> frozenset[str]:
    """Return the operators that get Q/DQ pairs and whose 8-bit form has a kernel on the CPU, from lists of its own."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def
    from onnxruntime.quantization.registry import QDQRegistry

    kernels = {kernel.op_name for kernel in get_all_opkernel_def() if kernel.provider == CPU}
    return frozenset({ONNX_OPS.get(name, "") for name in kernels & INT8_OPS} & QDQRegistry.keys())
