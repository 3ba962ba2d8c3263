"""Batches: samples as arrays, stacked with others of their shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import DataError

Feeds: TypeAlias = dict[str, NDArray[Any]]
"""Inputs of one run by name."""

Sample: TypeAlias = tuple[Feeds, NDArray[Any] | None]
"""Inputs by name without a batch axis, and the label: its numbers, or an array () that holds the object."""

_WAITING_BYTES = 64 << 20
_WAITING_BATCHES = 8
"""Caps on the samples that wait for others of their shape: their memory, and their number in batches."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples that one run of an engine takes.

    Attributes
    ----------
    feeds : arrays as the model takes them; when padded, samples from `n` on repeat the last one.
    labels : never padded; numbers of one shape as int64 or float64 (n, ...), any others as the objects that were given,
        (n,); ``None`` without labels.
    start : index of the first sample in the evaluation set.
    n : real samples.
    positions : index of each sample in the evaluation set where they are not consecutive, else ``None``.
    """

    feeds: Feeds
    labels: NDArray[Any] | None
    start: int
    n: int
    positions: tuple[int, ...] | None = None


def assemble(
    samples: Iterable[Sample], batch_size: int, *, pad: bool, whole: frozenset[str] = frozenset()
) -> Iterator[Batch]:
    """Stack samples of equal shapes, which need not follow each other.

    A batch is yielded as soon as it is full. When too many samples wait for others of their shape, the oldest group
    is yielded although it is not full, so that memory is bounded. Axis 0 of every array in the feeds is the sample.

    Parameters
    ----------
    samples : in the order of the data.
    batch_size : samples in a full batch.
    pad : fill up a batch that is not full by repeating its last sample.
    whole : inputs that take one value for all samples of a run; samples whose values differ are batched separately.
    """
    waiting: dict[object, list[tuple[int, Sample]]] = {}
    samples_waiting = bytes_waiting = 0
    for position, (inputs, label) in enumerate(samples):
        key: object = tuple([row.tobytes() if name in whole else row.shape for name, row in inputs.items()])
        # Copied, because an iterable may reuse its buffer.
        sample = {name: row.copy() for name, row in inputs.items()}, deepcopy(label)
        group = waiting.setdefault(key, [])
        group.append((position, sample))
        samples_waiting += 1
        bytes_waiting += _sample_bytes(inputs)
        too_much = bytes_waiting > _WAITING_BYTES or samples_waiting > _WAITING_BATCHES * batch_size
        if len(group) < batch_size:
            if not too_much or len(waiting) == 1:
                continue
            key = next(iter(waiting))
        group = waiting.pop(key)
        samples_waiting -= len(group)
        bytes_waiting -= len(group) * _sample_bytes(group[0][1][0])
        yield _stacked(group, batch_size if pad else len(group))
    for group in waiting.values():
        yield _stacked(group, batch_size if pad else len(group))


def _sample_bytes(inputs: Feeds) -> int:
    return sum(row.nbytes for row in inputs.values())


def _stacked(group: list[tuple[int, Sample]], size: int) -> Batch:
    """Return a batch of the samples of one shape, filled up to `size` with the last one."""
    n, (first, (inputs, label)), last = len(group), group[0], group[-1]
    rows = [sample[0] for _, sample in [*group, *[last] * (size - n)]]
    feeds = {name: np.stack([row[name] for row in rows]) for name in inputs}
    labels = None if label is None else np.stack([sample[1] for _, sample in group if sample[1] is not None])
    consecutive = last[0] - first == n - 1
    return Batch(feeds, labels, first, n, None if consecutive else tuple(position for position, _ in group))


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return ``dtype.name``, cached because numpy builds it at each access, as slowly as a small sample is hashed."""
    return dtype.name


def without_torch(value: object) -> object:
    """Return the numpy array that a torch tensor holds, and any other value as it is."""
    tensor: Any = value
    return tensor.detach().cpu().numpy() if hasattr(value, "detach") and hasattr(value, "numpy") else value


def to_array(value: object, what: str) -> NDArray[Any]:
    """Return `value` as an array, without a copy where possible. Raises `DataError` when it cannot be converted."""
    try:
        array = np.asarray(without_torch(value))
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{what} cannot be turned into an array",
            value=f"{type(value).__name__}: {error}",
            allowed="a numpy array, a torch tensor, or numbers of one shape",
            fix="convert it to a numpy array, for example with .float().numpy()",
        ) from error
    # numpy's fixed-width text would truncate a longer text in the same batch.
    return array.astype(object) if array.dtype.kind == "U" else array
