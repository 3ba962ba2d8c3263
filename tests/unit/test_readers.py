"""Readers give a value in its one form, or refuse it by the name that the user wrote."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.errors import UsageError
from pytest_quant.marks.keys import KEYS
from pytest_quant.readers import (
    FLAG,
    NUMBER,
    PERCENT,
    Key,
    Reader,
    choice_of,
    count,
    each,
    keys_of,
    make_reader,
    option,
    read_values,
    row,
    text,
)

_ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.integers())
_KINDS = (NUMBER, PERCENT, count(), choice_of("a", "b"), choice_of(1, 2), FLAG, text(), each(count()))


def _refusal(reader: Reader[object], value: object) -> str | None:
    """What the refusal says; ``None`` where there is none."""
    try:
        reader.read("threads", value)
    except UsageError as error:
        return error.what
    return None


@given(st.sampled_from(_KINDS), _ANYTHING)
def test_a_value_is_read_or_refused_by_its_name(reader: Reader[object], value: object) -> None:
    """Nothing else is raised, whatever was written."""
    assert "threads" in (_refusal(reader, value) or "threads")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("batch_size", 0),
        ("batch_size", [1, 0]),
        ("latency_sample", -1),
        ("calibration", {"samples": 0}),
        ("calibration", {"batch_size": "all"}),
        ("max_latency_ms", {"p99.9": -1}),
        ("min_sqnr_db", {"boxes": -1}),
        ("max_drop", -1),
    ],
)
def test_what_a_refusal_says_to_write_can_be_written(key: str, value: object) -> None:
    """It is pasted into a mark, and read; a part of a dict is written as a dict."""
    with pytest.raises(UsageError) as caught:
        read_values(KEYS, {key: value})
    call = ast.parse(f"mark({str(caught.value.fix).removeprefix('write ')})", mode="eval").body
    assert isinstance(call, ast.Call)
    pasted = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in call.keywords}
    assert list(pasted) == [key]
    assert key in read_values(KEYS, pasted)


@pytest.mark.parametrize("reader", _KINDS)
@given(value=_ANYTHING)
def test_the_one_form_is_read_as_itself(reader: Reader[object], value: object) -> None:
    """So a check that is copied into another mark asks for the same."""
    try:
        once = reader.read("x", value)
    except UsageError:
        return
    assert reader.read("x", once) == once


def test_numbers_of_numpy_become_plain_ones() -> None:
    """JSON and runtimes take no others; a whole number stays one."""
    for value in (2, np.int64(2), np.uint8(2)):
        assert type(count().read("x", value)) is int
        assert type(NUMBER.read("x", value)) is int
    assert [type(NUMBER.read("x", value)) for value in (2.0, np.float32(2), Fraction(2))] == [float] * 3


def test_a_number_too_large_for_a_float_is_not_finite() -> None:
    """It could be compared with no figure."""
    assert NUMBER.read("x", 10**308) == 10**308
    with pytest.raises(UsageError, match="x must be finite"):
        NUMBER.read("x", 10**309)


def test_a_count_begins_where_it_is_told_to() -> None:
    """And no truth value is one."""
    assert [count(at_least).form("x", 2) for at_least in (1, 2, 3)] == [2, 2, None]
    assert count(0).form("x", True) is None
    assert "3" in count(3).allowed


def test_one_of_compares_types_too() -> None:
    """True is not 1, and 1.0 is not 1."""
    assert [choice_of(1, 2).form("x", value) for value in (1, True, 1.0, 3)] == [1, None, None, None]
    assert [FLAG.form("x", value) for value in (True, False, 1, 0)] == [True, False, None, None]
    assert FLAG.allowed == "True, False"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    """What is no text gets the list."""
    with pytest.raises(UsageError, match="unknown x 'fats'") as caught:
        choice_of("fast", "slow").read("x", "fats")
    assert caught.value.allowed == "did you mean 'fast'? known: fast, slow"
    with pytest.raises(UsageError, match="x must be a name") as caught:
        choice_of("slow", "fast").read("x", 3)
    assert caught.value.allowed == "fast, slow"


def test_a_text_matches_as_a_whole() -> None:
    """By default it is any that is not blank."""
    assert [text().form("x", value) for value in ("a\nb", " ", "", 3)] == ["a\nb", None, None, None]
    capability = text("a capability", "'SM89'", pattern=r"SM\d\d")
    assert [capability.form("x", value) for value in ("SM89", "SM890", "xSM89")] == ["SM89", None, None]


def test_a_list_has_each_value_once_and_is_never_empty() -> None:
    """One value alone is a list of one."""
    reader = each(count())
    assert reader.listed
    assert not count().listed
    assert (reader.read("x", [3, 1, 3]), reader.read("x", 2)) == ((3, 1), (2,))
    with pytest.raises(UsageError, match="x is an empty list"):
        reader.read("x", [])


def test_what_one_sentence_says() -> None:
    """The refusal has it, the value, and an example to copy."""
    reader = make_reader("an even number", lambda value: value if value in (2, 4) else None, "2")
    assert reader.read("x", 4) == 4
    with pytest.raises(UsageError, match="x must be an even number") as caught:
        reader.read("x", 3)
    assert (caught.value.value, caught.value.fix) == ("3", "write x=2")


@dataclass(frozen=True)
class Table:
    """Two rows and a field that is none."""

    threads: int = option(1, count(), "threads of one operator")
    other: int = 0
    speed: float | None = field(default=None, metadata=row(Key("", NUMBER, "how fast", "m/s")))


def test_fields_are_rows_by_their_names() -> None:
    """In their order; a field without a row is none."""
    keys = keys_of(Table)
    assert [(key.name, key.help, key.unit) for key in keys.values()] == [
        ("threads", "threads of one operator", ""),
        ("speed", "how fast", "m/s"),
    ]
    assert read_values(keys, {"speed": np.float32(2), "threads": None, "unknown": 3}) == {"speed": 2.0}
    with pytest.raises(UsageError, match=re.escape("threads must be a whole number of at least 1")):
        read_values(keys, {"threads": 0})
