"""The batch axis of each input; shapes of samples: smallest, commonest, largest."""

from __future__ import annotations

import ast
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.data import Layout, find_layout
from pytest_quant.data.layout import SampleKind, find_shapes
from pytest_quant.errors import DataError
from pytest_quant.spec import Signature, TensorInfo
from tests.unit.data.samples import RAGGED, TWO, streamed


def test_an_input_without_an_axis_of_samples_keeps_its_shape() -> None:
    """A scalar stays one beside an input whose samples move to axis 1."""
    layout = Layout({"x": 1, "rate": None})
    arranged = layout.arrange({"x": np.zeros((3, 5, 2)), "rate": np.array(16000.0)})
    assert {name: array.shape for name, array in arranged.items()} == {"x": (5, 3, 2), "rate": ()}


def test_an_axis_that_the_user_names_tells_the_size_that_others_lead_with() -> None:
    """Of (7, 1, 8) with its samples on axis 1 and (1, 7, 4), the second holds one sample too."""
    inputs = (TensorInfo("x", "float32", (7, 1, 8)), TensorInfo("other", "float32", (1, 7, 4)))
    layout = find_layout(Signature(inputs, ()), {"x": 1}, {"x": 3, "other": 3}, where="data")
    assert layout.axes == {"x": 1, "other": 0}
    assert layout.fixed_batch_size == 1


def test_a_free_axis_of_steps_frees_no_batch_that_the_user_tells_to_be_fixed() -> None:
    """Of (steps, 4, 8) with its samples on axis 1 and (4, steps, 8), both hold four samples."""
    inputs = (
        TensorInfo("x", "float32", (4, None, 8), ("", "steps", "")),
        TensorInfo("other", "float32", (None, 4, 8), ("steps", "", "")),
    )
    layout = find_layout(Signature(inputs, ()), {"other": 1}, {"x": 3, "other": 3}, where="data")
    assert layout.axes == {"x": 0, "other": 1}
    assert layout.fixed_batch_size == 4


@pytest.mark.parametrize(
    ("rank", "states", "axis", "allowed"),
    [
        (2, frozenset(), 2, "0 to 1, or None"),
        (1, frozenset(), 7, "0 to 0, or None"),
        # Of (samples, steps, features) a model with a state takes (samples, features) at a time.
        (3, frozenset({"h"}), 2, "0 to 1, or None"),
    ],
    ids=["rows", "numbers", "sequences"],
)
def test_of_an_input_of_any_rank_the_data_tells_which_axes_there_are(
    rank: int, states: frozenset[str], axis: int, allowed: str
) -> None:
    """An axis that the data does not have is an error with those that it has, and the one to write is taken."""
    signature = Signature((TensorInfo("x", "float32", None),), ())
    with pytest.raises(DataError) as error:
        find_layout(signature, {"x": axis}, {"x": rank}, where="data", states=states)
    assert f"got: axis {axis} of {rank - len(states)}" in str(error.value)
    assert f"allowed: {allowed}" in str(error.value)
    assert "next: write batch_axes={'x': 0}" in str(error.value)
    layout = find_layout(signature, {"x": 0}, {"x": rank}, where="data", states=states)
    array = np.arange(2.0**rank).reshape((2,) * rank)
    np.testing.assert_array_equal(layout.samples(layout.arrange({"x": array}), [0, 1])["x"].sum(), array.sum())


lengths = st.lists(st.integers(1, 9), min_size=1, max_size=40)


def rows(*sizes: int) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    """One sample of each length, each different."""
    return [np.full(size, index, np.float32) for index, size in enumerate(sizes)]


@given(lengths, lengths)
def test_shapes_are_those_of_both_sets(evaluated: list[int], calibrated: list[int]) -> None:
    """Minimum, maximum and a mode of the lengths, by the standard library; both sets run through the engine."""
    apart = [row + 1000 for row in rows(*calibrated)]
    result = streamed(rows(*evaluated), calibration=apart, signature=RAGGED).shapes["x"]
    both = evaluated + calibrated
    assert (result.smallest, result.largest) == ((min(both),), (max(both),))
    counts = Counter(both)
    assert counts[result.commonest[0]] == max(counts.values())


def test_the_commonest_shapes_belong_to_one_sample() -> None:
    """By itself the commonest length of `ids` is 5 and that of `mask` is 4; no sample has both."""
    sizes = [(5, 1), (5, 2), (5, 3), (4, 4), (4, 4)]
    samples = [{"ids": np.full(a, i), "mask": np.ones(b, bool)} for i, (a, b) in enumerate(sizes)]
    result = streamed(samples, signature=TWO).shapes
    assert (result["ids"].commonest, result["mask"].commonest) == ((4,), (4,))
    assert (result["ids"].largest, result["mask"].smallest) == ((5,), (1,))


def test_of_equally_common_shapes_the_middle_one() -> None:
    """Where every sample has a shape of its own, an extreme one would be a poor one to tune for."""
    assert streamed(rows(90, 1, 7, 50, 3), signature=RAGGED).shapes["x"].commonest == (7,)


def test_ranks_that_differ_have_no_range() -> None:
    """A graph whose rank is free takes them; no profile can."""
    kinds: Counter[SampleKind] = Counter({(("x", (2,)), ("y", (3,))): 1, (("x", (2, 2)), ("y", (4,))): 1})
    assert list(find_shapes(kinds)) == ["y"]


def test_the_axes_that_a_text_proposes_are_taken() -> None:
    """Two inputs fix 4 and 3 samples: with the dict that the text writes, one counts them and the other is whole."""
    signature = Signature((TensorInfo("x", "float32", (4, 2)), TensorInfo("table", "float32", (3, 5))), ())
    ranks = {"x": 2, "table": 2}
    with pytest.raises(DataError, match="differ in the number of samples that they fix") as raised:
        find_layout(signature, {"x": 0, "table": 0}, ranks, where="data")
    assert (raised.value.fix or "").endswith("Model.from_onnx(path, batch_axes={'x': 0, 'table': None})")
    proposed = ast.literal_eval((raised.value.fix or "").partition("batch_axes=")[2].rstrip(")"))
    layout = find_layout(signature, proposed, ranks, where="data")
    assert (layout.axes, layout.fixed_batch_size) == ({"x": 0, "table": None}, 4)
