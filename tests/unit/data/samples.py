"""Signatures and small data for tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data import Data, open_data
from pytest_quant.spec import Dataset, Signature, TensorInfo

ONE = Signature((TensorInfo("x", "float32", (None, 3)),), ())
"""One float input of three numbers."""

TWO = Signature((TensorInfo("ids", "int64", (None, None)), TensorInfo("mask", "bool", (None, None))), ())
"""Two inputs whose length is free."""

RAGGED = Signature((TensorInfo("x", "float32", (None, None)),), ())
"""One float input whose length is free."""


def numbers(n: int, seed: int = 0) -> NDArray[np.float32]:
    """`n` different samples for `ONE`."""
    return np.random.default_rng(seed).standard_normal((n, 3)).astype(np.float32)


class Samples:
    """A re-iterable of its own that makes every sample when it is asked."""

    def __init__(self, n: int, seed: int = 0) -> None:
        self.values, self.n = numbers(n, seed), n

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], int]]:
        """Start from the first."""
        for index in range(self.n):
            yield self.values[index].copy(), index % 10


def opened(inputs: object, labels: object = None, calibration: object = None, signature: Signature = ONE) -> Data:
    """Open arrays."""
    return open_data(Dataset.from_arrays(inputs, labels, calibration), signature)


def streamed(samples: Any, calibration: object = None, signature: Signature = ONE) -> Data:
    """Open an iterable."""
    return open_data(Dataset.from_iterable(samples, calibration), signature)


def all_inputs(data: Data, batch_size: int, name: str = "x") -> NDArray[Any]:
    """Every evaluated sample of one pass, padding dropped."""
    return np.concatenate([batch.feeds[name][: batch.n] for batch in data.batches(batch_size)])
