"""Open engines whose inputs and outputs all lead with the samples, in batches of a given size."""

from __future__ import annotations

from pathlib import Path

from pytest_quant.backends import Engine
from pytest_quant.measure.batching import OpenEngine
from pytest_quant.measure.build import BuiltEngine
from pytest_quant.testing import NumpyBackend


def built_of(engine: Engine) -> BuiltEngine:
    """Return what an engine that nobody built would come from."""
    return BuiltEngine(engine.spec, NumpyBackend(), Path(), "key", "built", "", None, None, None)


def leading(engine: Engine, batch_size: int, *, pads: bool = False) -> OpenEngine:
    """Take batches of `batch_size` samples under the engine's own names."""
    names = {tensor.name: tensor.name for tensor in engine.signature.inputs}
    axes = {tensor.name: 0 for tensor in engine.signature.outputs}
    return OpenEngine(built_of(engine), engine, names, axes, batch_size, pads=pads)
