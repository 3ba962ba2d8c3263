"""Outputs of mixed meaning are cut into groups of channels, whole and by the shape they have."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.errors import UsageError
from pytest_quant.metrics.channels import split, with_groups
from pytest_quant.spec import ChannelGroup

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
    ("groups", "says"),
    [
        ([ChannelGroup("heads", "a", 1, 0, None)], "did you mean 'head'"),
        ([ChannelGroup("head", "taken", 1, 0, None)], "'head.taken' is an output"),
        ([ChannelGroup("head", "a", 3, 0, None)], r"no axis 3(.|\n)*shape \(n, 6, 5\)"),
        ([ChannelGroup("head", "a", -3, 0, None)], "no axis -3"),
        ([BOXES, ChannelGroup("head", "b", 1, 4, 7)], r"group 'b' goes beyond(.|\n)*\(4, 7\)(.|\n)*0 to 6"),
        ([BOXES, ChannelGroup("head", "b", 1, 6, None)], "group 'b' goes beyond"),
        ([BOXES], r"in no group(.|\n)*4 to 6 of 6(.|\n)*'rest': \(4, 6\)"),
        ([SCORES], r"in no group(.|\n)*'rest': \(0, 4\)"),
        ([ChannelGroup("head", "a", 1, 0, 2), ChannelGroup("head", "b", 1, 3, 6)], r"'rest': \(2, 3\)"),
    ],
)
def test_groups_that_do_not_fit_are_refused(groups: list[ChannelGroup], says: str) -> None:
    """With what the output really is; channels in no group would be judged by nothing."""
    with pytest.raises(UsageError, match=says):
        with_groups({"head": HEAD, "head.taken": HEAD}, groups)


def test_an_output_of_one_value_per_sample_has_no_channels() -> None:
    """It has the axis of the samples only."""
    with pytest.raises(UsageError, match="no axis 1"):
        with_groups({"head": np.zeros(3)}, [BOXES])
