"""What tests measure with: steps that nobody sees, open engines that nobody built, and whole checks without timing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends import Engine
from pytest_quant.cache import Cache
from pytest_quant.check_runner import CheckRunner
from pytest_quant.measure.batching import OpenEngine
from pytest_quant.measure.build import BuiltEngine, Tools
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.steps import Steps
from pytest_quant.record import Record
from pytest_quant.result import AccuracyResult
from pytest_quant.spec import Check, Dataset, EngineSpec, Limits, Model
from pytest_quant.testing import NumpyBackend


class QuietSteps(Steps):
    """Shows nothing, however long a step lasts; a message is an error.

    Attributes
    ----------
    texts : of all steps so far.
    now : those that are under way.
    described : how far they were.
    """

    def __init__(self) -> None:
        super().__init__(pytest.fail)
        self.texts: list[str] = []
        self.now: list[str] = []
        self.described: list[str] = []

    @contextmanager
    def show(self, text: str) -> Iterator[None]:
        """Remember a step."""
        self.texts.append(text)
        self.now.append(text)
        try:
            yield
        finally:
            self.now.remove(text)

    bounded = show

    def describe(self, text: str) -> None:
        """Remember how far the step is."""
        self.described.append(text)


def quiet_tools(folder: Path, steps: QuietSteps | None = None) -> Tools:
    """Return tools with a cache below `folder`, steps that nobody sees, and locks that wait for nobody."""
    return Tools(Cache(folder / "cache"), steps or QuietSteps(), DeviceLocks(pytest.fail))


def quiet_session(folder: Path, **options: Any) -> CheckRunner:
    """Return a session with its cache in `folder`, which shows nothing and knows no baselines."""
    steps = Steps(lambda _: None)
    return CheckRunner(Tools(Cache(folder), steps, DeviceLocks(steps.notify)), baseline=lambda _: None, **options)


def built_of(engine: Engine) -> BuiltEngine:
    """Return what an engine that nobody built would come from."""
    return BuiltEngine(engine.spec, NumpyBackend(), Path(), "key", "built", "", None, None, None)


def leading(engine: Engine, batch_size: int, *, pads: bool = False) -> OpenEngine:
    """Take batches of `batch_size` samples under the engine's own names."""
    names = {tensor.name: tensor.name for tensor in engine.signature.inputs}
    axes = {tensor.name: 0 for tensor in engine.signature.outputs}
    return OpenEngine(built_of(engine), engine, names, axes, batch_size, pads=pads)


def checked(
    folder: Path,
    model: Model,
    dataset: Dataset,
    *,
    scheme: str | None = "static",
    backend: str = "ort",
    options: tuple[tuple[str, object], ...] = (),
    quantized: Model | None = None,
    **more: Any,
) -> Record:
    """Measure and judge one check without timing."""
    session = quiet_session(folder / "cache")
    precision = "int8" if scheme else "fp32"
    candidate = EngineSpec(backend, precision, scheme, model, quantized, options=options)
    check = Check(
        nodeid="check",
        series_nodeid="check",
        dataset=dataset,
        latency=None,
        latency_off="not asked for",
        **{
            "limits": Limits(max_drop=5.0),
            "candidate": candidate,
            "reference": EngineSpec(backend, "fp32", None, model),
            **more,
        },
    )
    measurement = session.measure_engines(check)
    measurement.close()
    return session.judge(measurement).record


def accuracy_of(record: Record) -> AccuracyResult:
    """The accuracy of a check that was measured."""
    assert record.accuracy is not None
    return record.accuracy


def last_step(outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Whether the largest score of the last step (n, steps, 4) is the label's."""
    return np.asarray(outputs[:, -1].argmax(axis=1) == labels)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Different normal numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
