"""Memory does not grow with the data, but for eight bytes a sample."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_quant.data import open_data
from pytest_quant.spec import Dataset, Signature, TensorInfo

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


class MadeTexts(Made):
    """The same with labels of text, as large as the inputs."""

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], str]]:  # type: ignore[override]
        """Start a pass."""
        for index in range(self._n):
            yield np.full(5000, index, np.float32), f"{index:0{SAMPLE_BYTES}d}"


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
@pytest.mark.parametrize("form", ["iterable", "loader", "texts"])
def test_ten_times_the_data_needs_no_more_memory(form: str, calibration: float | None, bytes_a_sample: int) -> None:
    """At most 1.1 times the peak, beside hashes: 8 bytes a sample, and with a split two more sets and the masks."""

    def dataset(n: int) -> Dataset:
        if form == "iterable":
            return Dataset.from_iterable(Made(n), calibration)
        if form == "texts":
            return Dataset.from_iterable(MadeTexts(n), calibration)
        return Dataset.from_loader(MadeBatches(n), calibration)

    # A first long pass fills Python's own lists of freed tuples, which hold up to 2000 of each length.
    peak_bytes(dataset(1600))
    small, large = peak_bytes(dataset(160)), peak_bytes(dataset(1600))
    assert small < 100 * SAMPLE_BYTES
    assert large <= 1.1 * small + bytes_a_sample * 1600 * 1.125
