"""What is read of JSON is what the types of a dataclass allow, whatever the dataclass."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.errors import HistoryError
from pytest_quant.record.codec import decode, plain
from pytest_quant.result import Interval, OpCoverage


class Color(StrEnum):
    """An enumeration."""

    RED = "RED"
    GREEN = "GREEN"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A dataclass in another one."""

    number: float
    whole: int | None


@dataclass(frozen=True, slots=True)
class Tree:
    """One field of each kind that the documents have."""

    text: str
    leaf: Leaf
    either: int | float | None
    color: Color = Color.RED
    flag: bool = False
    span: Interval | None = None
    leaves: tuple[Leaf, ...] = ()
    named: tuple[OpCoverage, ...] = ()
    rounds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    below: Tree | None = None


_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_LEAVES = st.builds(Leaf, _FINITE, st.none() | st.integers())
_NAMED = st.lists(st.builds(OpCoverage, st.text(), st.integers(), st.integers()), unique_by=lambda op: op.op_type)
_ROUNDS = st.dictionaries(st.text(), st.lists(_FINITE).map(tuple), max_size=2)


def _trees(below: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.builds(
        Tree,
        st.text(),
        _LEAVES,
        st.none() | st.integers() | _FINITE,
        st.sampled_from(Color),
        st.booleans(),
        st.none() | st.builds(Interval, _FINITE, _FINITE),
        st.lists(_LEAVES, max_size=2).map(tuple),
        _NAMED.map(tuple),
        _ROUNDS,
        st.none() | below,
    )


@given(st.recursive(_trees(st.nothing()), _trees, max_leaves=3))
def test_what_was_written_is_read(tree: Tree) -> None:
    """Through the text that `json` makes, with every field, to the very types."""
    text = json.dumps(plain(tree, "tree"), allow_nan=False)
    assert repr(decode(Tree, json.loads(text), "tree")) == repr(tree)


_LEAF: dict[str, Any] = {"number": 1.5, "whole": 3}


def test_what_is_missing_is_null_or_its_default() -> None:
    """Fields are added over time; only one that is never null and has no default must be there."""
    assert decode(Tree, {"text": "x", "leaf": {"number": 1}}, "tree") == Tree("x", Leaf(1.0, None), None)


@pytest.mark.parametrize(
    ("change", "where", "got", "allowed"),
    [
        ({"text": None}, "tree.text", "None", "a text"),
        ({"leaf": None}, "tree.leaf", "None", "an object"),
        ({"leaf": {}}, "tree.leaf.number", "None", "a number"),
        ({"leaf": _LEAF | {"whole": 1.5}}, "tree.leaf.whole", "1.5", "a whole number or null"),
        ({"leaf": _LEAF | {"whole": True}}, "tree.leaf.whole", "True", "a whole number or null"),
        ({"leaf": _LEAF | {"number": math.nan}}, "tree.leaf.number", "nan", "a finite number"),
        ({"leaf": _LEAF | {"number": 10**400}}, "tree.leaf.number", "1" + "0" * 79, "a finite number"),
        ({"leaf": _LEAF | {"number": False}}, "tree.leaf.number", "False", "a number"),
        ({"either": "1"}, "tree.either", "'1'", "a whole number or a number or null"),
        ({"either": math.inf}, "tree.either", "inf", "a whole number or a finite number or null"),
        ({"color": "GREN"}, "tree.color", "'GREN'", "did you mean 'GREEN'? known: GREEN, RED"),
        ({"color": 1}, "tree.color", "1", "one of RED, GREEN"),
        ({"flag": 0}, "tree.flag", "0", "true or false"),
        ({"span": [1.0]}, "tree.span", "[1.0]", "[low, high] or null"),
        ({"span": [1.0, 2.0, 3.0]}, "tree.span", "[1.0, 2.0, 3.0]", "[low, high] or null"),
        ({"span": {"low": 1.0, "high": 2.0}}, "tree.span", "{'low': 1.0, 'high': 2.0}", "[low, high] or null"),
        ({"leaves": [_LEAF, {"number": "x"}]}, "tree.leaves[1].number", "'x'", "a number"),
        ({"leaves": {"0": _LEAF}}, "tree.leaves", "{'0': {'number': 1.5, 'whole': 3}}", "a list"),
        ({"named": {"Conv": {"nodes": 1}}}, "tree.named.Conv.quantized_nodes", "None", "a whole number"),
        ({"named": []}, "tree.named", "[]", "an object"),
        ({"rounds": {"a": [1, 2, -math.inf]}}, "tree.rounds.a[2]", "-inf", "a finite number"),
        ({"below": {"text": "y", "leaf": 4}}, "tree.below.leaf", "4", "an object"),
    ],
)
def test_what_is_not_allowed_is_named(change: dict[str, Any], where: str, got: str, allowed: str) -> None:
    """The message says where, what was found, what is allowed, and the next step."""
    with pytest.raises(HistoryError) as caught:
        decode(Tree, {"text": "x", "leaf": _LEAF, **change}, "tree")
    assert str(caught.value).splitlines() == [
        f"a record cannot be read: {where} is not what it must be",
        f"  got: {got}",
        f"  allowed: {allowed}",
        "  next: import only files that pytest-quant wrote, unchanged",
    ]


_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_NAMES = st.sampled_from(["text", "leaf", "number", "span", "named", "rounds", "below"])


@given(st.recursive(_VALUES, lambda inner: st.lists(inner) | st.dictionaries(_NAMES, inner)))
def test_any_json_is_read_or_refused(data: object) -> None:
    """No other error, and never a number that JSON does not have."""
    try:
        read = decode(Leaf, data, "leaf")
    except HistoryError:
        return
    assert abs(read.number) <= sys.float_info.max
