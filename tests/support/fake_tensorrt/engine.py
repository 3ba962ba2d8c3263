"""A fake TensorRT engine and its contexts, on a fake device.

What it runs is fixed: ``y = 2 x + ids`` by rows and ``next = ids + 1``. Nothing is computed before somebody waits for
the stream, as on a device, and every rule of the API that costs a wrong figure or a crash is kept: addresses, places,
shapes, the order of calls, and that native objects end while the CUDA context is current.
"""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.fake_tensorrt.cuda import ALIGNMENT, cudaError_t
from tests.support.fake_tensorrt.device import HostMemory
from tests.support.fake_tensorrt.enums import DataType, ProfilingVerbosity, TensorIOMode, TensorLocation
from tests.support.fake_tensorrt.inspection import inspection, without_shapes

COLUMNS = 4
MAX_BATCH = 8
ACTIVATION_BYTES, WEIGHT_BYTES = 1000, 300
RUN_MS = 5.0
ENQUEUE_MS = 0.5
"""The host's way to the kernels of a run."""
NVTX_MS = 2.0
"""What markers of NVTX add to a run."""

LAYER_MS = {"product": 3.0, "__myl_Repl_myl0_0": 0.5}
"""The layers that a profiler is told of, the second one twice in each run."""
COLD = 10
"""How many times as long each takes in the first run of a context."""


@dataclass
class Plan:
    """What the plan holds, and how its engine behaves.

    Attributes
    ----------
    major : version of TensorRT that reads it.
    plugin : it has a layer of a plugin.
    data_dependent : rows of outputs depend on values.
    refuses, crashes : what a run does.
    silent : it was built without the verbosity that a profiler needs.
    on_host : tensors that TensorRT reads from or writes to host memory.
    inspection : what the inspector says; empty for the form of the version.
    """

    major: int = 10
    plugin: bool = False
    data_dependent: bool = False
    refuses: bool = False
    crashes: bool = False
    silent: bool = False
    on_host: tuple[str, ...] = ()
    inspection: str = ""


@dataclass
class Machine:
    """One process: its device, the log of what ended, and whether plugins are registered, with the logger they use."""

    device: HostMemory
    plan: Plan
    ended: list[str] = field(default_factory=list)
    plugins: bool = False
    plugin_logger: Any = None

    def end(self, what: str) -> None:
        """Note the end of a native object, which frees memory in the current CUDA context."""
        self.ended.append(f"{what} gone" if self.device.depth else f"{what} gone outside of its CUDA context")


class IExecutionContext:
    """Runs the fixed computation at the addresses it was given."""

    def __init__(self, engine: ICudaEngine, activations: int) -> None:
        self._engine, self._machine, self._plan = engine, engine._machine, engine._plan
        self._activations = activations
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self.nvtx_verbosity = engine.profiling_verbosity
        self.profiler: Any = None
        self.enqueue_emits_profile = True
        self._runs = 0
        self._untold: dict[str, float] | None = None

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        """Say whether the profile holds the shape in every axis; what it does not hold is logged and not kept."""
        low, _, high = self._engine.get_tensor_profile_shape(name, 0)
        if len(shape) == len(low) and all(a <= b <= c for a, b, c in zip(low, shape, high, strict=True)):
            self._shapes[name] = tuple(shape)
            return True
        bounds = f"Valid range for profile 0: {list(low)}..{list(high)}."
        said = f"Set dimension {list(shape)} for tensor {name} does not satisfy any optimization profiles. {bounds}"
        return self._refuse(f"IExecutionContext::setInputShape: {said}")

    def infer_shapes(self) -> list[str]:
        """Return the inputs without a shape; else check the rows."""
        missing = [name for name in ("x", "ids") if name not in self._shapes]
        if not missing and self._shapes["x"][0] != self._shapes["ids"][0]:
            self._refuse(f"IExecutionContext::inferShapes: x and ids differ in rows: {self._shapes}")
            raise RuntimeError("infer_shapes error code: -1")
        return missing

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        """Return -1 for rows that depend on values."""
        rows = -1 if self._plan.data_dependent else self._shapes["x"][0]
        return (rows, COLUMNS) if name == "y" else (rows,)

    def set_tensor_address(self, name: str, memory: int) -> bool:
        """Take it down where it is aligned; null takes back what was set."""
        if memory % ALIGNMENT:
            return self._refuse(f"IExecutionContext::setTensorAddress: the address of {name} is not aligned")
        self._addresses[name] = memory
        return True

    def execute_async_v3(self, stream_handle: int) -> bool:
        """Compute later, at the addresses of now."""
        cuda, addresses = self._machine.device.cuda, dict(self._addresses)
        if self._plan.refuses or cuda._broken is not None:
            why = "the run was refused" if self._plan.refuses else "Cuda Runtime (an illegal memory access)"
            return self._refuse(why)
        empty = [name for name in ("x", "ids", "next", "y") if not addresses.get(name)]
        if empty:
            return self._refuse(f"IExecutionContext::enqueueV3: no address is set for {', '.join(empty)}")
        rows, plan = self._shapes["x"][0], self._plan
        if plan.plugin:
            logger = self._machine.plugin_logger()
            assert logger is not None, "a plugin logs to a logger that was freed: the process would crash here"
            logger.log("Severity.WARNING", "InstanceNormalization_TRT: enqueue")
        lasts_ms = RUN_MS + (NVTX_MS if self.nvtx_verbosity is not ProfilingVerbosity.NONE else 0.0)
        self._runs, self._untold = self._runs + 1, None
        slower = COLD if self._runs == 1 else 1

        def run() -> None:
            _compute(self._machine.device, plan, addresses, rows, lasts_ms)
            self._untold = {name: slower * ms for name, ms in LAYER_MS.items()}

        cuda.spend(ENQUEUE_MS)
        (status,) = cuda.enqueue(stream_handle, run)
        if self.profiler is not None and self.enqueue_emits_profile:
            cuda.cudaStreamSynchronize(stream_handle)
            self._tell()
        return status == cudaError_t.cudaSuccess

    def report_to_profiler(self) -> bool:
        """Tell the times of the last run, once; refuse where there is no profiler or no finished run."""
        if self.profiler is None or self.enqueue_emits_profile or self._untold is None:
            return self._refuse("IExecutionContext::reportToProfiler: there is nothing to report")
        self._tell()
        return True

    def _tell(self) -> None:
        assert self.profiler._made, "the profiler's own constructor was not called"
        times_ms, self._untold = self._untold or {}, None
        if not self._plan.silent:
            for name in ("product", "__myl_Repl_myl0_0", "__myl_Repl_myl0_0"):
                self.profiler.report_layer_time(name, times_ms[name])

    def _refuse(self, said: str) -> bool:
        self._engine._logger.log("Severity.ERROR", said)
        return False

    def __del__(self) -> None:
        self._machine.end("context")
        if self._machine.device.depth:
            self._machine.device.cuda.cudaFree(self._activations)


class EngineInspector:
    """Knows its text, and types of tensors with free axes only for a context in which every input has a shape."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.execution_context: IExecutionContext | None = None

    def get_engine_information(self, format: object) -> str:  # noqa: A002 - the binding's own name
        """Return the text."""
        assert str(format).endswith("JSON")
        has_shapes = self.execution_context is not None and not self.execution_context.infer_shapes()
        return self._text if has_shapes else without_shapes(self._text)


class ICudaEngine:
    """What a plan says of itself."""

    num_io_tensors = 4
    device_memory_size_v2 = ACTIVATION_BYTES
    profiling_verbosity = ProfilingVerbosity.DETAILED

    def __init__(self, logger: Any, machine: Machine, plan: Plan) -> None:
        self._logger, self._machine, self._plan = logger, machine, plan

    def get_tensor_name(self, index: int) -> str:
        """Return them in an order that is not the model's."""
        return ("x", "ids", "next", "y")[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        """Tell inputs from outputs."""
        return TensorIOMode.INPUT if name in ("x", "ids") else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> DataType:
        """Whole numbers have 64 bits, as since version 9."""
        return DataType.FLOAT if name in ("x", "y") else DataType.INT64

    def get_tensor_location(self, name: str) -> TensorLocation:
        """Tell where TensorRT reads or writes it."""
        return TensorLocation.HOST if name in self._plan.on_host else TensorLocation.DEVICE

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[tuple[int, ...]]:
        """Return smallest, usual and largest."""
        assert profile_index == 0
        tail = (COLUMNS,) if name == "x" else ()
        return [(1, *tail), (1, *tail), (MAX_BATCH, *tail)]

    def get_engine_stat(self, stat: object) -> int:
        """Tell the weights."""
        assert str(stat).endswith("TOTAL_WEIGHTS_SIZE")
        return WEIGHT_BYTES

    def create_execution_context(self) -> IExecutionContext | None:
        """Return one more, or nothing where there is no room for its activations."""
        status, address = self._machine.device.cuda.cudaMalloc(ACTIVATION_BYTES)
        if status != cudaError_t.cudaSuccess:
            self._logger.log("Severity.ERROR", f"[virtualMemoryBuffer] Cuda Driver (out of memory): {ACTIVATION_BYTES}")
            return None
        return IExecutionContext(self, address)

    def create_engine_inspector(self) -> EngineInspector:
        """Return one of the plan."""
        return EngineInspector(self._plan.inspection or inspection(self._plan.major))

    def __del__(self) -> None:
        self._machine.end("engine")


TOO_LARGE = {
    b"too large for version 10.13": (
        "ERROR [defaultAllocator.cpp::allocate::57] Error Code 1: Cuda Runtime (In allocate at "
        "common/dispatch/defaultAllocator.cpp:57)",
        "ERROR [executionContext.cpp::initializeExecutionContext::625] Error Code 2: OutOfMemory (Requested size was "
        "4294967296 bytes.)",
    ),
    b"too large for version 10.0": (
        "ERROR [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)",
        "ERROR [executionContext.cpp::initializeExecutionContext::556] Error Code 2: OutOfMemory (Requested size was "
        "4294967296 bytes.)",
    ),
    b"too large, and a warning says so": (
        "WARNING Requested amount of GPU memory (4294967296 bytes) could not be allocated. There may not be enough "
        "free memory for allocation to succeed.",
        "ERROR [engine.cpp::deserializeEngine::1322] Error Code 2: Internal Error (Assertion memory failed. )",
    ),
    b"too large for an allocator of the user's": (
        "ERROR [globWriter.cpp::makeResizableGpuMemory::433] Error Code 2: Internal Error (User allocator error "
        "allocating 4294967296-byte buffer)",
    ),
}
"""Plans whose weights do not fit onto the device, and what versions of TensorRT log of them."""


class Runtime:
    """Takes every plan but an empty one, and one with a plugin once plugins are registered in this process.

    A plan that is JSON says itself how its engine behaves.
    """

    _machine: Machine

    def __init__(self, logger: Any) -> None:
        assert logger._made, "the logger's own constructor was not called"
        self._logger = logger

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> ICudaEngine | None:
        """Return ``None`` and log why, as the real one does."""
        assert self._machine.device.depth > 0, "the primary context is not current"
        if not serialized_engine:
            said = "IRuntime::deserializeCudaEngine: Error Code 1: Serialization (Version tag does not match.)"
            self._logger.log("Severity.ERROR", said)
            return None
        if serialized_engine in TOO_LARGE:
            for line in TOO_LARGE[serialized_engine]:
                severity, _, said = line.partition(" ")
                self._logger.log(f"Severity.{severity}", said)
            return None
        plan = self._machine.plan
        if serialized_engine.startswith(b"{"):
            plan = replace(plan, **json.loads(serialized_engine))
        if plan.plugin and not self._machine.plugins:
            said = "IPluginRegistry::getCreator: Cannot find plugin: InstanceNormalization_TRT, version: 3, namespace:."
            self._logger.log("Severity.ERROR", said)
            return None
        return ICudaEngine(self._logger, self._machine, plan)

    def __del__(self) -> None:
        self._machine.end("runtime")


def _compute(device: HostMemory, plan: Plan, addresses: dict[str, int], rows: int, lasts_ms: float) -> None:
    sizes = {"x": (ctypes.c_float, rows * COLUMNS), "y": (ctypes.c_float, rows * COLUMNS)}
    result: dict[str, NDArray[Any]] = {}
    for name, address in addresses.items():
        kind, count = sizes.get(name, (ctypes.c_int64, rows))
        on_device = device.cuda.holds(address, count * ctypes.sizeof(kind))
        if name in plan.on_host:
            assert not on_device, f"TensorRT reads {name} on the host: the process would crash here"
        elif plan.crashes or not on_device:
            device.cuda.break_context()
            return
        result[name] = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(kind)), (count,))
    x, ids = result["x"].reshape(rows, COLUMNS), result["ids"]
    result["y"][:] = (2 * x + ids[:, None]).ravel()
    result["next"][:] = ids + 1
    device.cuda.tick(lasts_ms)
