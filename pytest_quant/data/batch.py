"""Batches, and their assembly from single samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Feeds: TypeAlias = dict[str, NDArray[Any]]
"""Inputs of one run by name: arrays with a leading batch axis."""

Sample: TypeAlias = tuple[Feeds, NDArray[Any] | None]
"""Inputs by name without a batch axis, and the label: its numbers, or an array () that holds the object."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive samples of the evaluation set, all of one shape.

    Attributes
    ----------
    feeds : arrays with a leading batch axis; when padded, rows from `n` on repeat the last sample.
    labels : never padded; numbers of one shape as int64 or float64 (n, ...), any others as the objects that were given,
        (n,); ``None`` without labels.
    start : index of the first sample in the evaluation set.
    n : real samples.
    """

    feeds: Feeds
    labels: NDArray[Any] | None
    start: int
    n: int


def assemble(samples: Iterable[Sample], batch_size: int, *, pad: bool) -> Iterator[Batch]:
    """Stack consecutive samples of equal shape; another shape begins another batch.

    Each sample is copied as it arrives: an iterable may reuse its buffer for the next one.
    """
    feeds: Feeds = {}
    labels: list[NDArray[Any]] = []
    start = n = 0
    for inputs, label in samples:
        if n == batch_size or (n > 0 and _shapes(inputs) != {name: rows.shape[1:] for name, rows in feeds.items()}):
            yield _close(feeds, labels, start, n, pad=pad)
            labels, start, n = [], start + n, 0
        if n == 0:
            feeds = {name: np.empty((batch_size, *row.shape), row.dtype) for name, row in inputs.items()}
        for name, row in inputs.items():
            feeds[name][n] = row
        if label is not None:
            labels.append(deepcopy(label) if label.dtype.kind == "O" else label.copy())
        n += 1
    if n:
        yield _close(feeds, labels, start, n, pad=pad)


def _shapes(inputs: Feeds) -> dict[str, tuple[int, ...]]:
    return {name: row.shape for name, row in inputs.items()}


def _close(feeds: Feeds, labels: list[NDArray[Any]], start: int, n: int, *, pad: bool) -> Batch:
    if pad:
        for rows in feeds.values():
            rows[n:] = rows[n - 1]
    else:
        feeds = {name: rows[:n] for name, rows in feeds.items()}
    return Batch(feeds, np.stack(labels) if labels else None, start, n)
