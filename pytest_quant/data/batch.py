"""Batches: samples as arrays, stacked with others of their shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _Group:
    """Samples that one run can take together, copied as they arrive: an iterable may reuse its buffer."""

    rows: Feeds
    labels: list[NDArray[Any]] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)

    @property
    def sample_bytes(self) -> int:
        """Memory of one sample."""
        return sum(rows.nbytes // len(rows) for rows in self.rows.values())

    def add(self, inputs: Feeds, label: NDArray[Any] | None, position: int) -> None:
        """Copy one sample."""
        for name, row in inputs.items():
            self.rows[name][len(self.positions)] = row
        if label is not None:
            self.labels.append(deepcopy(label) if label.dtype.kind == "O" else label.copy())
        self.positions.append(position)

    def to_batch(self, *, pad: bool) -> Batch:
        """Return the batch; with `pad` its last sample fills it up."""
        n = len(self.positions)
        feeds = self.rows
        if pad:
            for rows in feeds.values():
                rows[n:] = rows[n - 1]
        else:
            feeds = {name: rows[:n] for name, rows in feeds.items()}
        consecutive = self.positions[-1] - self.positions[0] == n - 1
        labels = np.stack(self.labels) if self.labels else None
        return Batch(feeds, labels, self.positions[0], n, None if consecutive else tuple(self.positions))


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
    waiting: dict[object, _Group] = {}
    samples_waiting = bytes_waiting = 0
    for position, (inputs, label) in enumerate(samples):
        key = tuple([row.tobytes() if name in whole else row.shape for name, row in inputs.items()])
        if key not in waiting:
            rows = {name: np.empty((batch_size, *row.shape), row.dtype) for name, row in inputs.items()}
            waiting[key] = _Group(rows)
        waiting[key].add(inputs, label, position)
        samples_waiting += 1
        bytes_waiting += waiting[key].sample_bytes
        too_much = bytes_waiting > _WAITING_BYTES or samples_waiting > _WAITING_BATCHES * batch_size
        if len(waiting[key].positions) == batch_size:
            ready: object = key
        elif too_much and len(waiting) > 1:
            ready = next(iter(waiting))
        else:
            continue
        group = waiting.pop(ready)
        samples_waiting -= len(group.positions)
        bytes_waiting -= len(group.positions) * group.sample_bytes
        yield group.to_batch(pad=pad)
    for group in waiting.values():
        yield group.to_batch(pad=pad)


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
