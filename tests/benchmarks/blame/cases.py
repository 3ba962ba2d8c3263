"""One trial: an engine with a fault that is known, or without any, and what a right answer names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends import get_backend
from pytest_quant.backends.base import Engine
from pytest_quant.backends.feeds import Feeds, Outputs
from pytest_quant.result import Coverage
from pytest_quant.result.cause import Stage
from pytest_quant.spec import EngineSpec
from tests.benchmarks.blame.networks import Arrays, Half, count, take

LOSS_DB = 3.0
"""A fault that costs less is counted apart."""


@dataclass(frozen=True, slots=True)
class Case:
    """A planted case.

    Attributes
    ----------
    network, half, backend, kind, seed : they name it.
    variant : what was drawn by the seed, in words.
    stages : the stages that a right answer may name.
    nodes : the products next to what was planted; empty where no layer and no range is to be named.
    evaluation, calibration : the samples of the check, and those that calibrated.
    batch : samples in one run.
    output : the output that the limit is on.
    float_model : what was quantized, with the plant in it if it is one of FP32.
    spec, folder : the engine.
    healthy_db, planted_db : SQNR of `output` over the evaluation samples, without the plant and with it.
    limit_db : the limit that the engine breaks.
    wrap : changes what the engine computes, as a wrong kernel does; ``None`` for none.
    """

    network: str
    half: Half
    backend: str
    kind: str
    seed: int
    variant: str
    stages: tuple[Stage, ...]
    nodes: tuple[str, ...]
    evaluation: Arrays = field(repr=False)
    calibration: Arrays = field(repr=False)
    batch: int
    output: str
    float_model: Path
    spec: EngineSpec
    folder: Path
    healthy_db: float
    planted_db: float
    limit_db: float
    wrap: Callable[[Engine], Engine] | None = None

    @property
    def key(self) -> str:
        """A name that no other case has."""
        return "/".join((self.network, self.backend, self.kind, str(self.seed)))

    @property
    def loss_db(self) -> float:
        """What the plant costs."""
        return self.healthy_db - self.planted_db

    @property
    def is_sound(self) -> bool:
        """Whether nothing is to be blamed."""
        return self.stages == ("none",)

    def open(self) -> Engine:
        """Open the engine, as the check does."""
        engine = get_backend(self.backend).open(self.spec, self.folder)
        return engine if self.wrap is None else self.wrap(engine)


def spec_of(backend: str, model: Path, **more: Any) -> EngineSpec:
    """Return the int8 engine of a model, with a range for each activation."""
    from pytest_quant.spec import Model

    return EngineSpec(backend, "int8", "static", Model.from_onnx(model), **more)


def batches(arrays: Arrays, size: int) -> list[Feeds]:
    """Cut samples into batches."""
    return [take(arrays, slice(start, start + size)) for start in range(0, count(arrays), size)]


def run_all(engine: Engine, arrays: Arrays, size: int) -> Outputs:
    """Run over all samples; outputs are those of all batches behind each other."""
    parts = [engine.run(feeds) for feeds in batches(arrays, size)]
    return {name: np.concatenate([np.atleast_1d(part[name]) for part in parts]) for name in parts[0]}


def sqnr_db(reference: NDArray[Any], candidate: NDArray[Any]) -> float:
    """Return the signal to quantization noise in dB, at most 200."""
    wanted, noise = (np.square(each.astype(np.float64)).sum() for each in (reference, reference - candidate))
    return float(np.clip(10 * np.log10(max(wanted, 1e-300) / max(noise, 1e-300)), -200, 200))


class ChangedEngine(Engine):
    """An engine that answers something else than its graph computes: a fake kernel, as no machine has it by order.

    Parameters
    ----------
    engine : the real one.
    change : makes the wrong answer from the right one.
    """

    def __init__(self, engine: Engine, change: Callable[[Outputs], Outputs]) -> None:
        self.spec, self.signature = engine.spec, engine.signature
        self.provider, self.size_bytes = engine.provider, engine.size_bytes
        self._engine, self._change = engine, change

    def _run(self, feeds: Feeds) -> Outputs:
        return self._change(self._engine.run(feeds))

    def _coverage(self, feeds: Feeds) -> Coverage:
        return self._engine.coverage(feeds)

    def _close(self) -> None:
        self._engine.close()
