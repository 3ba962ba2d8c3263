"""A batch run whole, and each of its samples run alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends import Engine, Feeds
from pytest_quant.errors import UsageError
from pytest_quant.strategies.ports import read_ports

Row = tuple[int, str, NDArray[Any], NDArray[Any], NDArray[Any]]
"""Index of a sample, name of an output, its values in the batch, alone, and the output of the whole batch."""


def rows_and_alone(engine: Engine, feeds: Feeds) -> Iterator[Row]:
    """Run `feeds` whole and sample by sample; nothing is yielded for a batch of one.

    Raises
    ------
    UsageError : no axis of the model's inputs counts samples.
    """
    layout = read_ports(engine).layout
    sizes = [feeds[name].shape[axis] for name, axis in layout.axes.items() if axis is not None]
    if not sizes:
        shapes = ", ".join(f"'{name}' {array.shape}" for name, array in feeds.items())
        raise UsageError("no input has an axis that counts samples", value=shapes, fix="leave batch_invariant out")
    if sizes[0] < 2:
        return
    is_fixed = layout.fixed_batch_size is not None
    whole = engine.run(feeds)
    for sample in range(sizes[0]):
        alone = engine.run(layout.samples(feeds, [sample] * (sizes[0] if is_fixed else 1)))
        for name, array in whole.items():
            single = alone[name]
            axis = _sample_axis(array, single, sizes[0], is_fixed=is_fixed)
            if axis is None:
                yield sample, name, array, single, array
            else:
                row = np.take(array, [sample], axis)
                yield sample, name, row, np.take(single, [0], axis) if is_fixed else single, array


def _sample_axis(whole: NDArray[Any], alone: NDArray[Any], size: int, *, is_fixed: bool) -> int | None:
    """Return the axis along which samples are stacked; ``None`` when the output has none."""
    if is_fixed:
        return next((axis for axis, found in enumerate(whole.shape) if found == size), None)
    if whole.ndim != alone.ndim:
        return None
    grown = [axis for axis, (n, one) in enumerate(zip(whole.shape, alone.shape, strict=True)) if n != one]
    return grown[0] if len(grown) == 1 and whole.shape[grown[0]] == size else None
