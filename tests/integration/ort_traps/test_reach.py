"""What dynamic and weight-only schemes can quantize, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.result import Status
from pytest_quant.spec import Limits, Model
from pytest_quant.testing.conformance.examples import conv
from pytest_quant.verdict.rules import coverage_verdicts
from tests.integration.ort_traps.bench import engine_of, spec_of
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

MOSTLY_CONV = """(float[n, 8] x) => (float[n, 1] y) <int64[1] axis = {1}> {
    u = Unsqueeze(x, axis) [conv] c = Conv<pads = [4, 4]>(u, k) p = GlobalMaxPool(c) f = Flatten(p)
    [dense] y = MatMul(f, w) }"""


def test_what_dynamic_cannot_take_is_told_apart(tmp_path: Path) -> None:
    """The dense layer of 2880 MACs is all that it can take; the convolution of 2592 is named, and the check passes."""
    with engine_of(spec_of(conv().write(tmp_path), "dynamic"), lambda: iter(())) as engine:
        result = engine.coverage(conv().feeds(1, 0))
    assert result.pct == pytest.approx(100 * 2880 / (2880 + 2592))
    assert result.scheme_pct == 100.0
    assert result.not_quantizable == {"Conv": pytest.approx(100 * 2592 / (2880 + 2592))}
    (verdict,) = coverage_verdicts(DEFAULT, result, "dynamic")
    assert verdict.status is Status.PASS
    assert "cannot quantize Conv (47.37 %)" in verdict.reason


def test_what_dynamic_could_take_and_did_not_counts(tmp_path: Path) -> None:
    """With the dense layer excluded nothing of what the scheme can quantize is int8."""
    with engine_of(spec_of(conv().write(tmp_path), "dynamic", exclude=("dense",)), lambda: iter(())) as engine:
        result = engine.coverage(conv().feeds(1, 0))
    assert (result.pct, result.scheme_pct) == (0.0, 0.0)
    assert next(coverage_verdicts(DEFAULT, result, "dynamic")).status is Status.FAIL


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
    left = "cannot quantize Conv (98.63 %)"
    assert f"1.36986 % is below 5 % of all MACs; of all MACs it {left}" in text or status == "PASS"
    assert ("mostly float: test_model: 1.37 % of MACs ran in int8" in text) is (status == "PASS")
