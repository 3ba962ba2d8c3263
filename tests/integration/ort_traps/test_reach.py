"""What a scheme can quantize, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_quant.result import Status
from pytest_quant.spec import Limits, Model
from pytest_quant.testing.conformance.examples import conv
from pytest_quant.verdict.rules import coverage_verdicts
from tests.integration.ort_traps.bench import engine_of, spec_of
from tests.integration.ort_traps.test_bodies import LOOP
from tests.integration.projects import output, run_project, write_project
from tests.support.measuring import numbers
from tests.support.models import parsed

DEFAULT = Limits(default_min_coverage=50.0)


SCORES = """(float[1, 4, 8] x) => (float[1, 4, 4] y) {
    [project] a = MatMul(x, w) [turn] t = Transpose<perm = [0, 2, 1]>(a) [between] y = MatMul(a, t) }"""
"""A projection of 4 x 8 x 8 and the product of its result with itself, 4 x 8 x 4."""

CELL = """(float[5, 1, 4] x) => (float[1, 3] y) <int64[1] axis = {0}> {
    [cell] all, state = KIND<hidden_size = 8>(x, W, R) [squeeze] s = Squeeze(state, axis) [last] y = MatMul(s, w) }"""
"""A recurrent cell of 8 units over 5 steps of 4 values, and a dense layer of 8 x 3 on its last state."""

BEYOND_STATIC: dict[str, tuple[str, dict[str, tuple[int, ...]], int | None]] = {
    "GRU": ("u, t = GRU<hidden_size = 8>(x, W, R)", {"W": (1, 24, 8), "R": (1, 24, 8)}, 3 * 8 * 16),
    "LSTM": ("u, t, c = LSTM<hidden_size = 8>(x, W, R)", {"W": (1, 32, 8), "R": (1, 32, 8)}, 4 * 8 * 16),
    "RNN": ("u, t = RNN<hidden_size = 8>(x, W, R)", {"W": (1, 8, 8), "R": (1, 8, 8)}, 8 * 16),
    "ConvTranspose": ("t = ConvTranspose(x, W)", {"W": (1, 1, 1)}, 8),
    "Einsum": ('t = Einsum<equation = "abc,cd->abd">(x, W)', {"W": (8, 8)}, None),
}
"""Operators in front of a dense layer of 8 x 8: their text, weights, and multiply-accumulates for one row of 8."""

CONV = "Conv unless op_types names it"
"""Dynamic spares convolutions, and takes them where it is asked for."""

MOSTLY_CONV = """(float[n, 8] x) => (float[n, 1] y) <int64[1] axis = {1}> {
    u = Unsqueeze(x, axis) [conv] c = Conv<pads = [4, 4]>(u, k) p = GlobalMaxPool(c) f = Flatten(p)
    [dense] y = MatMul(f, w) }"""


def test_what_dynamic_cannot_take_is_told_apart(tmp_path: Path) -> None:
    """The dense layer of 2880 MACs is all that it can take; the convolution of 2592 is named, and the check passes."""
    with engine_of(spec_of(conv().write(tmp_path), "dynamic"), lambda: iter(())) as engine:
        result = engine.coverage(conv().feeds(1, 0))
    assert result.pct == pytest.approx(100 * 2880 / (2880 + 2592))
    assert result.scheme_pct == 100.0
    assert result.not_quantizable == {CONV: pytest.approx(100 * 2592 / (2880 + 2592))}
    (verdict,) = coverage_verdicts(DEFAULT, result)
    assert verdict.status is Status.PASS
    assert f"cannot quantize {CONV} (47.37 %)" in verdict.reason


def test_what_dynamic_could_take_and_did_not_counts(tmp_path: Path) -> None:
    """With the dense layer excluded nothing of what the scheme can quantize is int8."""
    with engine_of(spec_of(conv().write(tmp_path), "dynamic", exclude=("dense",)), lambda: iter(())) as engine:
        result = engine.coverage(conv().feeds(1, 0))
    assert (result.pct, result.scheme_pct) == (0.0, 0.0)
    assert next(coverage_verdicts(DEFAULT, result)).status is Status.FAIL


@pytest.mark.parametrize("scheme", ["dynamic", "weight-only"])
def test_a_product_of_activations_has_no_weights_to_take(tmp_path: Path, scheme: str) -> None:
    """Of 256 and 128 MACs the first have weights; the product that fuses with its transposition has none."""
    model = Model.from_onnx(parsed(tmp_path / "m.onnx", SCORES, w=numbers(8, 8)))
    with engine_of(spec_of(model, scheme), lambda: iter(())) as engine:
        result = engine.coverage({"x": numbers(1, 4, 8, seed=1)})
    assert result.pct == pytest.approx(100 * 256 / 384)
    assert result.scheme_pct == 100.0
    assert result.not_quantizable == {"MatMul between activations": pytest.approx(100 * 128 / 384)}


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
    weights = {"W": numbers(1, gates * 8, 4), "R": numbers(1, gates * 8, 8), "w": numbers(8, 3)}
    model = Model.from_onnx(parsed(tmp_path / "m.onnx", CELL.replace("KIND", kind), **weights))
    with engine_of(spec_of(model, scheme, exclude=exclude), lambda: iter(())) as engine:
        result = engine.coverage({"x": numbers(5, 1, 4, seed=1)})
    assert result.unit == "MACs"
    assert result.scheme_pct == pytest.approx(100 * scheme_share)
    assert result.not_quantizable == {name: pytest.approx(100 * share) for name, share in beyond.items()}
    assert result.pct == pytest.approx(100 * (1 - sum(beyond.values())) * scheme_share)


@pytest.mark.parametrize(("mark", "status"), [("", "FAIL"), (", min_coverage=1", "PASS")])
def test_a_scheme_that_can_take_next_to_nothing_fails(pytester: pytest.Pytester, mark: str, status: str) -> None:
    """4608 MACs of a convolution beside 64 of a dense layer: 1.37 % in int8 fail, unless the mark asks for no more."""
    parsed(pytester.path / "model.onnx", MOSTLY_CONV, k=numbers(64, 1, 9), w=numbers(64, 1))
    write_project(pytester, mark=f"scheme='dynamic', min_sqnr_db=1{mark}")
    result, (check,) = run_project(pytester)
    assert check["status"] == status
    assert check["coverage"]["pct"] == pytest.approx(100 * 64 / (64 + 4608))
    text = " ".join(output(result).split())
    left = f"cannot quantize {CONV} (98.63 %)"
    assert f"1.36986 % is below 5 % of all MACs; of all MACs it {left}" in text or status == "PASS"
    assert ("mostly float: test_model: 1.37 % of MACs ran in int8" in text) is (status == "PASS")


@pytest.mark.parametrize("op_types", [None, "all"])
@pytest.mark.parametrize("kind", BEYOND_STATIC)
def test_what_static_has_no_kernels_for_is_told_apart(kind: str, op_types: str | None, tmp_path: Path) -> None:
    """With every operator asked for it runs in float too; by default it is named, and not held against the engine."""
    text, shapes, macs = BEYOND_STATIC[kind]
    graph = f"(float[1, 1, 8] x) => (float[1, 1, 8] y) {{ [layer] {text} [dense] y = MatMul(t, w) }}"
    weights = {name: numbers(*shape, seed=3) for name, shape in {**shapes, "w": (8, 8)}.items()}
    model = Model.from_onnx(parsed(tmp_path / "m.onnx", graph, **weights))
    feeds = {"x": numbers(1, 1, 8, seed=1)}
    spec = spec_of(model, "static") if op_types is None else spec_of(model, "static", op_types=op_types)
    with engine_of(spec, lambda: iter([feeds])) as engine:
        result = engine.coverage(feeds)
    share = 50.0 if macs is None else 100 * macs / (macs + 64)
    assert result.not_quantizable == {kind: pytest.approx(share)}
    assert result.pct == pytest.approx(100 - share)
    assert result.scheme_pct == 100.0
    (verdict,) = coverage_verdicts(DEFAULT, result)
    assert verdict.status is Status.PASS
    assert f"cannot quantize {kind} (" in verdict.reason


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("t = Conv<pads = [1, 1, 1, 1]>(p, K) y = Conv<group = 2>(t, G)", 4),
        ("s = Conv<strides = [2, 2], dilations = [2, 2], pads = [2, 2, 2, 2]>(p, K) y = Relu(s)", 4),
        ("f = Flatten(p) [fc] g = Gemm<transB = 1>(f, V, bias) y = MatMul(g, w)", 2),
        ("r = Reshape(p, rows) t = Transpose<perm = [0, 2, 1]>(r) y = MatMul(r, t)", 3),
    ],
)
def test_what_static_has_kernels_for_runs_in_them(text: str, rank: int, tmp_path: Path) -> None:
    """Convolutions with groups, strides and dilations, Gemm, and products of activations in batches."""
    shapes = {"K": (4, 2, 3, 3), "G": (4, 2, 1, 1), "V": (6, 32), "bias": (6,), "w": (6, 3)}
    weights = {
        name: numbers(*shape, seed=5) for name, shape in shapes.items() if f"{name})" in text or f", {name}" in text
    }
    axes = ", ".join("abcd"[:rank])
    graph = f"(float[1, 2, 4, 4] p) => (float[{axes}] y) <int64[3] rows = {{1, 2, 16}}> {{ {text} }}"
    model = Model.from_onnx(parsed(tmp_path / "m.onnx", graph, **weights))
    feeds = {"p": numbers(1, 2, 4, 4, seed=1)}
    with engine_of(spec_of(model, "static"), lambda: iter([feeds])) as engine:
        result = engine.coverage(feeds)
    assert (result.pct, result.scheme_pct, result.not_quantizable) == (100.0, 100.0, {})


@pytest.mark.parametrize("way", [{"exclude": ("conv",)}, {"op_types": ["MatMul", "Gemm"]}])
def test_what_the_user_keeps_from_static_counts(way: dict[str, Any], tmp_path: Path) -> None:
    """A convolution that static can quantize is held against the engine, whoever left it out: 52.6 % are reached."""
    with engine_of(spec_of(conv().write(tmp_path), "static", **way), lambda: iter([conv().feeds(1, 0)])) as engine:
        result = engine.coverage(conv().feeds(1, 0))
    assert result.not_quantizable == {}
    assert result.pct == result.scheme_pct == pytest.approx(100 * 2880 / (2880 + 2592))


PARTS_OF_ATTENTION = """(float[1, 4, 8] x) => (float[1, 4, 8] y) <float root = {2.0}> {
    [q] q = MatMul(x, Q) [k] k = MatMul(x, K) [v] v = MatMul(x, V) t = Transpose<perm = [0, 2, 1]>(k)
    [scores] s = MatMul(q, t) d = Div(s, root) p = Softmax<axis = -1>(d)
    [mix] m = MatMul(p, v) [out] y = MatMul(m, O) }"""


def test_products_that_are_fused_when_they_stay_in_float_count(tmp_path: Path) -> None:
    """Whatever ONNX Runtime makes of excluded products, it is no operator of the model that static could not take."""
    weights = {name: numbers(8, 8, seed=seed) for seed, name in enumerate("QKVO")}
    model = Model.from_onnx(parsed(tmp_path / "m.onnx", PARTS_OF_ATTENTION, **weights))
    feeds = {"x": numbers(1, 4, 8, seed=9)}
    spec = spec_of(model, "static", exclude=("q", "k", "v", "scores", "mix"))
    with engine_of(spec, lambda: iter([feeds])) as engine:
        result = engine.coverage(feeds)
    assert result.not_quantizable == {}
    assert result.pct == result.scheme_pct == pytest.approx(100 * 256 / (4 * 256 + 2 * 128))


@pytest.mark.parametrize(
    ("outer", "status"), [("MatMul(h, wide)", Status.PASS), ("MatMul(h, narrow)", Status.FAIL)]
)  # fmt: skip
@pytest.mark.parametrize("extra", [{}, {"EnableSubgraph": True}])
def test_static_says_that_it_cannot_quantize_bodies(
    outer: str, status: Status, extra: dict[str, object], tmp_path: Path
) -> None:
    """5 x 256 MACs in a Loop stay in float, whatever the option says; 5 % of all have to run in int8 all the same."""
    text = LOOP.replace("MatMul(h, out)", outer).replace("[n, 4] y", "[n, k] y")
    shapes = {"w1": (16, 16), "wide": (16, 16), "narrow": (16, 4)}
    weights = {name: 0.3 * numbers(*shape, seed=1) for name, shape in shapes.items() if name in text}
    model = Model.from_onnx(parsed(tmp_path / "m.onnx", text, **weights))
    feeds = {"x": numbers(2, 16, seed=2)}
    with engine_of(spec_of(model, "static", extra=extra), lambda: iter([feeds])) as engine:
        result = engine.coverage(feeds)
    head = 256 if status is Status.PASS else 64
    assert result.not_quantizable == {"MatMul inside Loop": pytest.approx(100 * 1280 / (1280 + head))}
    assert result.scheme_pct == 100.0
    (verdict,) = coverage_verdicts(DEFAULT, result)
    assert verdict.status is status
    assert "cannot quantize MatMul inside Loop" in verdict.reason


def test_a_vocoder_passes_by_default_and_says_what_static_left(pytester: pytest.Pytester) -> None:
    """Of 8 x 8 and 2 x 4 x 8 x 4 MACs the transposed convolution has 80 %: the rest is int8, and that is enough."""
    text = """(float[n, 8] x) => (float[n, 4] y) <int64[3] grid = {0, 4, 2}> {
        [dense] h = MatMul(x, w) r = Reshape(h, grid) [up] u = ConvTranspose(r, k) m = GlobalAveragePool(u)
        y = Flatten(m) }"""
    parsed(pytester.path / "model.onnx", text, w=numbers(8, 8), k=numbers(4, 4, 8, seed=1))
    write_project(pytester, mark="min_sqnr_db=1")
    result, (check,) = run_project(pytester)
    assert check["status"] == "PASS"
    assert check["coverage"]["not_quantizable"] == {"ConvTranspose": pytest.approx(80.0)}
    text = " ".join(output(result).split())
    assert (
        "mostly float: test_model: 20.00 % of MACs ran in int8; static cannot quantize ConvTranspose (80.00 %)" in text
    )
