"""From the nodes that ran to a coverage, and from runs to the times of layers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.backends.readback import MIN_RUNS, Kind, Tallied, medians, tally, warm_runs

ELIGIBLE = (Kind.ASKED, Kind.OTHER)


@st.composite
def nodes(draw: st.DrawFn, macs: st.SearchStrategy[int | None]) -> list[Tallied]:
    """Any nodes of three op types."""
    kinds, types = st.sampled_from(Kind), st.sampled_from(["Conv", "MatMul", "Gemm"])
    rows = draw(st.lists(st.tuples(types, kinds, macs), max_size=12))
    return [Tallied(f"n{index}", *row) for index, row in enumerate(rows)]


@given(nodes(st.integers(1, 10**9)))
def test_with_all_macs_known_the_share_is_theirs(ran: list[Tallied]) -> None:
    """Those in the asked precision over all; what cannot be seen into is none of them at least, and all at most."""
    result = tally(ran, "here")
    macs = {kind: sum(node.macs or 0 for node in ran if node.kind is kind) for kind in Kind}
    if not any(node.kind in ELIGIBLE for node in ran):
        assert (result.pct, result.high_pct) == (None, None)
        return
    asked_macs, hidden_macs = macs[Kind.ASKED], macs[Kind.OPAQUE]
    total = asked_macs + macs[Kind.OTHER] + hidden_macs
    assert result.unit == "MACs"
    assert result.pct == pytest.approx(100 * asked_macs / total)
    assert result.high_pct == (pytest.approx(100 * (asked_macs + hidden_macs) / total) if hidden_macs else None)


@given(nodes(st.none() | st.integers(1, 10**9)), st.data())
def test_whatever_is_hidden_the_figure_lies_between_its_bounds(ran: list[Tallied], data: st.DataObject) -> None:
    """Had each opaque node been seen, in whatever precision, the figure would be no lower and no higher."""
    result = tally(ran, "here")
    turned = [
        replace(node, kind=data.draw(st.sampled_from(ELIGIBLE))) if node.kind is Kind.OPAQUE else node for node in ran
    ]
    seen = tally(turned, "here")
    assert seen.high_pct is None
    if result.pct is None or seen.pct is None:
        assert result.pct is None
        return
    high = result.pct if result.high_pct is None else result.high_pct
    assert 0.0 <= result.pct <= high <= 100.0 + 1e-9
    assert result.pct - 1e-9 <= seen.pct <= high + 1e-9
    assert seen.unit == result.unit


@given(nodes(st.integers(1, 10**9)), st.integers(1, 10**9))
def test_one_more_hidden_product_widens_the_bounds(ran: list[Tallied], macs: int) -> None:
    """The least share falls and the most rises, or stays."""
    narrow, wide = tally(ran, "here"), tally([*ran, Tallied("more", "Conv", Kind.OPAQUE, macs)], "here")
    if narrow.pct is None:
        assert wide.pct is None
        return
    assert wide.pct is not None
    assert wide.high_pct is not None
    assert wide.pct <= narrow.pct
    assert wide.high_pct >= (narrow.pct if narrow.high_pct is None else narrow.high_pct) - 1e-9


def test_a_large_product_that_is_hidden_proves_nothing() -> None:
    """1000 MACs in int8 beside 100 000 in a fused attention are between 0.99 and 100 %, and not 100."""
    result = tally([Tallied("dense", "Gemm", Kind.ASKED, 1000), Tallied("mha", "kgen", Kind.OPAQUE, 100_000)], "here")
    assert result.pct == pytest.approx(100 * 1000 / 101_000)
    assert (result.high_pct, result.scheme_pct) == (100.0, result.pct)


@given(nodes(st.none() | st.integers(1, 10**9)))
def test_rows_and_counts_add_up(ran: list[Tallied]) -> None:
    """Each eligible node is in one row, each float one has a name up to ten, opaque ones are counted apart."""
    result = tally(ran, "here")
    eligible = [node for node in ran if node.kind in ELIGIBLE]
    floats = [node.name for node in eligible if node.kind is Kind.OTHER]
    conversions = sum(node.kind is Kind.CONVERSION for node in ran)
    assert sum(row.nodes for row in result.by_op) == len(eligible) + conversions
    assert sum(row.quantized_nodes for row in result.by_op) == len(eligible) - len(floats)
    assert list(result.float_nodes) == floats[:10]
    assert result.opaque_nodes == sum(node.kind is Kind.OPAQUE for node in ran)
    if any(node.macs is None for node in ran if node.kind in (*ELIGIBLE, Kind.OPAQUE)):
        assert result.unit == "nodes"


def test_an_opaque_node_is_neither_quantized_nor_float() -> None:
    """A graph that is one fused node has no coverage: nobody can see into it."""
    assert tally([Tallied("all", "Subgraph", Kind.OPAQUE)], "here").pct is None


def test_what_a_scheme_cannot_quantize_is_told_apart() -> None:
    """Of 1000 MACs 90 are int8 and 10 could have been: 9 % of all, 90 % of what the scheme can."""
    ran = [
        Tallied("dense", "MatMulInteger", Kind.ASKED, 90),
        Tallied("left", "MatMul", Kind.OTHER, 10),
        Tallied("conv", "FusedConv", Kind.OTHER, 700, beyond="Conv"),
        Tallied("rnn", "GRU", Kind.OTHER, 200, beyond="GRU"),
    ]
    result = tally(ran, "here")
    assert (result.pct, result.scheme_pct, result.unit) == (9.0, 90.0, "MACs")
    assert result.not_quantizable == {"Conv": 70.0, "GRU": 20.0}


def test_a_scheme_that_can_quantize_nothing_has_no_share() -> None:
    """Not 0 of something and not all of nothing."""
    result = tally([Tallied("conv", "Conv", Kind.OTHER, 700, beyond="Conv")], "here")
    assert (result.pct, result.scheme_pct, result.not_quantizable) == (0.0, None, {"Conv": 100.0})


@given(nodes(st.integers(1, 10**9)))
def test_without_operators_beyond_it_both_shares_are_one(ran: list[Tallied]) -> None:
    """A scheme that takes every product is judged on all of them."""
    result = tally(ran, "here")
    assert result.scheme_pct == result.pct
    assert result.not_quantizable == {}


def test_the_first_runs_do_not_count() -> None:
    """They fill caches, compile or load; ten and more come after them."""
    runs = iter(range(10_000))
    result = warm_runs(lambda: next(runs))
    assert len(result) >= MIN_RUNS
    assert result == list(range(result[0], result[0] + len(result)))
    assert result[0] >= 3


def test_the_median_over_all_runs() -> None:
    """A layer that is not told in a run took no time in it; the order is that of a run that has all."""
    runs = [{"a": 1.0, "c": 5.0}, {"a": 3.0, "b": 2.0, "c": 7.0}, {"a": 2.0, "b": 4.0, "c": 6.0}]
    assert list(medians(runs).items()) == [("a", 2.0), ("b", 2.0), ("c", 6.0)]


def test_weights_alone_are_a_share_of_what_ran_in_float() -> None:
    """Of 100 MACs 40 ran as asked, 30 in float with weights as asked, 30 in float as a whole."""
    nodes = [
        Tallied("a", "MatMul", Kind.ASKED, 40, holds=True),
        Tallied("b", "MatMul", Kind.OTHER, 30, holds=True),
        Tallied("c", "MatMul", Kind.OTHER, 20),
        Tallied("d", "MatMul", Kind.OTHER, 10),
    ]
    result = tally(nodes, "CPU")
    assert (result.pct, result.weights_pct) == (40.0, 30.0)
    assert tally(nodes[2:], "CPU").weights_pct is None


def test_what_ran_in_eight_bits_in_place_of_four_is_told_from_float() -> None:
    """Of 100 MACs 60 multiplied bytes where weights of four bits were asked for; asked for int8 they are the share."""
    asked_int4 = [
        Tallied("a", "QLinearConv", Kind.OTHER, 60, in_int8=True),
        Tallied("b", "MatMul", Kind.OTHER, 40),
    ]
    assert (tally(asked_int4, "CPU").pct, tally(asked_int4, "CPU").int8_pct) == (0.0, 60.0)
    asked_int8 = [replace(asked_int4[0], kind=Kind.ASKED), asked_int4[1]]
    assert (tally(asked_int8, "CPU").pct, tally(asked_int8, "CPU").int8_pct) == (60.0, None)
