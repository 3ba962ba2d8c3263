"""Outputs of mixed meaning are cut into groups of channels, whole and by the shape they have."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.metrics.channels import split, with_groups
from pytest_quant.spec import ChannelGroup
from tests.unit.metrics.scoring import said

BOXES = ChannelGroup("head", "boxes", 1, 0, 4)
SCORES = ChannelGroup("head", "scores", 1, 4, None)
HEAD = np.arange(2 * 6 * 5).reshape(2, 6, 5)


@given(cuts=st.lists(st.integers(1, 9), unique=True), axis=st.sampled_from([1, 2, -1, -2]), seed=st.integers(0, 99))
def test_groups_side_by_side_are_the_output(cuts: list[int], axis: int, seed: int) -> None:
    """Joined along their axis they give it back; none is a copy."""
    output = np.random.default_rng(seed).normal(size=(3, 10, 10))
    edges = [0, *sorted(cuts), None]
    groups = [ChannelGroup("y", f"g{i}", axis, first or 0, end) for i, (first, end) in enumerate(pairwise(edges))]
    parts = [part for _, part in split(output, groups)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=axis), output)
    assert all(np.shares_memory(part, output) for part in parts)


def test_groups_stand_beside_the_outputs_by_their_names() -> None:
    """The whole output stays, for a metric that reads all of it."""
    found = with_groups({"head": HEAD, "other": HEAD}, [BOXES, SCORES])
    assert {name: array.shape for name, array in found.items()} == {
        "head": (2, 6, 5),
        "other": (2, 6, 5),
        "head.boxes": (2, 4, 5),
        "head.scores": (2, 2, 5),
    }


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([("heads", "a", 1, 0, None)], "output 'heads', which the model does not have\n  allowed: did you mean 'head'"),
        ([("head", "taken", 1, 0, None)], "calls a group 'taken', and 'head.taken' is an output of the model"),
        ([("head", "a", 3, 0, None)], "output 'head' has no axis 3 of channels\n  got: shape (n, 6, 5)"),
        ([("head", "a", -3, 0, None)], "output 'head' has no axis -3 of channels\n  got: shape (n, 6, 5)"),
        ([("flat", "a", 1, 0, None)], "output 'flat' has no axis 1 of channels\n  got: shape (n)"),
        (
            [("head", "a", -1, 0, 6)],
            "beyond output 'head'\n  got: (0, 6) on axis 2 of shape (n, 6, 5)\n  allowed: 0 to 5",
        ),
        ([("head", "a", 1, 0, 4), ("head", "b", 1, 6, None)], "group 'b' goes beyond output 'head'\n  got: (6, None)"),
        ([("head", "a", 1, 4, None)], "in no group\n  got: 0 to 4 of 6\n  next: name them too: 'rest': (0, 4)"),
        ([("head", "a", 1, 0, 2), ("head", "b", 1, 3, None)], "that are in no group\n  got: 2 to 3 of 6"),
        ([("head", "a", 1, 0, 2)], "that are in no group\n  got: 2 to 6 of 6"),
    ],
)
def test_groups_of_channels_that_do_not_fit(groups: list[tuple[Any, ...]], words: str) -> None:
    """The output with its shape, and the channels that are meant."""
    chosen = [ChannelGroup(*group) for group in groups]
    assert words in said(lambda: with_groups({"head": HEAD, "head.taken": HEAD, "flat": np.zeros(3)}, chosen))
