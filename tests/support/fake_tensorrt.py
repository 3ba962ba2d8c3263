"""A stand-in for ``tensorrt`` where there is no GPU, for two things only: running a plan and calling a calibrator back.

What it runs is fixed: ``y = 2 x + ids`` by rows and ``next = ids + 1``. Device memory is memory of this process, and
nothing is copied or computed before somebody waits for the stream, as on a device.
"""

from __future__ import annotations

import ctypes
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS = 4
MAX_BATCH = 8
ACTIVATION_BYTES, WEIGHT_BYTES = 1000, 300
Types = Enum("Types", ["FLOAT", "INT64", "BF16"])
IoMode = Enum("IoMode", ["INPUT", "OUTPUT"])
Formats = Enum("Formats", ["JSON", "ONELINE"])
Stats = Enum("Stats", ["TOTAL_WEIGHTS_SIZE"])
Levels = Enum("Levels", ["NONE", "AMPERE_PLUS"])

INSPECTION = json.dumps(
    {
        "Layers": [
            {
                "Name": "p",
                "LayerType": "CaskGemmMatrixMultiply",
                "Inputs": [{"Name": "x", "Format/Datatype": "Row major Int8 format"}],
                "Metadata": "[ONNX Layer: product]",
            }
        ]
    }
)


class HostMemory:
    """Device memory by another name; `live` are the addresses that nobody has freed."""

    name = "host"

    def __init__(self) -> None:
        self.live: dict[int, Any] = {}
        self.streams: set[int] = set()
        self.depth = 0
        self._queues: dict[int, list[Callable[[], object]]] = defaultdict(list)
        self._clock_ms = 0.0

    @contextmanager
    def current(self) -> Iterator[None]:
        """Count how deep the context is pushed."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def allocate(self, size_bytes: int) -> int:
        """Return the address of a block of this process."""
        self._need_context()
        block = ctypes.create_string_buffer(size_bytes)
        self.live[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def free(self, address: int) -> None:
        """Forget a block; one that is not there is an error."""
        self._need_context()
        del self.live[address]

    def copy_in(self, address: int, array: NDArray[Any], stream: int) -> None:
        """Copy later."""
        assert array.flags.c_contiguous
        self.start(stream, lambda: ctypes.memmove(address, array.ctypes.data, array.nbytes))

    def copy_out(self, array: NDArray[Any], address: int, stream: int) -> None:
        """Copy later."""
        self.start(stream, lambda: ctypes.memmove(array.ctypes.data, address, array.nbytes))

    def new_stream(self) -> int:
        """Return a number that no stream has."""
        stream = 7001 + len(self.streams)
        self.streams.add(stream)
        return stream

    def end_stream(self, stream: int) -> None:
        """Forget it."""
        self.streams.remove(stream)

    def start(self, stream: int, work: Callable[[], object]) -> None:
        """Put `work` off until somebody waits."""
        self._need_context()
        assert stream in self.streams
        self._queues[stream].append(work)

    def wait(self, stream: int) -> None:
        """Do everything that was started."""
        self._need_context()
        queue = self._queues.pop(stream, [])
        for work in queue:
            work()

    def mark(self, stream: int) -> Any:
        """Return the time as it will be when the stream gets here."""
        event = SimpleNamespace(at_ms=None)

        def record() -> None:
            event.at_ms = self._clock_ms

        self.start(stream, record)
        return event

    def between_ms(self, first: Any, second: Any) -> float:
        """Both must have been reached."""
        return float(second.at_ms - first.at_ms)

    def tick(self, ms: float) -> None:
        """Let time pass on the device."""
        self._clock_ms += ms

    def _need_context(self) -> None:
        assert self.depth > 0, "the primary context is not current"


class ILogger:
    """Remembers whether it was made as the binding wants it."""

    made = False

    def __init__(self) -> None:
        self.made = True


class Context:
    """Runs the fixed computation at the addresses it was given."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        """Say whether the profile holds the shape in every axis; what it does not hold is logged and not kept."""
        low, _, high = self.engine.get_tensor_profile_shape(name, 0)
        if len(shape) == len(low) and all(a <= b <= c for a, b, c in zip(low, shape, high, strict=True)):
            self.shapes[name] = tuple(shape)
            return True
        bounds = f"Valid range for profile 0: {list(low)}..{list(high)}."
        said = f"Set dimension {list(shape)} for tensor {name} does not satisfy any optimization profiles. {bounds}"
        self.engine.logger.log("Severity.ERROR", f"IExecutionContext::setInputShape: {said}")
        return False

    def infer_shapes(self) -> list[str]:
        """Return the inputs without a shape."""
        return [name for name in ("x", "ids") if name not in self.shapes]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        """Return -1 for rows that depend on values."""
        rows = -1 if self.engine.data_dependent else self.shapes["x"][0]
        return (rows, COLUMNS) if name == "y" else (rows,)

    def set_tensor_address(self, name: str, address: int) -> bool:
        """Take it down."""
        self.addresses[name] = address
        return True

    def execute_async_v3(self, stream: int) -> bool:
        """Compute later, at the addresses of now."""
        if self.engine.refuses:
            self.engine.logger.log("Severity.ERROR", "the run was refused")
            return False
        device, addresses, rows = self.engine.device, dict(self.addresses), self.shapes["x"][0]
        device.start(stream, lambda: _compute(device, addresses, rows))
        return True

    def __del__(self) -> None:
        self.engine.ended.append("context gone")


class Engine:
    """What a plan says of itself."""

    num_io_tensors = 4
    data_dependent = refuses = False
    y_type = Types.FLOAT
    inspection = INSPECTION

    def __init__(self, logger: Any, device: HostMemory, ended: list[str], changes: dict[str, Any]) -> None:
        self.logger, self.device, self.ended = logger, device, ended
        self.__dict__.update(changes)
        setattr(self, "device_memory_size" if changes.get("old") else "device_memory_size_v2", ACTIVATION_BYTES)

    def get_tensor_name(self, index: int) -> str:
        """Return them in an order that is not the model's."""
        return ("x", "ids", "next", "y")[index]

    def get_tensor_mode(self, name: str) -> Any:
        """Tell inputs from outputs."""
        return IoMode.INPUT if name in ("x", "ids") else IoMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> Any:
        """Whole numbers have 64 bits, as since version 9."""
        return {"x": Types.FLOAT, "y": self.y_type}.get(name, Types.INT64)

    def is_shape_inference_io(self, _name: str) -> bool:
        """No input decides shapes."""
        return False

    def get_tensor_profile_shape(self, name: str, _profile: int) -> list[tuple[int, ...]]:
        """Return smallest, usual and largest."""
        tail = (COLUMNS,) if name == "x" else ()
        return [(1, *tail), (1, *tail), (MAX_BATCH, *tail)]

    def get_engine_stat(self, _statistic: Any) -> int:
        """Tell the weights."""
        return WEIGHT_BYTES

    def create_execution_context(self) -> Context:
        """Return one more."""
        return Context(self)

    def create_engine_inspector(self) -> Any:
        """Return one that knows its text."""
        return SimpleNamespace(get_engine_information=lambda _: self.inspection)

    def __del__(self) -> None:
        self.ended.append("engine gone")


class Runtime:
    """Takes every plan but an empty one."""

    engine_host_code_allowed = False

    def __init__(self, logger: Any, device: HostMemory, ended: list[str], changes: dict[str, Any]) -> None:
        assert logger.made, "the logger's own constructor was not called"
        self._logger, self._device, self._ended, self._changes = logger, device, ended, changes

    def deserialize_cuda_engine(self, plan: bytes) -> Engine | None:
        """Return ``None`` and log why, as the real one does."""
        assert self._device.depth > 0, "the primary context is not current"
        if not plan:
            self._logger.log("Severity.ERROR", "the plan has another version")
            return None
        return Engine(self._logger, self._device, self._ended, self._changes)

    def __del__(self) -> None:
        self._ended.append("runtime gone")


def make(device: HostMemory, major: int = 10, **changes: Any) -> SimpleNamespace:
    """Return a module of that major version whose engines run on `device`; `changes` go to its engine."""
    ended: list[str] = []
    module = SimpleNamespace(
        __name__="tensorrt",
        __version__=f"{major}.13.0",
        ILogger=ILogger,
        Runtime=lambda logger: Runtime(logger, device, ended, changes),
        TensorIOMode=IoMode,
        LayerInformationFormat=Formats,
        EngineStat=Stats,
        BuilderFlag=_builder_flags(major),
        NetworkDefinitionCreationFlag=_network_flags(major),
        OnnxParserFlag=SimpleNamespace(NATIVE_INSTANCENORM="native"),
        ProfilingVerbosity=SimpleNamespace(DETAILED="detailed"),
        MemoryPoolType=SimpleNamespace(WORKSPACE="workspace"),
        HardwareCompatibilityLevel=Levels,
        init_libnvinfer_plugins=lambda *_: True,
        log=ended,
    )
    if major < 11:
        module.IInt8EntropyCalibrator2 = type("IInt8EntropyCalibrator2", (Calibrator,), {})
        module.IInt8MinMaxCalibrator = type("IInt8MinMaxCalibrator", (Calibrator,), {})
    return module


class Calibrator:
    """The base of calibrators; `drive` calls it back as the builder does, exceptions swallowed."""

    made = False

    def __init__(self) -> None:
        self.made = True

    def drive(self, names: list[str], read: Callable[[str, int], object]) -> None:
        """Read a cache or else every batch, then hand ranges over."""
        assert self.made, "the calibrator's own constructor was not called"
        ours: Any = self
        known = ours.read_calibration_cache()
        while known is None:
            addresses = ours.get_batch(names)
            if addresses is None:
                break
            for name, address in zip(names, addresses, strict=True):
                read(name, address)
        ours.write_calibration_cache(memoryview(known or b"TRT-10-EntropyCalibration2\nx: 3c010a14\n"))


def _compute(device: HostMemory, addresses: dict[str, int], rows: int) -> None:
    def at(name: str, kind: Any, count: int) -> NDArray[Any]:
        return np.ctypeslib.as_array(ctypes.cast(addresses[name], ctypes.POINTER(kind)), (count,))

    x = at("x", ctypes.c_float, rows * COLUMNS).reshape(rows, COLUMNS)
    ids = at("ids", ctypes.c_int64, rows)
    at("y", ctypes.c_float, rows * COLUMNS)[:] = (2 * x + ids[:, None]).ravel()
    at("next", ctypes.c_int64, rows)[:] = ids + 1
    device.tick(5.0)


def _builder_flags(major: int) -> Any:
    old = {"INT8": 1, "FP16": 0, "BF16": 17} if major < 11 else {}
    return IntEnum("BuilderFlag", {**old, "TF32": 7, "VERSION_COMPATIBLE": 13})


def _network_flags(major: int) -> Any:
    members = {"EXPLICIT_BATCH": 0, "STRONGLY_TYPED": 1} if major < 11 else {"STRONGLY_TYPED": 0}
    return IntEnum("NetworkDefinitionCreationFlag", members)
