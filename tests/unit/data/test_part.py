"""A few samples of the evaluation set, for what is tried again and again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data import open_data
from pytest_quant.spec import Dataset, Signature, TensorInfo

_SIGNATURE = Signature((TensorInfo("x", "float32", (None, 3)),), (TensorInfo("y", "float32", (None, 2)),))


class Stream:
    """Ten samples that are made anew in each pass; counts the passes."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], int]]:
        """Sample i holds the number i and has the label i."""
        self.passes += 1
        for i in range(10):
            yield np.full(3, i, np.float32), i


def test_a_few_samples_are_spaced_evenly_with_their_labels() -> None:
    """The first, the last and those between: round(i * 9 / 3)."""
    inputs = np.repeat(np.arange(10, dtype=np.float32)[:, None], 3, axis=1)
    data = open_data(Dataset.from_arrays(inputs, np.arange(10)), _SIGNATURE).some(4)
    (batch,) = data.batches(8)
    assert batch.feeds["x"][:, 0].tolist() == [0, 3, 6, 9]
    assert batch.labels is not None
    assert batch.labels.tolist() == [0, 3, 6, 9]
    assert data.n == 4


def test_a_few_samples_of_a_stream_are_read_once() -> None:
    """However often they are used; a stream of images is slow to read."""
    stream = Stream()
    data = open_data(Dataset.from_iterable(stream), _SIGNATURE).some(3)
    passes = stream.passes
    found = [[batch.feeds["x"][:, 0].tolist() for batch in data.batches(2)] for _ in range(3)]
    labels = [batch.labels for batch in data.batches(8)]
    assert found == [[[0, 4], [9]]] * 3
    assert [one.tolist() for one in labels if one is not None] == [[0, 4, 9]]
    assert stream.passes == passes


def test_all_samples_are_the_data_itself() -> None:
    """Asked for more than there are."""
    data = open_data(Dataset.from_arrays(np.zeros((5, 3), np.float32)), _SIGNATURE)
    assert data.some(64) is data
