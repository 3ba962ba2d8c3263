"""A fake module ``tensorrt`` of one process: what of the builder is configured, its calibrators, and its runtime."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.support.fake_tensorrt import enums
from tests.support.fake_tensorrt.device import HostMemory
from tests.support.fake_tensorrt.engine import (
    EngineInspector,
    ICudaEngine,
    IExecutionContext,
    Machine,
    Plan,
    Runtime,
)

METHODS = {"IInt8EntropyCalibrator2": "EntropyCalibration2", "IInt8MinMaxCalibrator": "MinMaxCalibration"}
"""The calibrators, and how each heads its ranges."""


class ILogger:
    """Remembers whether it was made as the binding wants it."""

    _made = False

    def __init__(self) -> None:
        self._made = True


class IProfiler(ILogger):
    """Told of layers."""


class Calibrator(ILogger):
    """The base of calibrators; `drive` calls it back as the builder does, exceptions swallowed."""

    _header = ""


def drive(calibrator: Any, names: list[str], read: Callable[[str, int], object]) -> None:
    """Read a cache of this version and method, or else every batch, then hand ranges over; as the builder does."""
    assert calibrator._made, "the calibrator's own constructor was not called"
    cache = calibrator.read_calibration_cache()
    header = calibrator._header.encode()
    if cache is not None and cache.partition(b"\n")[0] != header:
        # A cache with another header is passed over with a warning, and the calibration starts anew.
        cache = None
    count = 0
    while cache is None:
        addresses = calibrator.get_batch(names)
        if addresses is None:
            break
        count += 1
        for name, address in zip(names, addresses, strict=True):
            read(name, address)
    if cache is not None or count:
        calibrator.write_calibration_cache(memoryview(cache or header + b"\nx: 3c010a14\n"))


def make(device: HostMemory, major: int = 10, **changes: Any) -> SimpleNamespace:
    """Return a module of that major version whose engines run on `device`; `changes` go to the `Plan` it reads."""
    machine = Machine(device, Plan(major=major, **changes))

    def init_libnvinfer_plugins(logger: Any, namespace: str) -> bool:
        assert namespace == ""
        # The library keeps a pointer, of the last one that registers, and the binding no reference.
        machine.plugins = True
        machine.plugin_logger = weakref.ref(logger) if logger is not None else None
        return True

    module = SimpleNamespace(
        __name__="tensorrt",
        __version__=f"{major}.13.0",
        ILogger=ILogger,
        IProfiler=IProfiler,
        ICudaEngine=ICudaEngine,
        IExecutionContext=IExecutionContext,
        EngineInspector=EngineInspector,
        Runtime=type("Runtime", (Runtime,), {"_machine": machine}),
        DataType=enums.DataType,
        nptype={enums.DataType.FLOAT: np.float32, enums.DataType.INT64: np.int64}.__getitem__,
        TensorIOMode=enums.TensorIOMode,
        TensorLocation=enums.TensorLocation,
        LayerInformationFormat=enums.LayerInformationFormat,
        EngineStat=enums.EngineStat,
        BuilderFlag=enums.builder_flag(major),
        NetworkDefinitionCreationFlag=enums.network_flag(major),
        ProfilingVerbosity=enums.ProfilingVerbosity,
        MemoryPoolType=enums.MemoryPoolType,
        init_libnvinfer_plugins=init_libnvinfer_plugins,
        _machine=machine,
    )
    if major < 11:
        for name, method in METHODS.items():
            header = f"TRT-{major}1300-{method}"
            setattr(module, name, type(name, (Calibrator,), {"_header": header}))
    return module
