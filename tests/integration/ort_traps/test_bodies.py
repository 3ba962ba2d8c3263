"""Products inside If, Loop and Scan: their weights may lie in the graph around, and a scheme takes what it can."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from pytest_quant.backends import Feeds, get_backend
from pytest_quant.backends.onnx_files.graphs import all_graphs
from pytest_quant.spec import Model
from pytest_quant.testing.conformance.examples import sqnr_db
from tests.integration.ort_traps.bench import engine_file, engine_of, quantized, spec_of
from tests.support.measuring import numbers
from tests.support.models import parsed

BODY, HEAD = 16 * 16, 16 * 4
"""Multiply-accumulates of one product in a body and of the dense layer behind, for one sample."""

BRANCHES = """(float[n, 16] x) => (float[n, 4] y) <float zero = {0}> {
    s = ReduceSum<keepdims = 0>(x) c = Greater(s, zero)
    [choose] h = If(c)<
        then_branch = a () => (float[n, 16] a1) { [positive] t = THEN a1 = Tanh(t) },
        else_branch = b () => (float[n, 16] b2) { [negative] u = MatMul(x, w2) b2 = Tanh(u) }>
    [head] y = MatMul(h, out) }"""
LOOP = """(float[n, 16] x) => (float[n, 4] y) <int64 turns = {5}, bool yes = {1}> {
    [loop] h = Loop(turns, yes, x)<body = b (int64 i, bool on, float[n, 16] v) => (bool on2, float[n, 16] v2) {
        on2 = Identity(on) [turn] t = MatMul(v, w1) v2 = Tanh(t) }>
    [head] y = MatMul(h, out) }"""
SCAN = """(float[n, 16] x) => (float[n, 4] y) <int64[2] apart = {5, 1}, int64[1] first = {0}> {
    steps = Unsqueeze(x, first) three = Concat<axis = 0>(steps, steps, steps)
    [scan] h, all = Scan<num_scan_inputs = 1, body = b (float[n, 16] v, float[n, 16] r)
        => (float[n, 16] v2, float[n, 16] o) { [step] t = MatMul(r, w1) q = Add(t, v) v2 = Tanh(q) o = Identity(v2) }>
        (x, three)
    [head] y = MatMul(h, out) }"""
NESTED = """(float[n, 16] x) => (float[n, 4] y) <float zero = {0}, int64 turns = {5}, bool yes = {1}> {
    [loop] h = Loop(turns, yes, x)<body = b (int64 i, bool on, float[n, 16] v) => (bool on2, float[n, 16] v2) {
        on2 = Identity(on) s = ReduceSum<keepdims = 0>(v) c = Greater(s, zero)
        [choose] z = If(c)<
            then_branch = d () => (float[n, 16] d1) { [positive] d1 = MatMul(v, w1) },
            else_branch = e () => (float[n, 16] e1) { [negative] e1 = MatMul(x, w2) }>
        v2 = Tanh(z) }>
    [head] y = MatMul(h, out) }"""
SHADOWED = """(float[n, 16] x) => (float[n, 4] y) <int64 turns = {5}, bool yes = {1}> {
    [loop] h = Loop(turns, yes, x)<body = b (int64 i, bool on, float[n, 16] w1) => (bool on2, float[n, 16] v2) {
        on2 = Identity(on) turned = Transpose(w1) [square] q = MatMul(turned, w1) [turn] t = MatMul(w1, q)
        v2 = Tanh(t) }>
    [use] z = MatMul(h, w1) [head] y = MatMul(z, out) }"""
"""The Loop carries an activation that is called as a weight of the graph is."""

MODELS = {
    "if": BRANCHES.replace("THEN", "MatMul(x, w1)"),
    "gemm": BRANCHES.replace("THEN", "Gemm<transB = 1>(x, w1, row)"),
    "shared": BRANCHES.replace("THEN", "MatMul(x, w2)"),
    "loop": LOOP,
    "scan": SCAN,
    "nested": NESTED,
}


def written(folder: Path, text: str) -> Model:
    """Write a model whose weights are all in its outermost graph."""
    shapes = {"w1": (16, 16), "w2": (16, 16), "row": (16,), "out": (16, 4)}
    used = {
        name: 0.3 * numbers(*shape, seed=seed)
        for seed, (name, shape) in enumerate(shapes.items())
        if any(f"{before}{name}" in text for before in (" ", "("))
    }
    return Model.from_onnx(parsed(folder / "m.onnx", text, **used))


def _feeds(sign: int = 1) -> Feeds:
    return {"x": sign * abs(numbers(3, 16, seed=9))}


def _never() -> Any:
    return iter(())


def _outputs(model: Model, feeds: Feeds) -> dict[str, NDArray[Any]]:
    """Return what the float model gives."""
    with engine_of(spec_of(model, None), _never) as engine:
        return engine.run(feeds)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("scheme", ["dynamic", "weight-only"])
@pytest.mark.parametrize("name", MODELS)
def test_products_of_bodies_with_weights_outside_are_quantized(
    name: str, scheme: str, sign: int, tmp_path: Path
) -> None:
    """By default and on both ways; the outputs are those of the float model but for rounding."""
    model = written(tmp_path, MODELS[name])
    with engine_of(spec_of(model, scheme), _never) as engine:
        result, outputs = engine.coverage(_feeds(sign)), engine.run(_feeds(sign))
    assert (result.pct, result.scheme_pct, result.not_quantizable) == (100.0, 100.0, {})
    assert sqnr_db(_outputs(model, _feeds(sign)), outputs) > (24.0 if scheme == "dynamic" else 6.0)


@pytest.mark.parametrize("scheme", ["dynamic", "weight-only"])
def test_what_the_user_leaves_in_float_could_be_quantized(scheme: str, tmp_path: Path) -> None:
    """An excluded node of a body has a constant weight: it counts against the engine, as no product of activations."""
    model = written(tmp_path, MODELS["if"])
    with engine_of(spec_of(model, scheme, exclude=("positive",)), _never) as engine:
        result = engine.coverage(_feeds())
    assert result.not_quantizable == {}
    assert result.pct == result.scheme_pct == pytest.approx(100 * HEAD / (HEAD + BODY))


def test_bodies_that_the_user_switches_off_count(tmp_path: Path) -> None:
    """They stay in float and count against the engine."""
    model = written(tmp_path, MODELS["loop"])
    spec = spec_of(model, "dynamic", extra={"EnableSubgraph": False, "MatMulConstBOnly": True})
    with engine_of(spec, _never) as engine:
        result = engine.coverage(_feeds())
    assert result.pct == result.scheme_pct == pytest.approx(100 * HEAD / (HEAD + 5 * BODY))


def test_a_body_may_call_an_activation_as_the_graph_calls_a_weight(tmp_path: Path) -> None:
    """Both products of the Loop are between activations, 5 x (2 x 16 x 16 x 3) MACs; the two behind it have weights."""
    model = written(tmp_path, SHADOWED)
    with engine_of(spec_of(model, "dynamic"), _never) as engine:
        result = engine.coverage(_feeds())
    between = 5 * 2 * 3 * BODY
    share = 100 * between / (between + 3 * (BODY + HEAD))
    assert result.not_quantizable == {"MatMul between activations": pytest.approx(share)}
    assert result.scheme_pct == 100.0


BESIDE_A_CONVOLUTION = """(float[n, 16] x) => (float[n, 16] y)
    <int64[1] axis = {1}, int64 turns = {5}, bool yes = {1}> {
    rows = Unsqueeze(x, axis) [conv] c = Conv<pads = [1, 1]>(rows, kernel) flat = Squeeze(c, axis)
    [loop] y = Loop(turns, yes, flat)<body = b (int64 i, bool on, float[n, 16] v) => (bool on2, float[n, 16] v2) {
        on2 = Identity(on) [turn] t = MatMul(v, w1) v2 = Tanh(t) }> }"""


def test_matrices_of_bodies_alone_spare_convolutions(tmp_path: Path) -> None:
    """A model with matrix products in a body alone keeps its convolution in float, as with those outside."""
    weights = {"kernel": numbers(1, 1, 3), "w1": 0.3 * numbers(16, 16, seed=1)}
    model = Model.from_onnx(parsed(tmp_path / "m.onnx", BESIDE_A_CONVOLUTION, **weights))
    with engine_of(spec_of(model, "dynamic"), _never) as engine:
        result = engine.coverage(_feeds())
    assert result.not_quantizable == {
        "Conv unless op_types names it": pytest.approx(100 * 3 * 16 / (3 * 16 + 5 * BODY))
    }
    assert result.scheme_pct == 100.0


CELLS = """(float[5, 1, 4] x, bool on) => (float[5, 1, 1, 8] y) {
    [choose] y = If(on)<
        then_branch = a () => (float[5, 1, 1, 8] a1) { [cell] a1 = LSTM<hidden_size = 8>(x, W, R) },
        else_branch = b () => (float[5, 1, 1, 8] b1) { [other] t = LSTM<hidden_size = 8>(x, W, R) b1 = Neg(t) }> }"""


@pytest.mark.parametrize("on", [True, False])
def test_a_recurrent_cell_of_a_body(on: bool, tmp_path: Path) -> None:
    """Two branches read the same weights of the graph: each cell gets two of 8 bits, and no float copy is kept."""
    weights = {"W": numbers(1, 32, 4, seed=1), "R": 0.3 * numbers(1, 32, 8, seed=2)}
    model = Model.from_onnx(parsed(tmp_path / "m.onnx", CELLS, **weights))
    feeds = {"x": numbers(5, 1, 4, seed=3), "on": np.array(on)}
    spec = spec_of(model, "dynamic")
    folder = quantized(spec, _never, tmp_path)
    with get_backend("ort").open(spec, folder) as engine:
        result, outputs = engine.coverage(feeds), engine.run(feeds)
    assert result.pct == 100.0
    assert sqnr_db(_outputs(model, feeds), outputs) > 24.0
    tensors = [tensor for graph in all_graphs(onnx.load(engine_file(folder)).graph) for tensor in graph.initializer]
    assert sum(math.prod(tensor.dims) > 32 for tensor in tensors) == 4
