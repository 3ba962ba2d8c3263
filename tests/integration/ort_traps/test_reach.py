"""What dynamic and weight-only schemes can quantize, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from pytest_quant.backends import Feeds
from pytest_quant.result import Status
from pytest_quant.spec import Limits, Model
from pytest_quant.testing.conformance.examples import conv
from pytest_quant.verdict.rules import coverage_verdicts
from tests.integration.ort_traps.bench import engine_of, spec_of
from tests.integration.projects import output, run_project, write_project

DEFAULT = Limits(default_min_coverage=50.0)


def normal(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Normal values."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def write(path: Path, nodes: list[onnx.NodeProto], x: list[int], y: list[int], **weights: NDArray[np.generic]) -> Model:
    """Write a model of one input and one output."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", x), ("y", y))]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return Model.from_onnx(path)


def scores(path: Path) -> Model:
    """A projection of 4 x 8 x 8 and the product of its result with itself, 4 x 8 x 4."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="project"),
        helper.make_node("Transpose", ["a"], ["t"], name="turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["a", "t"], ["y"], name="between"),
    ]
    return write(path, nodes, [1, 4, 8], [1, 4, 4], w=normal(8, 8))


def recurrent(path: Path, kind: str, gates: int) -> Model:
    """A recurrent cell of 8 units over 5 steps of 4 values, and a dense layer of 8 x 3 on its last state."""
    nodes = [
        helper.make_node(kind, ["x", "W", "R"], ["", "state"], name="cell", hidden_size=8),
        helper.make_node("Squeeze", ["state", "axis"], ["s"], name="squeeze"),
        helper.make_node("MatMul", ["s", "w"], ["y"], name="last"),
    ]
    cell = {"W": normal(1, gates * 8, 4), "R": normal(1, gates * 8, 8)}
    return write(path, nodes, [5, 1, 4], [1, 3], **cell, w=normal(8, 3), axis=np.array([0]))


def test_what_dynamic_cannot_take_is_told_apart(tmp_path: Path) -> None:
    """The dense layer of 2880 MACs is all that it can take; the convolution of 2592 is named, and the check passes."""
    with engine_of(spec_of(conv().write(tmp_path), "dynamic"), lambda: iter(())) as engine:
        found = engine.coverage(conv().feeds(1, 0))
    assert found.pct == pytest.approx(100 * 2880 / (2880 + 2592))
    assert found.scheme_pct == 100.0
    assert found.not_quantizable == {"Conv": pytest.approx(100 * 2592 / (2880 + 2592))}
    (verdict,) = coverage_verdicts(DEFAULT, found, "dynamic")
    assert verdict.status is Status.PASS
    assert "cannot quantize Conv (47.37 %)" in verdict.reason


def test_what_dynamic_could_take_and_did_not_counts(tmp_path: Path) -> None:
    """With the dense layer excluded nothing of what the scheme can quantize is int8."""
    with engine_of(spec_of(conv().write(tmp_path), "dynamic", exclude=("dense",)), lambda: iter(())) as engine:
        found = engine.coverage(conv().feeds(1, 0))
    assert (found.pct, found.scheme_pct) == (0.0, 0.0)
    assert next(coverage_verdicts(DEFAULT, found, "dynamic")).status is Status.FAIL


@pytest.mark.parametrize("scheme", ["dynamic", "weight-only"])
def test_a_product_of_activations_has_no_weights_to_take(tmp_path: Path, scheme: str) -> None:
    """Of 256 and 128 MACs the first have weights; the product that fuses with its transposition has none."""
    feeds: Feeds = {"x": normal(1, 4, 8, seed=1)}
    with engine_of(spec_of(scores(tmp_path / "m.onnx"), scheme), lambda: iter(())) as engine:
        found = engine.coverage(feeds)
    assert found.pct == pytest.approx(100 * 256 / 384)
    assert found.scheme_pct == 100.0
    assert found.not_quantizable == {"MatMul between activations": pytest.approx(100 * 128 / 384)}


@pytest.mark.parametrize(
    ("kind", "gates", "scheme", "exclude", "scheme_share", "beyond"),
    [
        ("LSTM", 4, "dynamic", (), 1.0, {}),
        ("LSTM", 4, "dynamic", ("cell",), 24 / (24 + 1920), {}),
        ("LSTM", 4, "weight-only", (), 1.0, {"LSTM": 1920 / (24 + 1920)}),
        ("GRU", 3, "dynamic", (), 1.0, {"GRU": 1440 / (24 + 1440)}),
    ],
)
def test_recurrent_cells_are_compute(
    tmp_path: Path,
    kind: str,
    gates: int,
    scheme: str,
    exclude: tuple[str, ...],
    scheme_share: float,
    beyond: dict[str, float],
) -> None:
    """5 steps meet gates x 8 x (4 + 8) weights; in float they count, against the scheme where it can take them."""
    model = recurrent(tmp_path / "m.onnx", kind, gates)
    with engine_of(spec_of(model, scheme, exclude=exclude), lambda: iter(())) as engine:
        found = engine.coverage({"x": normal(5, 1, 4, seed=1)})
    assert found.unit == "MACs"
    assert found.scheme_pct == pytest.approx(100 * scheme_share)
    assert found.not_quantizable == {name: pytest.approx(100 * share) for name, share in beyond.items()}
    assert found.pct == pytest.approx(100 * (1 - sum(beyond.values())) * scheme_share)


def test_a_scheme_that_can_take_nothing_fails(pytester: pytest.Pytester) -> None:
    """Weights of 4 bits for a network of one convolution: the run fails, although nothing of accuracy is lost."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axis"], ["u"], name="unsqueeze"),
        helper.make_node("Conv", ["u", "k"], ["c"], name="conv"),
        helper.make_node("Flatten", ["c"], ["y"], name="flatten"),
    ]
    weights = {"k": normal(1, 1, 5), "axis": np.array([1])}
    write(pytester.path / "model.onnx", nodes, ["n", 8], ["n", 4], **weights)  # type: ignore[list-item]
    write_project(pytester, mark="precision='int4', min_agreement=0")
    result, (check,) = run_project(pytester)
    result.assert_outcomes(failed=1)
    assert check["status"] == "FAIL"
    assert (check["coverage"]["scheme_pct"], check["coverage"]["not_quantizable"]) == (None, {"Conv": 100.0})
    text = " ".join(output(result).split())
    assert "the scheme can quantize nothing of this model; of all MACs it leaves Conv (100 %) in float" in text


@pytest.mark.parametrize(("mark", "status"), [("", "FAIL"), (", min_coverage=1", "PASS")])
def test_a_scheme_that_can_take_next_to_nothing_fails(pytester: pytest.Pytester, mark: str, status: str) -> None:
    """4608 MACs of a convolution beside 64 of a dense layer: 1.37 % in int8 fail, unless the mark asks for no more."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axis"], ["u"], name="unsqueeze"),
        helper.make_node("Conv", ["u", "k"], ["c"], name="conv", pads=[4, 4]),
        helper.make_node("GlobalMaxPool", ["c"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", "w"], ["y"], name="dense"),
    ]
    weights = {"k": normal(64, 1, 9), "axis": np.array([1]), "w": normal(64, 1)}
    write(pytester.path / "model.onnx", nodes, ["n", 8], ["n", 1], **weights)  # type: ignore[list-item]
    write_project(pytester, mark=f"scheme='dynamic', min_sqnr_db=1{mark}")
    result, (check,) = run_project(pytester)
    assert check["status"] == status
    assert check["coverage"]["pct"] == pytest.approx(100 * 64 / (64 + 4608))
    text = " ".join(output(result).split())
    left = "cannot quantize Conv (98.63 %)"
    assert f"1.36986 % is below 5 % of all MACs; of all MACs it {left}" in text or status == "PASS"
    assert ("mostly float: model ort-int8-dynamic: 1.37 % of MACs ran in int8" in text) is (status == "PASS")
