"""The batch that is timed: the sample of median size, or the one that is asked for, whatever form the data has."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.data import open_data
from pytest_quant.errors import DataError
from pytest_quant.spec import Dataset, Model, Signature, TensorInfo
from tests.unit.data.samples import RAGGED, TWO, Samples, numbers, opened, streamed
from tests.unit.measure.played import data_of

IMAGE = Signature((TensorInfo("x", "float32", (None, 1, None, None)),), ())
"""One image of any height and width."""

LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=24)


def sequences(lengths: list[int]) -> list[NDArray[np.float32]]:
    """Return one sample of each length, filled with its index."""
    return [np.full(length, index, np.float32) for index, length in enumerate(lengths)]


def middle(sizes: list[int]) -> int:
    """Return the index of the sample in the middle of the sorted sizes, the lower one of two, the first of equals."""
    return sizes.index(int(np.sort(sizes)[(len(sizes) - 1) // 2]))


@given(orders=LENGTHS.flatmap(lambda lengths: st.tuples(st.just(lengths), st.permutations(lengths))))
def test_the_timed_size_does_not_depend_on_the_order(orders: tuple[list[int], list[int]]) -> None:
    """[400, 1, 1, ...] is timed at length 1 wherever the long one stands."""
    lengths, shuffled = orders
    timed = [streamed(sequences(each), signature=RAGGED).timed(1)[1] for each in (lengths, shuffled)]
    assert timed[0].shapes == timed[1].shapes == {"x": (1, lengths[middle(lengths)])}
    assert [each.index for each in timed] == [middle(lengths), middle(shuffled)]
    assert timed[0].sizes == timed[1].sizes == (min(lengths), max(lengths))


@given(lengths=LENGTHS, batch_size=st.integers(1, 5), asked=st.integers(0, 23) | st.none())
def test_a_batch_begins_with_the_sample_and_is_full_of_its_shape(
    lengths: list[int], batch_size: int, asked: int | None
) -> None:
    """Then come those of its shape that follow it in the data; the last one is repeated where they are too few."""
    index = asked if asked is not None and asked < len(lengths) else None
    feeds, sample = streamed(sequences(lengths), signature=RAGGED).timed(batch_size, index)
    first = middle(lengths) if index is None else index
    alike = [place for place in range(first, len(lengths)) if lengths[place] == lengths[first]][:batch_size]
    assert sample.index == first
    assert feeds["x"].shape == sample.shapes["x"] == (batch_size, lengths[first])
    assert feeds["x"][:, 0].tolist() == alike + [alike[-1]] * (batch_size - len(alike))


@given(sizes=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=12))
def test_the_size_of_a_sample_is_that_of_all_its_elements(sizes: list[tuple[int, int]]) -> None:
    """Height times width: a wide picture is no larger than a high one of as many pixels."""
    images = [np.zeros((1, height, width), np.float32) for height, width in sizes]
    _, sample = streamed(images, signature=IMAGE).timed(1)
    pixels = [height * width for height, width in sizes]
    assert sample.index == middle(pixels)
    assert sample.shapes == {"x": (1, 1, *sizes[sample.index])}


def test_all_inputs_count() -> None:
    """Ids and mask of one length are twice as many elements, and both are named by the first of them."""
    rows = [{"ids": np.zeros(length, np.int64), "mask": np.ones(length, np.bool_)} for length in (9, 1, 2, 1, 3)]
    _, sample = streamed(rows, signature=TWO).timed(2)
    assert (sample.index, sample.sizes, sample.inputs) == (2, (2, 18), "ids 2x2")
    said = "latency is that of sample 2, ids 2x2; samples have 2 to 18 elements; latency_sample= times another"
    assert sample.warning == said


@pytest.mark.parametrize("form", ["arrays", "iterable"])
def test_samples_of_one_size_are_timed_from_the_first_on(form: str) -> None:
    """As long as all are alike nothing is said of sizes, and nothing of a model that leaves none open."""
    data = opened(numbers(10)) if form == "arrays" else streamed(Samples(10))
    feeds, sample = data.timed(4)
    np.testing.assert_array_equal(feeds["x"], numbers(10)[:4])
    assert (sample.index, sample.shapes, sample.sizes, sample.warning) == (0, {}, (3, 3), "")
    padded = opened(numbers(10), signature=RAGGED).timed(1)[1]
    assert (padded.inputs, padded.warning) == ("x 1x3", "")


@pytest.mark.parametrize(("largest", "far"), [(8, False), (9, True)])
def test_sizes_are_far_apart_beyond_twice_the_smallest(largest: int, far: bool) -> None:
    """4 to 8 elements is not, 4 to 9 is."""
    sample = streamed(sequences([largest, 4, 4]), signature=RAGGED).timed(1)[1]
    assert bool(sample.warning) is far


def test_indices_are_those_of_the_evaluation_set() -> None:
    """Calibration takes samples 0 and 5 out of six; number 2 of the others is number 3 of the data."""
    lengths = [1, 7, 3, 5, 2, 6]
    data = streamed(sequences(lengths), 2, RAGGED)
    feeds, sample = data.timed(1)
    assert (sample.index, feeds["x"][0, 0], sample.sizes) == (1, 2.0, (2, 7))
    assert data.timed(1, 2)[0]["x"].shape == (1, 5)


@pytest.mark.parametrize("asked", [4, 400])
def test_a_sample_that_is_not_there(asked: int) -> None:
    """The error says which there are; calibration samples are none of them."""
    data = streamed(sequences([1, 2, 3, 4, 5, 6]), 2, RAGGED)
    with pytest.raises(DataError, match="latency_sample names a sample") as caught:
        data.timed(1, asked)
    assert (caught.value.value, caught.value.allowed) == (
        f"{asked} of 4 samples",
        "0 to 3: samples that are taken for calibration do not count",
    )


def test_the_steps_of_a_sequence_are_no_part_of_its_size() -> None:
    """Latency is that of one step, so that long sequences are timed as short ones are: from the first on."""
    model = Model("net", state=(("h_out", "h_in"),))
    tensors = TensorInfo("x", "float32", (None, 8)), TensorInfo("h_in", "float32", (None, 4))
    signature = Signature(tensors, (TensorInfo("h_out", "float32", (None, 4)),))
    samples: list[dict[str, NDArray[np.float32]]] = [{"x": np.zeros((steps, 8), np.float32)} for steps in (9, 1, 2)]
    _, sample = open_data(Dataset.from_iterable(samples), signature, model).timed(1)
    assert (sample.index, sample.shapes, sample.sizes) == (0, {}, (8, 8))


def test_a_value_for_the_whole_run_stays_beside_its_samples() -> None:
    """A rate of 8 for samples 0 and 2, of 16 for sample 1: the batch from 1 on has the rate of 1."""
    signature = Signature((TensorInfo("x", "float32", (None, 2)), TensorInfo("rate", "int64", ())), ())
    rows = [{"x": np.full(2, index, np.float32), "rate": np.array(rate)} for index, rate in enumerate((8, 16, 8, 16))]
    feeds, sample = streamed(rows, signature=signature).timed(2, 1)
    assert (sample.index, feeds["x"][:, 0].tolist(), int(feeds["rate"])) == (1, [1.0, 3.0], 16)


def test_a_stream_is_read_no_further_than_the_batch() -> None:
    """And once from its start: samples behind the batch may be long in coming."""
    seen: list[int] = []

    class Counted:
        def __iter__(self) -> Iterator[NDArray[np.float32]]:
            for index, length in enumerate([5, 1, 3, 3, 1, 5]):
                seen.append(index)
                yield np.full(length, index, np.float32)

    data = streamed(Counted(), signature=RAGGED)
    seen.clear()
    assert data.timed(2)[1].index == 2
    assert seen == [0, 1, 2, 3]


def test_samples_in_memory_keep_their_sizes() -> None:
    """Some of a stream, held in memory for trials, have the sizes of those samples."""
    data = streamed(sequences([6, 1, 2, 3, 4, 5]), signature=RAGGED).some(3)
    sample = data.timed(1)[1]
    assert (sample.sizes, sample.shapes) == ((2, 6), {"x": (1, 5)})
    assert data_of(numbers(4)[:, :2], Signature((TensorInfo("x", "float32", (None, 2)),), ())).timed(1)[1].sizes == (
        2,
        2,
    )
