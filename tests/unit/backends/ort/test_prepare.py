"""Gemm has one form after folding, and gives what onnx's reference evaluator computes from the form before."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from pytest_quant.backends.ort.prepare import fold_gemm_constants

M, K, N = 4, 3, 5
BIASES = {"scalar": (), "1": (1,), "1,1": (1, 1), "n": (N,), "1,n": (1, N), "m,1": (M, 1), "m,n": (M, N)}
Array = NDArray[Any]


def gemm(bias: Array, weight: Array, *, names: tuple[str, ...] = ("fc",), fed: bool = False, **kept: Any) -> Any:
    """One Gemm for each of `names`, all over the same constants; with `fed` the bias is an input."""
    kind = helper.np_dtype_to_tensor_dtype(weight.dtype)
    nodes = [helper.make_node("Gemm", ["x", "W", "b"], [f"{name}_out"], name, **kept) for name in names]
    given = [helper.make_tensor_value_info("x", kind, [M, K])]
    given += [helper.make_tensor_value_info("b", kind, bias.shape)] if fed else []
    ends = [helper.make_tensor_value_info(f"{name}_out", kind, [M, N]) for name in names]
    tensors = [numpy_helper.from_array(weight, "W"), *([] if fed else [numpy_helper.from_array(bias, "b")])]
    graph = helper.make_graph(nodes, "g", given, ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def outputs(model: onnx.ModelProto, bias: Array, *, fed: bool) -> list[Array]:
    """What the reference evaluator gives."""
    x = np.linspace(-1, 1, M * K).reshape(M, K).astype(bias.dtype)
    return [np.asarray(each) for each in ReferenceEvaluator(model).run(None, {"x": x} | ({"b": bias} if fed else {}))]


@settings(max_examples=60, deadline=None)
@given(
    form=st.sampled_from(sorted(BIASES)),
    dtype=st.sampled_from([np.float32, np.float64, np.float16]),
    alpha=st.sampled_from([1.0, 0.5, -3.0, 0.0]),
    beta=st.sampled_from([1.0, 0.25, -2.0, 0.0]),
    turned=st.booleans(),
    equal_rows=st.booleans(),
    fed=st.booleans(),
    twice=st.booleans(),
)
def test_results_stay_and_the_form_is_one(
    form: str, dtype: Any, alpha: float, beta: float, turned: bool, equal_rows: bool, fed: bool, twice: bool
) -> None:
    """Whatever the bias, the factors and the readers: no constant has a factor left, and a constant bias is (n,)."""
    rng = np.random.default_rng(0)
    weight = rng.integers(-4, 5, (N, K) if turned else (K, N)).astype(dtype)
    bias = np.asarray(rng.integers(-4, 5, BIASES[form])).astype(dtype)
    if equal_rows and bias.ndim == 2:
        bias[:] = bias[:1]
    names = ("fc", "again") if twice else ("fc",)
    model = gemm(bias, weight, names=names, fed=fed, alpha=alpha, beta=beta, transB=int(turned))
    before = outputs(model, bias, fed=fed)
    fold_gemm_constants(model)
    onnx.checker.check_model(model, full_check=True)
    for was, now in zip(before, outputs(model, bias, fed=fed), strict=True):
        np.testing.assert_allclose(now, was, rtol=1e-2 if dtype is np.float16 else 1e-6, atol=1e-2)
    constants = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for node in model.graph.node:
        factors = {each.name: each.f for each in node.attribute if each.name in ("alpha", "beta") and each.f != 1.0}
        assert factors.keys() <= ({"beta"} if fed else set())
        if node.op_type == "Gemm" and len(node.input) == 3 and not fed:
            assert constants[node.input[2]] == (N,)


def test_rows_that_differ_are_added_by_a_node_with_a_name() -> None:
    """It is called after the Gemm, so that ``exclude=["fc"]`` names both."""
    bias = np.arange(M * N, dtype=np.float32).reshape(M, N)
    model = gemm(bias, np.ones((K, N), np.float32), beta=2.0)
    fold_gemm_constants(model)
    assert [(node.op_type, node.name) for node in model.graph.node] == [("Gemm", "fc"), ("Add", "fc/bias")]
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    np.testing.assert_array_equal(constants[model.graph.node[1].input[1]], 2 * bias)


def test_a_factor_that_a_short_float_cannot_hold_stays() -> None:
    """1000 x 100 is infinite in float16."""
    model = gemm(np.zeros(N, np.float16), np.full((K, N), 100, np.float16), alpha=1000.0)
    fold_gemm_constants(model)
    assert [each.f for each in model.graph.node[0].attribute] == [1000.0]
    assert np.isfinite(numpy_helper.to_array(model.graph.initializer[0])).all()


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_integers_stay(kind: Any) -> None:
    """A Gemm of integers has no product with 0.5."""
    model = gemm(np.ones((M, 1), kind), np.ones((K, N), kind), alpha=0.5)
    before = model.SerializeToString()
    fold_gemm_constants(model)
    assert model.SerializeToString() == before


def test_an_opset_without_broadcasting_stays() -> None:
    """Below 7 the attribute ``broadcast`` says whether (n,) may be added at all."""
    model = gemm(np.ones((1, N), np.float32), np.ones((K, N), np.float32), alpha=0.5)
    model.opset_import[0].version = 6
    before = model.SerializeToString()
    fold_gemm_constants(model)
    assert model.SerializeToString() == before
