"""Engines whose inputs and outputs all lead with the samples, in batches of a given size."""

from __future__ import annotations

from pytest_quant.backends import Engine
from pytest_quant.measure.batching import Batched


def leading(engine: Engine, batch_size: int) -> Batched:
    """Take batches of `batch_size` samples under the engine's own names."""
    names = {tensor.name: tensor.name for tensor in engine.signature.inputs}
    return Batched(engine, names, {tensor.name: 0 for tensor in engine.signature.outputs}, batch_size)
