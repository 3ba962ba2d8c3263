"""The key `channels`: groups with a name and a range."""

from __future__ import annotations

import pytest

from pytest_quant import UsageError
from pytest_quant.marks.keys import read
from pytest_quant.spec import ChannelGroup


def test_groups_are_read_in_their_order() -> None:
    """The axis is the first one after that of the samples unless it is written."""
    value = {"y": {"boxes": (0, 4), "scores": [4, None]}, "z": {"axis": -1, "all": (0, 2)}}
    assert read({"channels": value}).channels == (
        ChannelGroup("y", "boxes", 1, 0, 4),
        ChannelGroup("y", "scores", 1, 4, None),
        ChannelGroup("z", "all", -1, 0, 2),
    )
    assert read({}).channels == ()


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        "output0",
        {1: {"a": (0, 1)}},
        {"y": (0, 4)},
        {"y": {}},
        {"y": {"axis": 1}},
        {"y": {"axis": 0, "a": (0, 1)}},
        {"y": {"axis": True, "a": (0, 1)}},
        {"y": {"axis": "1", "a": (0, 1)}},
        {"y": {"": (0, 1)}},
        {"y": {1: (0, 1)}},
        {"y": {"a": 4}},
        {"y": {"a": (4,)}},
        {"y": {"a": (4, 4)}},
        {"y": {"a": (4, 2)}},
        {"y": {"a": (-1, 2)}},
        {"y": {"a": (0.0, 2)}},
        {"y": {"a": (0, True)}},
        {"y": {"a": slice(0, 2)}},
    ],
)
def test_what_is_no_range_of_channels_is_refused(value: object) -> None:
    """The message begins with the key, and shows how it is written or what is allowed."""
    with pytest.raises(UsageError, match=r"^channels") as caught:
        read({"channels": value})
    assert caught.value.fix or caught.value.allowed
