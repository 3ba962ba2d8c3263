"""Batches, and their assembly from single samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Feeds: TypeAlias = dict[str, NDArray[Any]]
"""Inputs of one run by name."""

Sample: TypeAlias = tuple[Feeds, NDArray[Any] | None]
"""Inputs by name without a batch axis, and the label: its numbers, or an array () that holds the object."""

_WAITING_BYTES = 64 << 20
_WAITING_BATCHES = 8
"""Samples that wait for others of their shape hold at most so much memory, and so many batches."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples of the evaluation set that one run takes.

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

    def closed(self, *, pad: bool) -> Batch:
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

    A batch is given as soon as it is full. Of samples that wait for others of their shape the oldest are given as they
    are once too much waits, so that memory is bounded. Feeds lead with the samples.

    Parameters
    ----------
    whole : inputs that one run takes one value of; samples whose values differ there are kept apart.
    """
    waiting: dict[object, _Group] = {}
    held = held_bytes = 0
    for position, (inputs, label) in enumerate(samples):
        alike: list[object] = [row.tobytes() if name in whole else row.shape for name, row in inputs.items()]
        key = tuple(alike)
        if key not in waiting:
            rows = {name: np.empty((batch_size, *row.shape), row.dtype) for name, row in inputs.items()}
            waiting[key] = _Group(rows)
        waiting[key].add(inputs, label, position)
        held += 1
        held_bytes += waiting[key].sample_bytes
        too_much = held_bytes > _WAITING_BYTES or held > _WAITING_BATCHES * batch_size
        if len(waiting[key].positions) == batch_size:
            ready: object = key
        elif too_much and len(waiting) > 1:
            ready = next(iter(waiting))
        else:
            continue
        held -= len(waiting[ready].positions)
        held_bytes -= len(waiting[ready].positions) * waiting[ready].sample_bytes
        yield waiting.pop(ready).closed(pad=pad)
    while waiting:
        yield waiting.pop(next(iter(waiting))).closed(pad=pad)
