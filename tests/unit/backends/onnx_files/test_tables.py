"""The graph tells how many rows the tables have that inputs index."""

from __future__ import annotations

from pathlib import Path

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
