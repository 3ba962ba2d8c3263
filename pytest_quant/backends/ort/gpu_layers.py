"""The time of each layer on a GPU provider of ONNX Runtime, in a process of its own, which waits for each kernel.

Without that, the time of a node on a GPU is the time to hand its kernels over, not to run them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pytest_quant.backends.apart import ApartError, call_apart
from pytest_quant.backends.base import Feeds
from pytest_quant.backends.layers import LayerTime
from pytest_quant.backends.ort.gpu import find_provider
from pytest_quant.backends.ort.layers import time_layers
from pytest_quant.backends.ort.libraries import CUDA, TENSORRT
from pytest_quant.backends.ort.session import Provider
from pytest_quant.backends.runtime import failed
from pytest_quant.errors import BuildError, QuantError


def time_layers_on_gpu(engine: Path, model: Path, providers: Sequence[Provider], feeds: Feeds) -> tuple[LayerTime, ...]:
    """Return what `time_layers` does.

    Parameters
    ----------
    engine, model, feeds : see `time_layers`.
    providers : as there, without CUDA graphs: a captured run is replayed as one, without its nodes.

    Raises
    ------
    BuildError : a provider does not load there, ONNX Runtime refuses the model or a run, or the process ended.
    """
    try:
        # CUDA's driver is told to wait before it is first used, which in the process of the tests was long ago.
        waits = {**os.environ, "CUDA_LAUNCH_BLOCKING": "1"}
        layers, _ = call_apart(time_here, engine, model, list(providers), feeds, environment=waits)
    except ApartError as ended:
        if isinstance(ended.error, QuantError):
            raise ended.error from None
        what = f"the process that profiles {engine.name} {ended.how or 'failed'}"
        raise failed(what, ended.said, value=str(ended.error or ended.how), fix="run it once more") from ended
    return layers


def time_here(engine: Path, model: Path, providers: Sequence[Provider], feeds: Feeds) -> tuple[LayerTime, ...]:
    """Load the libraries of the GPU providers into this process, which is a new one, and profile there."""
    for one in providers:
        if one.name in (CUDA, TENSORRT):
            found = find_provider(one.name)
            if not found.available:
                raise BuildError(
                    f"{one.name} does not load in the process that profiles {engine.name}",
                    value=found.reason,
                    fix=found.fix or None,
                )
    return time_layers(engine, model, providers, feeds)
