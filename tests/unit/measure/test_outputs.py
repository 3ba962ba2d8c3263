"""Outputs in chunks: nothing lost, nothing doubled, both sides cut at the same samples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.measure.outputs import Chunk, side_by_side

VALUES = np.arange(200.0).reshape(100, 2)


def cut(ends: list[int], values: np.ndarray = VALUES) -> Iterator[Chunk]:
    """Cut the first samples of `values` into chunks that end at `ends`."""
    start = 0
    for end in sorted(set(ends)):
        yield Chunk({"y": values[start:end]}, np.arange(start, end), start, end - start)
        start = end


@given(ours=st.sets(st.integers(1, 99)), theirs=st.sets(st.integers(1, 99)))
def test_both_sides_are_cut_at_the_same_samples(ours: set[int], theirs: set[int]) -> None:
    """However each side is cut, pairs cover every sample once, in order, with equal bounds."""
    pairs = list(side_by_side(cut([*ours, 100]), cut([*theirs, 100])))
    assert all(len(pair.reference["y"]) == len(pair.candidate["y"]) == pair.n for pair in pairs)
    assert [pair.start for pair in pairs] == [0, *np.cumsum([pair.n for pair in pairs])[:-1]]
    np.testing.assert_array_equal(np.concatenate([pair.reference["y"] for pair in pairs]), VALUES)
    np.testing.assert_array_equal(np.concatenate([pair.candidate["y"] for pair in pairs]), VALUES)
    np.testing.assert_array_equal(np.concatenate([pair.labels for pair in pairs]), np.arange(100))


@given(first=st.integers(0, 98), n=st.integers(1, 50))
def test_a_part_keeps_its_sample_indices(first: int, n: int) -> None:
    """A part of a chunk knows where it starts in the whole set."""
    last = min(first + n, 100)
    part = next(cut([100])).part(first, last)
    assert (part.start, part.n) == (first, last - first)
    np.testing.assert_array_equal(part.outputs["y"], VALUES[first:last])
