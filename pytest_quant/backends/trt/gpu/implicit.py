"""Implicit INT8 of TensorRT 10 around one build: the calibrator goes in before, what it found comes out after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_quant.backends.trt.configure import BuildFailedError
from pytest_quant.backends.trt.gpu.calibrator import ALGORITHMS, make_calibrator, release
from pytest_quant.backends.trt.gpu.device import open_device
from pytest_quant.backends.trt.gpu.samples import read_samples
from pytest_quant.backends.trt.request import BuildRequest
from pytest_quant.errors import QuantError

if TYPE_CHECKING:
    import tensorrt


@contextmanager
def calibrating(
    trt: Any,
    config: tensorrt.IBuilderConfig,
    request: BuildRequest,
    profile_for: Callable[[dict[str, tuple[int, ...]]], tensorrt.IOptimizationProfile],
) -> Iterator[None]:
    """Give `config` a calibrator inside the block, and settle with it at the end; nothing without a calibration.

    Parameters
    ----------
    profile_for : a profile for inputs of exactly these shapes.

    Raises
    ------
    BuildFailedError : a callback failed, read no batch, or found no ranges; TensorRT itself would go on.
    """
    if not request.calibration:
        yield
        return
    name = ALGORITHMS[request.calibration]
    if not hasattr(trt, name):
        raise BuildFailedError(f"{trt.__name__} {trt.__version__} has no {name}: calibrators ended with version 10")
    known = None if request.samples else Path(request.ranges).read_bytes()
    batches = read_samples(Path(request.samples)) if request.samples else iter(())
    first = next(batches, None)
    if first is not None:
        shapes = {key: np.shape(array) for key, array in first.items()}
        config.set_calibration_profile(profile_for(shapes))
    size = 1 if first is None else len(next(iter(first.values())))
    device = open_device()
    with device.current():
        calibrator, ledger = make_calibrator(
            trt, request.calibration, chain([] if first is None else [first], batches), device, size, known
        )
        config.int8_calibrator = calibrator
        try:
            yield
        finally:
            release(ledger, device)
    try:
        ranges = ledger.settle()
    except QuantError as error:
        raise BuildFailedError(str(error)) from error
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise BuildFailedError(f"the calibrator failed after {ledger.batches} batches: {said}") from error
    if known is None:
        Path(request.ranges).write_bytes(ranges)
