"""Drawn inputs are valid: names, dtypes, sizes and values are those that the model or the caller allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant import Dataset, Model, UsageError
from pytest_quant.spec import Signature, TensorInfo
from pytest_quant.strategies import inputs, settings
from tests.support.models import mean_over_time, parsed

Feeds = dict[str, np.ndarray[Any, Any]]
LIMITED = hypothesis.settings(settings, max_examples=40)
SAMPLES = np.arange(24, dtype=np.float32).reshape(6, 4)
"""Element i of sample j is 4 j + i, so that the range of element i is i to 20 + i."""


def signature(*tensors: tuple[str, str, tuple[int | None, ...]]) -> Signature:
    """A model with inputs of these names, dtypes and shapes."""
    return Signature(tuple(TensorInfo(*tensor) for tensor in tensors), ())


VECTOR = signature(("x", "float32", (None, 4)))


def smallest(strategy: st.SearchStrategy[Feeds]) -> Feeds:
    """What everything shrinks to."""
    return hypothesis.find(strategy, lambda _: True, settings=LIMITED)


@LIMITED
@given(feeds=inputs(signature(("x", "float16", (None, 2, 3)), ("y", "float64", ())), scale=8))
def test_values_of_floats_lie_within_the_scale(feeds: Feeds) -> None:
    """Without data between -8 and 8, in the model's own dtype, and a scalar is a scalar."""
    assert feeds["x"].dtype == np.float16
    assert feeds["y"].dtype == np.float64
    assert feeds["y"].shape == ()
    assert 1 <= len(feeds["x"]) <= 4
    assert feeds["x"].shape[1:] == (2, 3)
    assert all((np.abs(array) <= 8).all() for array in feeds.values())


def test_axes_of_one_name_have_one_size(tmp_path: Path) -> None:
    """Both inputs of a graph share their batch axis, whatever its size."""
    path = parsed(tmp_path / "two.onnx", "(float[n, 3] x, float[n, t] y) => (float[n, 3] z) { z = Identity(x) }")

    @LIMITED
    @given(feeds=inputs(path))
    def check(feeds: Feeds) -> None:
        assert len({len(array) for array in feeds.values()}) == 1

    check()


def test_named_axes_get_the_sizes_asked_for(tmp_path: Path) -> None:
    """`sizes` is by the name of the axis, and the batch size apart."""
    path = mean_over_time(tmp_path / "time.onnx")

    @LIMITED
    @given(feeds=inputs(path, batch_size=3, sizes={"t": (5, 7)}))
    def check(feeds: Feeds) -> None:
        assert feeds["x"].shape[0] == 3
        assert 5 <= feeds["x"].shape[1] <= 7

    check()
    with pytest.raises(UsageError, match="no free axis 'T'"):
        smallest(inputs(path, sizes={"T": 5}))


@LIMITED
@given(feeds=inputs(VECTOR, SAMPLES))
def test_values_around_samples_lie_within_their_range(feeds: Feeds) -> None:
    """With ``scale=1`` no element leaves the range that it has in the data."""
    assert (feeds["x"] >= SAMPLES.min(axis=0)).all()
    assert (feeds["x"] <= SAMPLES.max(axis=0)).all()


@LIMITED
@given(feeds=inputs(VECTOR, SAMPLES, scale=2))
def test_the_range_is_extended_by_the_stated_factor(feeds: Feeds) -> None:
    """``scale=2`` allows half the range, 10, beyond either end."""
    assert (feeds["x"] >= SAMPLES.min(axis=0) - 10).all()
    assert (feeds["x"] <= SAMPLES.max(axis=0) + 10).all()


def test_what_is_drawn_around_samples_shrinks_to_the_first_one() -> None:
    """A batch of the first sample alone, unchanged; without data, zeros."""
    np.testing.assert_array_equal(smallest(inputs(VECTOR, SAMPLES))["x"], SAMPLES[:1])
    np.testing.assert_array_equal(smallest(inputs(VECTOR))["x"], np.zeros((1, 4), np.float32))


def test_samples_of_one_batch_have_one_shape() -> None:
    """Sequences of different lengths are never stacked."""
    sequences = [(np.full(length, length, np.float32), 0) for length in (2, 3, 3, 5)]

    @LIMITED
    @given(feeds=inputs(signature(("x", "float32", (None, None))), Dataset.from_iterable(sequences), batch_size=2))
    def check(feeds: Feeds) -> None:
        assert feeds["x"].shape[0] == 2
        assert feeds["x"].shape[1] in (2, 3, 5)

    check()


@LIMITED
@given(feeds=inputs(signature(("ids", "int64", (None, 6))), np.array([[3, 9, 4, 4, 4, 4]])))
def test_ids_lie_within_the_data_where_no_table_is_known(feeds: Feeds) -> None:
    """Smallest and largest id of the data are the bounds."""
    assert feeds["ids"].dtype == np.int64
    assert feeds["ids"].min() >= 3
    assert feeds["ids"].max() <= 9


def test_samples_lie_on_the_axis_where_the_model_has_them(tmp_path: Path) -> None:
    """The model takes (steps, n, features) and one rate for all; the data leads with its samples."""
    path = parsed(tmp_path / "m.onnx", "(float[T, N, 2] x, float rate) => (float[T, N, 2] y) { y = Mul (x, rate) }")
    steps = np.arange(24, dtype=np.float32).reshape(3, 4, 2)

    @LIMITED
    @given(feeds=inputs(path, {"x": steps, "rate": np.float32(16)}, batch_size=(1, 3)))
    def check(feeds: Feeds) -> None:
        assert feeds["x"].shape[0] == 4
        assert feeds["x"].shape[1] <= 3
        assert feeds["x"].shape[2] == 2
        assert feeds["rate"].shape == ()

    check()
    first = smallest(inputs(path, {"x": steps, "rate": np.float32(16)}))
    np.testing.assert_array_equal(first["x"], steps[:1].swapaxes(0, 1))
    assert first["rate"] == 16


def test_a_model_with_state_is_drawn_step_by_step_only(tmp_path: Path) -> None:
    """A single run takes one step of a sequence."""
    path = parsed(tmp_path / "m.onnx", "(float[N, 2] x, float[N, 2] h) => (float[N, 2] y) { y = Add (x, h) }")
    model = Model.from_onnx(path, state={"y": "h"})
    assert smallest(inputs(model))["h"].shape == (1, 2)


EMBEDDING = """(int64[n, t] ids) => (float[n, t, 2] y) <float[3, 2] words = {0, 0, 0, 0, 0, 0}>
    { y = Gather (words, ids) }"""


@pytest.mark.parametrize("data", [None, np.zeros((2, 4), np.int64)], ids=["alone", "with data"])
def test_ids_lie_within_the_embedding_table(data: Any, tmp_path: Path) -> None:
    """The table has three rows, and counts more than data that holds the first id only."""
    drawn: set[int] = set()

    @LIMITED
    @given(feeds=inputs(parsed(tmp_path / "embedding.onnx", EMBEDDING), data))
    def check(feeds: Feeds) -> None:
        drawn.update(feeds["ids"].ravel().tolist())

    check()
    assert drawn == {0, 1, 2}


def test_text_of_samples_is_never_changed() -> None:
    """Only texts of the data come up, in the order of their sample."""
    texts = np.array([["a", "b"], ["c", "d"]], dtype=object)

    @LIMITED
    @given(feeds=inputs(signature(("text", "object", (None, 2))), texts))
    def check(feeds: Feeds) -> None:
        assert {tuple(row) for row in feeds["text"]} <= {("a", "b"), ("c", "d")}

    check()


def test_ids_of_which_nothing_is_known_are_asked_for() -> None:
    """The message names the input and the way out, which works."""
    ids = signature(("ids", "int64", (None, 6)))
    with pytest.raises(UsageError, match="which values input 'ids' takes is not known") as caught:
        smallest(inputs(ids))
    assert caught.value.fix == "give data=..., or bounds={'ids': (0, 1)}"
    assert smallest(inputs(ids, bounds={"ids": (5, 7)}))["ids"].tolist() == [[5] * 6]
    data = Dataset.from_arrays(np.full((3, 6), 9))
    assert smallest(inputs(ids, data))["ids"].tolist() == [[9] * 6]


@LIMITED
@given(
    feeds=inputs(signature(("mask", "bool", (None, 3)), ("text", "object", (None, 1)), ("pixels", "uint8", (None, 2))))
)
def test_booleans_text_and_pixels_need_no_bounds(feeds: Feeds) -> None:
    """They are drawn in their own dtypes."""
    assert {name: array.dtype.kind for name, array in feeds.items()} == {"mask": "b", "text": "O", "pixels": "u"}
    assert all(isinstance(text, str) for text in feeds["text"].ravel())


def test_inputs_of_one_sample_stay_together() -> None:
    """Of twelve elements at most four are set, so that the others tell of which sample ids and mask are."""
    ids, mask = np.arange(24).reshape(2, 12), np.repeat([[False], [True]], 12, axis=1)
    both = signature(("ids", "int64", (None, 12)), ("mask", "bool", (None, 12)))

    @LIMITED
    @given(feeds=inputs(both, {"ids": ids, "mask": mask}, batch_size=1))
    def check(feeds: Feeds) -> None:
        first, second = ((feeds[name] == array).sum(axis=1).argmax() for name, array in (("ids", ids), ("mask", mask)))
        assert first == second

    check()
