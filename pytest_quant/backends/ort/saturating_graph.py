"""A graph whose products of matrices saturate in 16 bits, as kernels for x86 without VNNI do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper, parser

from pytest_quant.backends.onnx_files.graphs import dequantizer_of, opset_of, refill
from pytest_quant.backends.ort import parse_options
from pytest_quant.backends.ort.build import engine_file
from pytest_quant.backends.ort.engine import OrtEngine
from pytest_quant.backends.ort.integer_products import KnownGraph, columns_of, kind_of_factor, know_graph, largest_sum
from pytest_quant.backends.saturation import MOST
from pytest_quant.spec import EngineSpec

_DOMAIN, _FUNCTION = "pytest_quant", "SaturatingProduct"
_OLDEST = 13
"""Version of the standard operators from which the function below is one."""

_BODY = f"""
<domain: "{_DOMAIN}", opset_import: ["": OPSET]>
{_FUNCTION} (a, zero, pairs, sums, rows_shape, pads, pairs_shape, n) => (product)
{{
    floats = Cast <to = 1> (a)
    rows = Reshape (floats, rows_shape)
    even = Pad (rows, pads)
    split = Reshape (even, pairs_shape)
    by_pair = Transpose <perm = [1, 0, 2]> (split)
    added = MatMul (by_pair, pairs)
    low = Constant <value_float = {-MOST - 1}.0> ()
    high = Constant <value_float = {MOST}.0> ()
    cut = Clip (added, low, high)
    begin = Constant <value_ints = [0]> ()
    last = Constant <value_ints = [-1]> ()
    total = ReduceSum <keepdims = 0> (cut, begin)
    shift = Cast <to = 1> (zero)
    of_zero = Mul (shift, sums)
    exact = Sub (total, of_zero)
    shape = Shape (a)
    leading = Slice (shape, begin, last)
    whole = Concat <axis = 0> (leading, n)
    product = Reshape (exact, whole)
}}
"""
"""Of u8 values a (..., k) and weights (k, n): sum of clip(a0 * w0 + a1 * w1) over neighbours, less zero * sum(w).

`pairs` has the weights as (k / 2, 2, n), a row of zeros after an odd k; float32 holds each sum of two exactly.
"""


def saturate(spec: EngineSpec, folder: Path, work: Path) -> OrtEngine | None:
    """Return an engine of the same file in which products of u8 with constant int8 matrices saturate.

    ``None`` if the file has none whose sums can. Raises `BuildError`.

    Parameters
    ----------
    folder : of the engine.
    work : gets the file, which outlives the engine.
    """
    model = onnx.load(engine_file(spec, folder))
    opset = opset_of(model)
    graph = know_graph(model)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        nodes += _saturating(node, graph, model.graph.initializer) or [node]
    if opset < _OLDEST or len(nodes) == len(model.graph.node):
        return None
    refill(model.graph.node, nodes)
    model.functions.append(parser.parse_function(_BODY.replace("OPSET", str(opset))))
    model.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    path = work / "saturating.onnx"
    onnx.save_model(model, path, save_as_external_data=model.ByteSize() > 2**30, location="saturating.data")
    return OrtEngine(spec, path, threads=parse_options(spec.options).threads)


def _saturating(node: onnx.NodeProto, graph: KnownGraph, constants: Any) -> list[onnx.NodeProto] | None:
    """Return the nodes that compute `node` so; ``None`` if its sums cannot saturate, or its form is not known."""
    factors = _factors(node, graph)
    weight = graph.constants.get(factors[1]) if factors else None
    if factors is None or weight is None or len(weight.dims) != 2 or largest_sum(node, graph, factors[1]) <= MOST:
        return None
    if kind_of_factor(factors[0], graph) != onnx.TensorProto.UINT8:
        return None
    values, _, zero, *scales = factors
    matrix = columns_of(node, numpy_helper.to_array(weight)).astype(np.float32)
    k, n = matrix.shape
    prefix = f"{node.output[0]} saturating"

    def constant(name: str, array: NDArray[Any]) -> str:
        constants.append(numpy_helper.from_array(array, f"{prefix} {name}"))
        return f"{prefix} {name}"

    whole = np.concatenate([matrix, np.zeros((k % 2, n), np.float32)])
    inputs = [
        values,
        zero or constant("zero", np.array(0, np.uint8)),
        constant("pairs", whole.reshape(-1, 2, n)),
        constant("sums", matrix.sum(0)),
        constant("rows", np.array([-1, k])),
        constant("pads", np.array([0, 0, 0, k % 2])),
        constant("split", np.array([-1, len(whole) // 2, 2])),
        constant("n", np.array([n])),
    ]
    product = f"{prefix} product"
    made = [helper.make_node(_FUNCTION, inputs, [product], f"{node.name} saturating", domain=_DOMAIN)]
    if not scales:
        return [*made, helper.make_node("Cast", [product], node.output, f"{node.name} as integers", to=6)]
    left, right = (numpy_helper.to_array(graph.constants[name]) for name in scales)
    bias = list(node.input[2:3])
    scaled = f"{prefix} scaled" if bias else node.output[0]
    made.append(helper.make_node("Mul", [product, constant("scale", left * right)], [scaled], f"{node.name} scaled"))
    return [*made, *(helper.make_node("Add", [scaled, *bias], node.output, f"{node.name} biased") for _ in bias)]


def _factors(node: onnx.NodeProto, graph: KnownGraph) -> tuple[str, ...] | None:
    """Return u8 values, weights, zero point of the values, and of a float product both scales; ``None`` for others."""
    if node.op_type == "MatMulInteger":
        return (*node.input[:2], *([*node.input[2:3], ""][:1]))
    # A Gemm that scales or turns its first factor is left; 1.0 is what its scales are where they are written.
    is_plain = all(each.name == "transB" or each.f == 1.0 for each in node.attribute)
    if node.op_type not in ("MatMul", "Gemm") or not is_plain:
        return None
    sources = [dequantizer_of(name, graph.makers) for name in node.input[:2]]
    # A tensor that was moved after it was dequantized has other axes than the integers.
    if any(source is None or source.output[0] not in node.input for source in sources):
        return None
    left, right = (source for source in sources if source is not None)
    if not {left.input[1], right.input[1]} <= graph.constants.keys():
        return None
    return left.input[0], right.input[0], [*left.input[2:3], ""][0], left.input[1], right.input[1]
