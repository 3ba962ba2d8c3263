"""Where data decide what runs, coverage is that of several samples; elsewhere one run is enough."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import get_backend
from pytest_quant.backends.ort import engine as module
from pytest_quant.backends.ort.engine import runs_in
from pytest_quant.backends.ort.macs import RanNode
from pytest_quant.spec import Model
from tests.integration.ort_traps.bench import engine_of, quantized, spec_of
from tests.integration.ort_traps.test_bodies import BODY, BRANCHES, HEAD, written
from tests.integration.projects import output, run_project, write_project
from tests.support.measuring import numbers
from tests.support.models import parsed

TURNS = """(float[n, 16] x, int64 turns) => (float[n, 4] y) <bool yes = {1}> {
    [loop] h = Loop(turns, yes, x)<body = b (int64 i, bool on, float[n, 16] v) => (bool on2, float[n, 16] v2) {
        on2 = Identity(on) [turn] t = MatMul(v, w1) v2 = Tanh(t) }>
    [head] y = MatMul(h, out) }"""
"""As many turns as an input says."""

RARE = """(float[n, 8] x) => (float[n, 4] y) <float bound = {0}> {
    s = ReduceSum<keepdims = 0>(x) c = Greater(s, bound)
    [choose] y = If(c)<
        then_branch = a () => (float[n, 4] a1) { [usual] a1 = MatMul(x, w1) },
        else_branch = b () => (float[n, 4] b1) { [rare] t = MatMul(x, w2) b1 = Neg(t) }> }"""
"""A sum above zero takes one product of 8 x 4, any other the other one."""


def test_coverage_is_that_of_both_branches(tmp_path: Path) -> None:
    """One sample in float and three in int4, of 320 MACs each: (64 + 3 x 320) / (4 x 320)."""
    model = written(tmp_path, BRANCHES.replace("THEN", "MatMul(x, w1)"))
    above, below = ({"x": sign * abs(numbers(1, 16, seed=9))} for sign in (1, -1))
    with engine_of(spec_of(model, "weight-only", exclude=("positive",)), lambda: iter(())) as engine:
        assert engine.branches
        assert engine.coverage(above).pct == pytest.approx(100 * HEAD / (HEAD + BODY))
        assert engine.coverage(below).pct == 100.0
        result = engine.coverage(below, above, below, below)
    assert result.pct == pytest.approx(100 * (4 * HEAD + 3 * BODY) / (4 * (HEAD + BODY)))
    assert result.float_nodes == ("positive",)
    assert any("read back on 4 samples" in note for note in result.notes)


def test_a_loop_counts_as_often_as_it_turns(tmp_path: Path) -> None:
    """1, 2 and 9 turns in float beside a head in int4, pooled over the runs: longer samples weigh more."""
    model = written(tmp_path, TURNS)
    batches = [{"x": numbers(1, 16), "turns": np.array(turns)} for turns in (1, 2, 9)]
    with engine_of(spec_of(model, "weight-only", exclude=("turn",)), lambda: iter(())) as engine:
        assert engine.coverage(batches[0]).pct == pytest.approx(100 * HEAD / (HEAD + BODY))
        result = engine.coverage(*batches)
    assert result.pct == pytest.approx(100 * 3 * HEAD / (3 * HEAD + 12 * BODY))


def test_runs_that_are_equal_are_counted_as_one(tmp_path: Path) -> None:
    """Nodes and MACs by operator are those of one run where all samples take the same way."""
    model = written(tmp_path, BRANCHES.replace("THEN", "MatMul(x, w1)"))
    feeds = {"x": abs(numbers(1, 16, seed=9))}
    with engine_of(spec_of(model, "dynamic"), lambda: iter(())) as engine:
        one, several = engine.coverage(feeds), engine.coverage(feeds, feeds, feeds)
    assert (several.pct, several.by_op) == (one.pct, one.by_op)


@pytest.mark.parametrize(("mark", "status"), [("min_coverage=90", "FAIL"), ("min_coverage=5", "PASS")])
def test_the_first_sample_does_not_stand_for_all(pytester: pytest.Pytester, mark: str, status: str) -> None:
    """The first sample's branch is int4 and 8 of 120 samples take it: 1 of 16 evenly spaced, and 6.25 % of MACs."""
    data = """x = abs(x)
    x[8:] = -x[8:]
    return Dataset.from_arrays(x)"""
    parsed(pytester.path / "model.onnx", RARE, w1=numbers(8, 4), w2=numbers(8, 4, seed=1))
    write_project(pytester, data=data, mark=f"precision='int4', exclude=['rare'], min_sqnr_db=1, {mark}")
    result, (check,) = run_project(pytester)
    assert check["status"] == status
    assert check["coverage"]["pct"] == pytest.approx(100 / 16)
    assert check["coverage"]["float_nodes"] == ["rare"]
    assert "ran in float" in output(result) or status == "PASS"


def test_a_model_without_bodies_is_profiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its engine says that one run is enough, and one run is counted."""
    model = Model.from_onnx(parsed(tmp_path / "m.onnx", "(float[n, 8] x) => (float[n, 4] y) { y = MatMul(x, w) }",
                                   w=numbers(8, 4)))  # fmt: skip
    spec = spec_of(model, "dynamic")
    folder = quantized(spec, lambda: iter(()), tmp_path)
    counted: list[int] = []

    def counting(text: str) -> list[list[RanNode]]:
        counted.append(text.count("model_run"))
        return runs_in(text)

    monkeypatch.setattr(module, "runs_in", counting)
    with get_backend("ort").open(spec, folder) as engine:
        assert not engine.branches
        assert engine.coverage({"x": numbers(3, 8)}).notes == ()
    assert counted == [1]


def test_a_profile_that_lost_its_end_is_one_run() -> None:
    """The profiler stops at a million events, and drops what would tell where a run ended."""
    facts = '"args": {"op_name": "MatMul", "provider": "CPUExecutionProvider"}'
    text = f'[{{"cat": "Node", "name": "a_kernel_time", "ts": 3, "dur": 1, {facts}}}]'
    assert [[node.name for node in run] for run in runs_in(text)] == [["a"]]
