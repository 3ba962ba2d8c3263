"""A batch run whole, and each of its samples run alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends import Engine, Feeds
from pytest_quant.errors import UsageError
from pytest_quant.strategies.ports import Ports, read_ports

Row = tuple[int, str, NDArray[Any], NDArray[Any], NDArray[Any]]
"""Index of a sample, name of an output, its values in the batch, alone, and the output of the whole batch."""


def rows_and_alone(engine: Engine, feeds: Feeds) -> Iterator[Row]:
    """Run `feeds` whole and sample by sample; nothing is yielded for a batch of one.

    Raises
    ------
    UsageError : no axis of the model's inputs counts samples.
    """
    ports = read_ports(engine)
    axes = _batch_axes(ports, feeds)
    size = next(feeds[name].shape[axis] for name, axis in axes.items())
    if size < 2:
        return
    fixed = ports.fixed_batch_size is not None
    whole = engine.run(feeds)
    for sample in range(size):
        alone = engine.run(_picked(feeds, axes, sample, size if fixed else 1))
        for name, array in whole.items():
            single = alone[name]
            axis = _sample_axis(array, single, size, is_fixed=fixed)
            if axis is None:
                yield sample, name, array, single, array
            else:
                row = np.take(array, [sample], axis)
                yield sample, name, row, np.take(single, [0], axis) if fixed else single, array


def _picked(feeds: Feeds, axes: Mapping[str, int], sample: int, times: int) -> Feeds:
    """Return a batch of one sample, `times` over; inputs without a batch axis stay as they are."""
    return {
        name: np.take(array, [sample] * times, axes[name]) if name in axes else array for name, array in feeds.items()
    }


def _sample_axis(whole: NDArray[Any], alone: NDArray[Any], size: int, *, is_fixed: bool) -> int | None:
    """Return the axis along which samples are stacked; ``None`` when the output has none."""
    if is_fixed:
        return next((axis for axis, found in enumerate(whole.shape) if found == size), None)
    if whole.ndim != alone.ndim:
        return None
    grown = [axis for axis, (n, one) in enumerate(zip(whole.shape, alone.shape, strict=True)) if n != one]
    return grown[0] if len(grown) == 1 and whole.shape[grown[0]] == size else None


def _batch_axes(ports: Ports, feeds: Feeds) -> dict[str, int]:
    """Return the axis that counts samples for every input that has one."""
    batch = ports.batch_axis
    found = {}
    for port in ports.ports:
        if port.axes is None:
            found[port.name] = 0
        elif batch is not None and batch in port.axes:
            found[port.name] = port.axes.index(batch)
        elif batch is None and port.axes and port.axes[0] == ports.fixed_batch_size:
            found[port.name] = 0
    if not found:
        shapes = ", ".join(f"'{name}' {array.shape}" for name, array in feeds.items())
        raise UsageError("no input has an axis that counts samples", value=shapes, fix="leave batch_invariant out")
    return found
