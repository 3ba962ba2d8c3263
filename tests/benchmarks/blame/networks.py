"""Networks that faults are planted in, in two halves: thresholds are fixed on one and counted on the other.

A network is in a half by its name, so that no result can move it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = dict[str, NDArray[Any]]
"""Samples: arrays (n, ...) by input name."""

Half: TypeAlias = Literal["tuned", "counted"]
HALVES: tuple[Half, ...] = ("tuned", "counted")


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of one network.

    Attributes
    ----------
    evaluation : what engines are compared on.
    pool : others of the same kind, out of which each case draws those that calibrate.
    classes : the class of each sample of the pool, for calibration with one class only; ``None`` for none.
    """

    evaluation: Arrays
    pool: Arrays
    classes: NDArray[np.int64] | None


@dataclass(frozen=True, slots=True)
class Network:
    """A float model and its data.

    Attributes
    ----------
    half : whether thresholds may be fixed on it, or are counted on it.
    model : returns its ONNX file.
    samples : makes its data, the same each time.
    raw : samples as they are before they are normalized, the commonest error in calibration; ``None`` for tokens,
        which nobody normalizes.
    batch : samples in one run.
    package : what lends the model, to be told if it is missing; empty where it is made here.
    """

    name: str
    half: Half
    model: Callable[[], Path]
    samples: Callable[[], Samples] = field(repr=False)
    raw: Callable[[Arrays], Arrays] | None = field(repr=False)
    batch: int = 16
    package: str = ""

    def missing(self) -> bool:
        """Whether the package that lends the model is not there."""
        try:
            return not self.model().is_file()
        except FileNotFoundError:
            return True


def cache_folder(name: str) -> Path:
    """Return a folder of this benchmark's own below the user's cache, made where it is not there."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "pytest-quant-blame" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def count(arrays: Mapping[str, NDArray[Any]]) -> int:
    """Return the number of samples."""
    return len(next(iter(arrays.values())))


def take(arrays: Mapping[str, NDArray[Any]], rows: Any) -> Arrays:
    """Return some samples, in the order of `rows`."""
    return {name: np.ascontiguousarray(array[rows]) for name, array in arrays.items()}


def times(factor: float, shift: float = 0.0) -> Callable[[Arrays], Arrays]:
    """Return what undoes a normalization: float inputs times `factor`, plus `shift`."""

    def undo(arrays: Arrays) -> Arrays:
        return {
            name: (array * np.float32(factor) + np.float32(shift)) if array.dtype == np.float32 else array
            for name, array in arrays.items()
        }

    return undo


@cache
def networks() -> dict[str, Network]:
    """Return all networks by name, those whose package is missing too."""
    from tests.benchmarks.blame import trained, wheels

    both = (*trained.networks(), *wheels.networks())
    return {network.name: network for network in both}
