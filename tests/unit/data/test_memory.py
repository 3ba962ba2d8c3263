"""Memory does not grow with the data, but for eight bytes a sample."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.data import open_data
from pytest_quant.spec import Dataset, Signature, TensorInfo
from tests.unit.data.samples import TWO, numbers, opened, streamed

SIGNATURE = Signature((TensorInfo("x", "float32", (None, 5000)),), ())
SAMPLE_BYTES = 20_000


class Made:
    """Samples that are made when asked for and held by nobody."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], int]]:
        """Start a pass."""
        for index in range(self._n):
            yield np.full(5000, index, np.float32), index % 10


class MadeBatches(Made):
    """The same as a loader of eight."""

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:  # type: ignore[override]
        """Start a pass."""
        for first in range(0, self._n, 8):
            yield np.repeat(np.arange(first, first + 8, dtype=np.float32)[:, None], 5000, axis=1), np.zeros(8, int)


def peak_bytes(dataset: Dataset) -> int:
    """The most memory held at once while opening and reading everything once.

    The collector of cycles stands still, since it empties Python's lists of freed objects at times of its own.
    """
    gc.disable()
    tracemalloc.start()
    try:
        data = open_data(dataset, SIGNATURE)
        for batch in data.batches(4):
            assert batch.n
        if data.n_calibration:
            for feeds in data.calibration(4):
                assert feeds
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize(("calibration", "bytes_a_sample"), [(None, 8), (0.1, 8 + 8 + 8 + 8 + 2)])
@pytest.mark.parametrize("form", ["iterable", "loader"])
def test_ten_times_the_data_needs_no_more_memory(form: str, calibration: float | None, bytes_a_sample: int) -> None:
    """At most 1.1 times the peak, beside hashes: 8 bytes a sample, and with a split two more sets and the masks."""

    def dataset(n: int) -> Dataset:
        if form == "iterable":
            return Dataset.from_iterable(Made(n), calibration)
        return Dataset.from_loader(MadeBatches(n), calibration)

    # A first long pass fills Python's own lists of freed tuples, which hold up to 2000 of each length.
    peak_bytes(dataset(1600))
    small, large = peak_bytes(dataset(160)), peak_bytes(dataset(1600))
    assert small < 100 * SAMPLE_BYTES
    assert large <= 1.1 * small + bytes_a_sample * 1600 * 1.125


@given(st.integers(1, 64), st.integers(1, 5), st.integers(1, 2_000_000))
def test_a_batch_is_no_larger_than_memory_is_to_hold(asked: int, n: int, sample_bytes: int) -> None:
    """It has as many samples as fit into 256 MB, at most those asked for, and one at least."""
    data = replace(opened(numbers(n)), sample_bytes=sample_bytes * 1000)
    fitting = data.fitting(asked)
    assert 1 <= fitting <= asked
    assert fitting == 1 or fitting * data.sample_bytes <= 256e6
    assert fitting == asked or (fitting + 1) * data.sample_bytes > 256e6


def test_the_largest_sample_counts() -> None:
    """Of all inputs together, whichever pass has it: evaluation or calibration."""
    two = [{"ids": np.zeros((k,), np.int64), "mask": np.ones((k,), bool)} for k in (2, 5, 3)]
    own = [{"ids": np.zeros((7,), np.int64), "mask": np.ones((7,), bool)}]
    assert streamed(two, signature=TWO).sample_bytes == 5 * (8 + 1)
    assert streamed(two, own, signature=TWO).sample_bytes == 7 * (8 + 1)
