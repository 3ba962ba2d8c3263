"""Figures of any origin become plain JSON types."""

from __future__ import annotations

import enum
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_quant.errors import UsageError
from pytest_quant.record.codec import Json, plain
from pytest_quant.result import Interval, Status


def _types(value: Json) -> set[type]:
    children: list[Json] = []
    if isinstance(value, dict):
        children = [*value.keys(), *value.values()]
    elif isinstance(value, list):
        children = value
    return {type(value)}.union(*(_types(child) for child in children))


_SCALARS = hnp.scalar_dtypes().filter(lambda dtype: dtype.kind in "biuf" and dtype.itemsize <= 8)


@given(_SCALARS.flatmap(lambda dtype: hnp.arrays(dtype.newbyteorder("="), ())))
def test_a_numpy_scalar_becomes_the_number_it_holds(array: np.ndarray[Any, Any]) -> None:
    """Whether an array without axes or a scalar, numpy's own conversion gives the same."""
    expected = array.item()
    if isinstance(expected, float) and not math.isfinite(expected):
        expected = None
    for value in (array, array[()]):
        found = plain(value, "x")
        assert found == expected
        assert type(found) is type(expected)


def test_a_torch_scalar_becomes_the_number_it_holds() -> None:
    """Without this package importing torch."""
    assert plain(torch.tensor(0.5), "x") == 0.5


@pytest.mark.parametrize(
    "value",
    [np.zeros(2), np.array("2020-01-01", "datetime64[D]"), 1j, object(), {1, 2}, b"bytes", np.longdouble("0.1"), int],
)
def test_anything_else_is_a_clear_error(value: object) -> None:
    """The message names the figure and its type, and says what to return."""
    with pytest.raises(UsageError, match=r"accuracy\.drop") as caught:
        plain({"drop": value}, "accuracy")
    assert type(value).__name__ in str(caught.value)
    assert "float(value)" in str(caught.value)


_TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(Status),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


@given(_TREES)
def test_what_is_plain_survives_json(value: object) -> None:
    """JSON without NaN gives back the same, and only the seven exact types occur."""
    found = plain(value, "x")
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert _types(found) <= {type(None), bool, int, float, str, list, dict}


@given(st.floats())
def test_what_is_not_finite_is_null(value: float) -> None:
    """NaN and infinity are no figures; every other number stays as it is."""
    assert plain(value, "x") == (value if math.isfinite(value) else None)


@pytest.mark.parametrize("interval", [Interval(math.nan, 1.0), Interval(0.0, math.inf)])
def test_half_an_interval_is_none(interval: Interval) -> None:
    """An interval without one of its ends tells nothing."""
    assert plain(interval, "x") is None


def test_subclasses_become_the_type_itself() -> None:
    """The transport of pytest-xdist refuses subclasses, which `json` would let through."""

    class Number(enum.IntEnum):
        ONE = 1

    assert _types(plain([Number.ONE, Status.FAIL, np.str_("a"), np.float64(0.5)], "x")) == {list, int, str, float}


def test_lone_surrogates_become_their_escape() -> None:
    """A file name that is no UTF-8 carries them, and neither xdist nor SQLite takes them."""
    assert plain("a\udcff", "x") == "a\\udcff"
