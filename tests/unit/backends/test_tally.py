"""From the nodes that ran to a coverage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.backends.tally import Kind, Tallied, tally

ELIGIBLE = (Kind.ASKED, Kind.OTHER)


@st.composite
def nodes(draw: st.DrawFn, macs: st.SearchStrategy[int | None]) -> list[Tallied]:
    """Any nodes of three op types."""
    kinds, types = st.sampled_from(Kind), st.sampled_from(["Conv", "MatMul", "Gemm"])
    rows = draw(st.lists(st.tuples(types, kinds, macs), max_size=12))
    return [Tallied(f"n{index}", *row) for index, row in enumerate(rows)]


@given(nodes(st.integers(1, 10**9)))
def test_with_all_macs_known_the_share_is_theirs(ran: list[Tallied]) -> None:
    """The multiply-accumulates in the asked precision over those of all eligible nodes."""
    found = tally(ran, "here")
    eligible = [node for node in ran if node.kind in ELIGIBLE]
    total = sum(node.macs or 0 for node in eligible)
    if not eligible:
        assert found.pct is None
        return
    asked = sum(node.macs or 0 for node in eligible if node.kind is Kind.ASKED)
    assert found.unit == "MACs"
    assert found.pct == pytest.approx(100 * asked / total)


@given(nodes(st.none() | st.integers(1, 10**9)))
def test_rows_and_counts_add_up(ran: list[Tallied]) -> None:
    """Each eligible node is in one row, each float one has a name up to ten, opaque ones are counted apart."""
    found = tally(ran, "here")
    eligible = [node for node in ran if node.kind in ELIGIBLE]
    floats = [node.name for node in eligible if node.kind is Kind.OTHER]
    conversions = sum(node.kind is Kind.CONVERSION for node in ran)
    assert sum(row.nodes for row in found.by_op) == len(eligible) + conversions
    assert sum(row.quantized_nodes for row in found.by_op) == len(eligible) - len(floats)
    assert list(found.float_nodes) == floats[:10]
    assert found.opaque_nodes == sum(node.kind is Kind.OPAQUE for node in ran)
    if any(node.macs is None for node in eligible):
        assert found.unit == "nodes"


def test_an_opaque_node_is_neither_quantized_nor_float() -> None:
    """A graph that is one fused node has no coverage: nobody can see into it."""
    assert tally([Tallied("all", "Subgraph", Kind.OPAQUE)], "here").pct is None
