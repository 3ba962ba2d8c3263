"""Checks that are measured and judged in this process, without timing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.cache import Cache
from pytest_quant.measure.steps import Steps
from pytest_quant.record import Record
from pytest_quant.session import Session
from pytest_quant.spec import Check, Dataset, EngineSpec, Limits, Model


def checked(
    folder: Path,
    model: Model,
    dataset: Dataset,
    *,
    scheme: str | None = "static",
    backend: str = "ort",
    options: tuple[tuple[str, object], ...] = (),
    **more: Any,
) -> Record:
    """Measure and judge one check without timing."""
    session = Session(Cache(folder / "cache"), baseline=lambda _: None, steps=Steps(lambda _: None))
    check = Check(
        nodeid="check",
        series_nodeid="check",
        candidate=EngineSpec(backend, "int8" if scheme else "fp32", scheme, model, options=options),
        reference=EngineSpec(backend, "fp32", None, model),
        dataset=dataset,
        latency=None,
        latency_off="not asked for",
        **{"limits": Limits(max_drop=5.0), **more},
    )
    measurement = session.measure(check)
    measurement.close()
    return session.judge(measurement).record


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Different normal numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
