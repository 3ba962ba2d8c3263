"""Layers of two engines side by side: each once, those of the same nodes together, times that sum up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.backends.readback import LayerTime
from pytest_quant.diagnose.layers import Alignment, LayerRow, align, total_ms


def layer(name: str, ms: float | None, *nodes: str, op: str = "Conv", role: str = "compute") -> LayerTime:
    """Return a layer in float."""
    return LayerTime(name, op, "fp32", ms, nodes, role)  # type: ignore[arg-type]


_NODES = st.sampled_from([f"node{number}" for number in range(8)])
_TIMES = st.one_of(st.none(), st.floats(0.0, 1e3))


@st.composite
def _layers(draw: st.DrawFn) -> list[LayerTime]:
    """Draw the layers of an engine: fused or not, with nodes of their own or shared, and such as stand for none."""
    result = []
    for number in range(draw(st.integers(0, 8))):
        role = draw(st.sampled_from(["compute", "reformat", "copy", "other"]))
        nodes = draw(st.lists(_NODES, max_size=3, unique=True))
        op = draw(st.sampled_from(["Conv", "Cast", "Mul"]))
        result.append(layer(f"layer{number}", draw(_TIMES), *nodes, op=op, role=role))
    return result


def _rows(alignment: Alignment) -> tuple[LayerRow, ...]:
    return (*alignment.rows, *alignment.moves)


@given(_layers(), _layers())
def test_every_layer_is_there_once(reference: Sequence[LayerTime], candidate: Sequence[LayerTime]) -> None:
    """Whatever the two engines fuse, nothing is lost and nothing comes twice."""
    rows = _rows(align(reference, candidate))
    for own, result in (
        (reference, [each for row in rows for each in row.reference]),
        (candidate, [each for row in rows for each in row.candidate]),
    ):
        assert sorted(map(id, result)) == sorted(map(id, own))


@given(_layers(), _layers())
def test_times_sum_up(reference: Sequence[LayerTime], candidate: Sequence[LayerTime]) -> None:
    """The rows of an engine add up to its layers, and what is added to the difference of both."""
    rows = _rows(align(reference, candidate))
    totals = [total_ms(reference), total_ms(candidate)]
    if None in totals:
        return
    spent = [sum(row.reference_ms or 0.0 for row in rows), sum(row.candidate_ms or 0.0 for row in rows)]
    assert spent == pytest.approx(totals)
    added = math.fsum(row.added_ms or 0.0 for row in rows)
    assert added == pytest.approx((totals[1] or 0.0) - (totals[0] or 0.0), abs=1e-9)


@given(_layers(), _layers())
def test_a_node_is_in_one_row(reference: Sequence[LayerTime], candidate: Sequence[LayerTime]) -> None:
    """Two layers that share a node stand in one row, so that no work is compared with a part of itself."""
    nodes = [node for row in align(reference, candidate).rows for node in row.nodes]
    assert len(nodes) == len(set(nodes))


@given(_layers(), _layers())
def test_the_slowest_come_first(reference: Sequence[LayerTime], candidate: Sequence[LayerTime]) -> None:
    """By the candidate's time, or the reference's where the candidate has no layer."""
    for rows in (align(reference, candidate).rows, align(reference, candidate).moves):
        times = [(row.candidate_ms if row.candidate else row.reference_ms) or 0.0 for row in rows]
        assert times == sorted(times, reverse=True)


def test_a_fused_layer_stands_beside_all_that_do_its_work() -> None:
    """Conv with its Relu against the two alone: 3 ms against 1 + 1 ms. Fusions that overlap are one row."""
    (row,) = align([layer("fused", 3.0, "conv", "relu")], [layer("a", 1.0, "conv"), layer("b", 1.0, "relu")]).rows
    assert row.nodes == ("conv", "relu")
    assert (row.reference_ms, row.candidate_ms, row.added_ms, row.speedup) == (3.0, 2.0, -1.0, 1.5)
    reference = [layer("ab", 1.0, "a", "b"), layer("c", 1.0, "c")]
    (row,) = align(reference, [layer("a", 2.0, "a"), layer("bc", 3.0, "b", "c")]).rows
    assert (row.nodes, row.added_ms) == (("a", "b", "c"), 3.0)


def test_what_has_no_counterpart_stands_alone() -> None:
    """A layer of other nodes, and each layer that stands for none, with the time it adds or saves."""
    reference = [layer("gone", 2.0, "folded")]
    candidate = [layer("mystery", 1.0, role="other"), layer("riddle", 0.5, role="other")]
    rows = align(reference, candidate).rows
    assert [(row.nodes, row.added_ms, row.speedup) for row in rows] == [
        (("folded",), -2.0, None),
        ((), 1.0, None),
        ((), 0.5, None),
    ]


def test_reformats_and_copies_are_summed_by_operator() -> None:
    """Two quantizations are one row; they belong to no node, even where the runtime names some."""
    candidate = [
        layer("q1", 0.25, op="QuantizeLinear", role="reformat"),
        layer("q2", 0.5, "conv", op="QuantizeLinear", role="reformat"),
        layer("c", 1.0, op="MemcpyToHost", role="copy"),
        layer("conv", 4.0, "conv"),
    ]
    result = align([layer("conv", 4.0, "conv")], candidate)
    assert [(row.candidate[0].op, len(row.candidate), row.candidate_ms, row.nodes) for row in result.moves] == [
        ("MemcpyToHost", 1, 1.0, ()),
        ("QuantizeLinear", 2, 0.75, ()),
    ]
    assert [row.nodes for row in result.rows] == [("conv",)]


def test_without_times_the_order_is_that_of_the_model() -> None:
    """A build that nothing can time has layers all the same, and no sums; that of a part would look like a whole."""
    layers = [layer("b", None, "b"), layer("a", None, "a")]
    rows = align(layers, layers).rows
    assert [row.nodes for row in rows] == [("b",), ("a",)]
    assert [(row.candidate_ms, row.added_ms, row.speedup) for row in rows] == [(None, None, None)] * 2
    assert [total_ms(layers[:1]), total_ms([layer("a", 1.0), *layers]), total_ms([])] == [None, None, None]
