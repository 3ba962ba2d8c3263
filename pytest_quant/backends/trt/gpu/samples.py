"""Calibration batches on their way into the process that builds, all of one size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.fitting import fitting_batches
from pytest_quant.errors import DataError
from pytest_quant.spec import Signature


def write_samples(
    batches: Iterable[Feeds], folder: Path, signature: Signature, model: str, axes: Mapping[str, int | None]
) -> None:
    """Write every batch into a file of its own, for the process that builds.

    A calibrator of TensorRT has one batch size for all of them. Where the last batch is smaller, all are cut to the
    size that divides them: what it finds over the same samples does not depend on how many it reads at once.

    Parameters
    ----------
    batches : calibration batches.
    folder : an empty folder, which gets one ``.npz`` file for each batch.
    signature : the inputs that the model takes.
    model : name of the model, for errors.
    axes : of each input the axis that counts samples, ``None`` for one that has none; the first where it is not named.

    Raises
    ------
    DataError : there is none, one does not fit the model, or samples have another shape than those of the first.
    """
    shapes: dict[str, tuple[int, ...]] | None = None
    sizes = set()
    for index, feeds in enumerate(fitting_batches(batches, signature, model)):
        found = {name: np.shape(array) for name, array in feeds.items()}
        shapes = shapes or found
        if _without_samples(found, axes) != _without_samples(shapes, axes):
            raise DataError(
                f"TensorRT's calibrators take samples of one shape, and batch {index} of {model} has another",
                value=str(found),
                allowed=str(shapes),
                fix="pad or crop samples that differ in size",
            )
        sizes.add(_samples_in(feeds, axes))
        _write(feeds, folder / f"{index:06}.npz")
    size = gcd(*sizes)
    if sizes != {size}:
        _cut(folder, size, axes)


def _without_samples(
    shapes: Mapping[str, tuple[int, ...]], axes: Mapping[str, int | None]
) -> dict[str, tuple[int | None, ...]]:
    return {
        name: tuple(None if axis == axes.get(name, 0) else size for axis, size in enumerate(shape))
        for name, shape in shapes.items()
    }


def _samples_in(feeds: Feeds, axes: Mapping[str, int | None]) -> int:
    """Return how many samples a batch has, 1 where no input counts them."""
    counted = ((axes.get(name, 0), np.shape(array)) for name, array in feeds.items())
    return next((shape[axis] for axis, shape in counted if axis is not None and axis < len(shape)), 1)


def _cut(folder: Path, size: int, axes: Mapping[str, int | None]) -> None:
    """Replace each file by as many as hold `size` samples each, in the same order."""
    for file in sorted(folder.glob("*.npz")):
        feeds = _read(file)
        for start in range(0, _samples_in(feeds, axes), size):
            part = {name: _samples_of(array, axes.get(name, 0), start, size) for name, array in feeds.items()}
            _write(part, file.with_stem(f"{file.stem}-{start:06}"))
        file.unlink()


def _samples_of(array: NDArray[Any], axis: int | None, start: int, size: int) -> NDArray[Any]:
    if axis is None or axis >= array.ndim:
        return array
    return np.take(array, range(start, start + size), axis)


def read_samples(folder: Path) -> Iterator[Feeds]:
    """Yield the batches that `write_samples` wrote, in order."""
    return map(_read, sorted(folder.glob("*.npz")))


def _write(feeds: Feeds, file: Path) -> None:
    # Positional names keep inputs apart whose own names are no file names.
    numbered = {f"input{index}": array for index, array in enumerate(feeds.values())}
    np.savez(file, allow_pickle=False, names=np.array(list(feeds)), **numbered)


def _read(file: Path) -> Feeds:
    with np.load(file, allow_pickle=False) as kept:
        return {str(name): kept[f"input{index}"] for index, name in enumerate(kept["names"])}
