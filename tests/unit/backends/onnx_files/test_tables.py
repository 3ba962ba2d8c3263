"""The graph tells how many rows the tables have that inputs index."""

from __future__ import annotations

from pathlib import Path

import onnx

from pytest_quant.backends.onnx_files import read_table_rows
from tests.support.models import parsed


def test_a_table_is_found_behind_casts_and_reshapes(tmp_path: Path) -> None:
    """The axis that is indexed counts, the smaller of two tables, and constants of nodes as well as initializers."""
    graph = """(int32[n, t] ids, int64[n, t] types, int64[n, t] mask) => (float[a, b] y, float[c, d] z, float[e, f] m)
    <float[7, 4] words = {0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0}>
    {
      wide = Cast <to = 7> (ids)
      flat = Flatten (wide)
      y = Gather (words, flat)
      kinds = Constant <value = float[2, 3] {0, 0, 0, 0, 0, 0}> ()
      both = Concat <axis = 0> (wide, types)
      z = Gather <axis = 1> (kinds, both)
      m = Cast <to = 1> (mask)
    }"""
    assert read_table_rows(parsed(tmp_path / "m.onnx", graph)) == {"ids": 3, "types": 3}


def test_a_table_is_found_in_a_subgraph(tmp_path: Path) -> None:
    """A branch that reads the input by its name indexes it as well."""
    graph = """(bool flag, int64[n] ids) => (float[n, 2] y)
    <float[3, 2] words = {0, 0, 0, 0, 0, 0}>
    {
      y = If (flag) <
        then_branch = one () => (float[n, 2] p) { p = Gather (words, ids) },
        else_branch = two () => (float[n, 2] q) { q = Gather (words, ids) }
      >
    }"""
    assert read_table_rows(parsed(tmp_path / "m.onnx", graph)) == {"ids": 3}


def test_a_computed_index_is_not_followed(tmp_path: Path) -> None:
    """Which values are valid before an addition is not known."""
    graph = """(int64[n] ids) => (float[n, 2] y) <float[3, 2] words = {0, 0, 0, 0, 0, 0}, int64 one = {1}>
    { next = Add (ids, one) y = Gather (words, next) }"""
    assert read_table_rows(parsed(tmp_path / "m.onnx", graph)) == {}


def test_nodes_that_lack_inputs_or_outputs_index_nothing(tmp_path: Path) -> None:
    """Runtimes refuse them later, each in its own words; so too an axis that the table does not have."""
    graph = """(int64[n] ids) => (float[n, 2] y) <float[3, 2] words = {0, 0, 0, 0, 0, 0}>
    { flat = Cast <to = 7> (ids) kinds = Constant <value = float[1] {0}> () y = Gather <axis = 1> (words, flat) }"""
    path = parsed(tmp_path / "m.onnx", graph)
    model = onnx.load(path)
    cast, constant, gather = model.graph.node
    gather.attribute[0].i = 2
    del cast.output[:], constant.output[:]
    model.graph.node.add(op_type="Gather", input=["words"], output=["z"])
    model.graph.node.add(op_type="Concat")
    path.write_bytes(model.SerializeToString())
    assert read_table_rows(path) == {}
