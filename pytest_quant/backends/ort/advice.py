"""Other ways to quantize that ONNX Runtime offers where accuracy is lost, and the nodes that they take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_quant.backends.offer import Remedy, calibrated, with_option, with_scheme
from pytest_quant.backends.onnx_files import model_file, read_graph
from pytest_quant.backends.onnx_files.graphs import all_nodes
from pytest_quant.backends.ort.calibrate import static_op_types
from pytest_quant.backends.ort.recipe import PASSING, Recipe, recipe_of
from pytest_quant.environment import has_vnni
from pytest_quant.spec import Calibration, EngineSpec

_CALIBRATIONS = (
    Calibration("percentile"),
    Calibration("percentile", 99.9),
    Calibration("minmax"),
    Calibration("entropy"),
)
"""The likeliest help first, and the slowest last."""

_ENTROPY_S = 0.5
"""Seconds of one tensor with 1024 bins; a node has two."""

_SMALLEST_BLOCK = 16
_DYNAMIC = frozenset({"Attention", "Gemm", "LSTM", "MatMul"})
_NARROW = frozenset({"Gemm", "MatMul"})


def remedies(spec: EngineSpec, schemes: tuple[str | None, ...]) -> Iterator[Remedy]:
    """Yield the other ways to quantize `spec`; `schemes` are those of the backend for its precision."""
    recipe = recipe_of(spec)
    if spec.scheme in ("static", "dynamic"):
        if not recipe.per_channel:
            yield from with_option(spec, "per_channel", True)
        yield from _other_range(spec, recipe)
    if spec.scheme == "static":
        if "dynamic" in schemes and _op_types(spec) & _DYNAMIC:
            yield with_scheme(spec, "dynamic")
        yield from other_ranges(spec, len(quantized_nodes(spec)))
    if spec.scheme == "dynamic" and "static" in schemes:
        yield with_scheme(spec, "static")
    if spec.scheme == "weight-only":
        if recipe.block_size > _SMALLEST_BLOCK:
            yield from with_option(spec, "block_size", _SMALLEST_BLOCK)
        if recipe.symmetric:
            yield from with_option(spec, "symmetric", False)
        if recipe.accuracy_level:
            yield from with_option(spec, "accuracy_level", 0)


def other_ranges(spec: EngineSpec, nodes: int) -> Iterator[Remedy]:
    """Yield the other ways to find the ranges of `nodes` nodes; entropy is slow, it tries every threshold in Python."""
    entropy_s = _ENTROPY_S * 2 * nodes
    for remedy in calibrated(spec, *_CALIBRATIONS):
        is_slow = remedy.spec.calibration.method == "entropy"
        yield replace(remedy, more_s=entropy_s) if is_slow else remedy


def quantized_nodes(spec: EngineSpec) -> tuple[str, ...]:
    """Return the named nodes of the user's model that the scheme takes and `spec` does not exclude.

    Operators that hand 8-bit values on are left out: where the products around them are in float they round nothing.
    """
    recipe = recipe_of(spec)
    if spec.scheme == "static":
        taken = frozenset(static_op_types(recipe)).difference(PASSING)
    elif spec.scheme == "dynamic":
        taken = _DYNAMIC | {"Conv"} if recipe.op_types is None else frozenset({*recipe.op_types, "Conv", "Gemm"})
    elif spec.scheme == "weight-only":
        taken = _NARROW
    else:
        return ()
    nodes = all_nodes(read_graph(model_file(spec.model)))
    names = (node.name for node in nodes if node.op_type in taken and node.name and node.name not in spec.exclude)
    return tuple(dict.fromkeys(names))


def _op_types(spec: EngineSpec) -> frozenset[str]:
    return frozenset(node.op_type for node in all_nodes(read_graph(model_file(spec.model))))


def _other_range(spec: EngineSpec, recipe: Recipe) -> Iterator[Remedy]:
    """Yield weights of 7 bits where 8 may saturate, and of 8 where 7 were chosen."""
    if recipe.reduce_range:
        yield from with_option(spec, "reduce_range", False)
    elif not has_vnni() and recipe.weight_type == "int8":
        yield from with_option(spec, "reduce_range", True)
