"""Engines whose outputs are a function of their inputs, and the data that they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from pytest_quant.backends import Engine, Feeds, Outputs
from pytest_quant.data import Data, open_data
from pytest_quant.result import Coverage
from pytest_quant.spec import Dataset, EngineSpec, Model, Signature, TensorInfo


class Played:
    """As much of an engine as evaluation touches; `runs` holds the number of samples of each run."""

    simulated = False
    provider = "played"
    size_bytes, device_bytes = 5, None
    notes: tuple[str, ...] = ("a note",)

    def __init__(self, play: Callable[[Feeds], Outputs], signature: Signature, scheme: str | None = "static") -> None:
        self.spec = EngineSpec("played", "int8", scheme, Model("net"))
        self.signature = signature
        self.runs: list[int] = []
        self.closed = 0
        self._play = play

    def run(self, feeds: Feeds) -> Outputs:
        """Give what the function gives."""
        self.runs.append(len(next(iter(feeds.values()))))
        return self._play(feeds)

    def prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return the run that would be timed."""
        return lambda: self.run(feeds)

    def coverage(self, feeds: Feeds) -> Coverage:
        """Tell the shapes that were run, as a provider."""
        return Coverage(None, "nodes", (), str({name: array.shape for name, array in feeds.items()}))

    def device_times(self, _feeds: Feeds) -> None:
        """Say that there is no device."""

    def close(self) -> None:
        """Count."""
        self.closed += 1


def inputs(**shapes: tuple[int | None, ...]) -> Signature:
    """Return the signature of a model with float inputs of these shapes, and an output ``y``."""
    return Signature(
        tuple(TensorInfo(name, "float32", shape) for name, shape in shapes.items()),
        (TensorInfo("y", "float32", (None, 2)),),
    )


def played(
    play: Callable[[Any], Mapping[str, Any]], signature: Signature, scheme: str | None = "static"
) -> tuple[Played, Engine]:
    """Return an engine, as it is and as the protocol that it stands for."""
    made = Played(cast("Callable[[Feeds], Outputs]", play), signature, scheme)
    return made, cast("Engine", made)


def numbers(n: int, width: int = 2) -> np.ndarray:
    """Return samples (n, width) of which no two values are equal."""
    return np.arange(1.0, n * width + 1, dtype=np.float32).reshape(n, width)


def data_of(
    samples: Any, signature: Signature, labels: Any = None, calibration: Any = None, model: Model | None = None
) -> Data:
    """Return opened data."""
    return open_data(Dataset.from_arrays(samples, labels, calibration), signature, model)
