"""Engines whose outputs are a function of their inputs, and the data that they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from pytest_quant.backends import Availability, Backend, Engine, Feeds, Offer, Outputs
from pytest_quant.data import Data, open_data
from pytest_quant.result import Coverage
from pytest_quant.spec import Dataset, EngineSpec, Model, Signature, TensorInfo


class Played(Engine):
    """An engine that takes whatever it is fed; `runs` holds the number of samples of each run."""

    provider = "played"
    size_bytes = 5
    notes = ("a note",)

    def __init__(self, play: Callable[[Feeds], Outputs], signature: Signature, scheme: str | None = "static") -> None:
        self.spec = EngineSpec("played", "int8", scheme, Model("net"))
        self.signature = signature
        self.runs: list[int] = []
        self.closed = 0
        self._play = play

    def _misfit(self, feeds: Feeds) -> None:
        """Take anything."""

    def _run(self, feeds: Feeds) -> Outputs:
        """Give what the function gives."""
        self.runs.append(len(next(iter(feeds.values()))))
        return self._play(feeds)

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Tell the shapes that were run, as a provider."""
        return Coverage(None, "nodes", (), str({name: array.shape for name, array in feeds.items()}))

    def _close(self) -> None:
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
    """Return an engine, twice: as what it is and as any engine."""
    engine = Played(cast("Callable[[Feeds], Outputs]", play), signature, scheme)
    return engine, engine


def numbers(n: int, width: int = 2) -> np.ndarray:
    """Return samples (n, width) of which no two values are equal."""
    return np.arange(1.0, n * width + 1, dtype=np.float32).reshape(n, width)


def data_of(
    samples: Any, signature: Signature, labels: Any = None, calibration: Any = None, model: Model | None = None
) -> Data:
    """Return opened data."""
    return open_data(Dataset.from_arrays(samples, labels, calibration), signature, model)


class PlayedBackend(Backend):
    """A backend whose engines are functions, and whose builds and calibrations take seconds of its own clock."""

    name = "played"
    offer = Offer({})

    def __init__(self, play: Callable[[str, Feeds], Outputs], signature: Signature) -> None:
        self.now_s = 0.0
        self.calls: list[tuple[str, Any]] = []
        self.engines: list[Played] = []
        self.facts: dict[str, Any] = {}
        self.available = Availability(True)
        self._play = play
        self._signature = signature

    def availability(self, _spec: EngineSpec | None = None) -> Availability:
        """Say what the test says."""
        return self.available

    def check(self, spec: EngineSpec) -> None:
        """Refuse nothing."""
        self.calls.append(("check", spec.id))

    def signature(self, _model: Model) -> Signature:
        """Return the same for every model."""
        return self._signature

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Return the precision, the scheme and the options."""
        return {"scheme": str(spec.scheme), "precision": spec.precision, "options": repr(spec.options)}

    def calibration_ingredients(self, spec: EngineSpec) -> dict[str, str] | None:
        """Return the samples of a static scheme."""
        return {"samples": str(spec.calibration.samples)} if spec.scheme == "static" else None

    def calibrate(self, spec: EngineSpec, batches: Callable[[], Any], folder: Path) -> None:
        """Take five seconds, and note the sizes of the batches."""
        self.now_s += 5.0
        sizes = [len(next(iter(feeds.values()))) for feeds in batches()]
        self.calls.append(("calibrate", sizes))
        (folder / "ranges").write_text(spec.id, encoding="utf-8")

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Take two seconds, and note the ranges."""
        self.now_s += 2.0
        self.calls.append(("build", None if calibration is None else (calibration / "ranges").read_text("utf-8")))
        (folder / "engine").write_text(spec.id, encoding="utf-8")

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the engine that was built into `folder`."""
        assert (folder / "engine").read_text("utf-8") == spec.id
        engine = Played(lambda feeds: self._play(spec.precision, feeds), self._signature, spec.scheme)
        engine.spec = spec
        for name, value in self.facts.items():
            setattr(engine, name, value)
        self.engines.append(engine)
        return engine
