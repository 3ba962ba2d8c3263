"""Calibration batches on their way into the process that builds: one npz file each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.misfit import misfit
from pytest_quant.errors import DataError
from pytest_quant.spec import Signature


def write_samples(batches: Iterable[Feeds], folder: Path, signature: Signature, model: str) -> None:
    """Write every batch into the empty `folder`.

    Raises
    ------
    DataError : there is none, one does not fit the model, or one has another shape than the first: a calibrator
        of TensorRT is told its batch size once.
    """
    shapes: dict[str, tuple[int, ...]] | None = None
    for index, feeds in enumerate(batches):
        wrong = misfit(feeds, signature)
        if wrong is not None:
            raise wrong
        found = {name: np.shape(array) for name, array in feeds.items()}
        shapes = shapes or found
        if found != shapes:
            raise DataError(
                f"TensorRT's calibrators take batches of one shape, and batch {index} of {model} has another",
                value=str(found),
                allowed=str(shapes),
                fix="write Calibration(batch_size=1), and pad or crop samples that differ in size",
            )
        # Positional names keep inputs apart whose own names are no file names.
        np.savez(folder / f"{index:06}.npz", allow_pickle=False, names=np.array(list(feeds)), **_numbered(feeds))
    if shapes is None:
        raise DataError(
            f"calibration of {model} got no batch",
            allowed="at least one calibration sample",
            fix="write Dataset.from_arrays(inputs, labels, calibration=100)",
        )


def read_samples(folder: Path) -> Iterator[Feeds]:
    """Yield what `write_samples` wrote, in order."""
    for file in sorted(folder.glob("*.npz")):
        with np.load(file) as kept:
            yield {str(name): kept[f"input{index}"] for index, name in enumerate(kept["names"])}


def _numbered(feeds: Feeds) -> Feeds:
    return {f"input{index}": array for index, array in enumerate(feeds.values())}
