"""A TensorRT engine on a GPU: its plan deserialized, its runs, where their time goes, and the precisions of its layers.

Version 10 writes format and type of a layer as one phrase, ``"Format/Datatype": "Row major linear FP32"``; version 11
writes ``"Format"`` and ``"DataType"`` apart. Without the detailed verbosity a layer is a bare name.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.base import EngineBase, Feeds, Outputs
from pytest_quant.backends.onnx_files import read_graph, read_signature
from pytest_quant.backends.trt.build import GRAPH_FILE
from pytest_quant.backends.trt.configure import complaints, make_logger
from pytest_quant.backends.trt.coverage import Layer, count_layers, macs_by_node, ops_of
from pytest_quant.backends.trt.gpu.device import DeviceMemory, open_device
from pytest_quant.backends.trt.gpu.memory import Slot, slots_of
from pytest_quant.backends.trt.options import sizes_of
from pytest_quant.backends.trt.run_builder import PLAN_FILE, build_notes
from pytest_quant.errors import BuildError, DataError
from pytest_quant.result import Coverage, DeviceTimes
from pytest_quant.spec import EngineSpec

if TYPE_CHECKING:
    import tensorrt


_WORDS = {"FP32": "Float", "FP16": "Half", "BF16": "BFloat16", "INT8": "Int8", "FP8": "FP8", "INT4": "Int4"}
_WORD = re.compile(r"\b(FP32|FP16|BF16|BFloat16|INT8|INT4|INT32|INT64|FP8|Float|Half|Bool)\b", re.IGNORECASE)
_CANONICAL = {word.lower(): word for word in ("Float", "Half", "BFloat16", "Int32", "Int64", "Bool")} | {
    short.lower(): word for short, word in _WORDS.items()
}
_ONNX_LAYER = re.compile(r"\[ONNX Layer: (.*?)\]")


RUNS = 20

_WARMUP = 3


def layers_in_inspection(text: str) -> list[Layer]:
    """Return the layers that ``get_engine_information(JSON)`` lists.

    Raises
    ------
    BuildError : it lists names only, so the precision of the layers is not known.
    """
    rows = json.loads(text)["Layers"]
    if any(not isinstance(row, Mapping) for row in rows):
        raise BuildError(
            "the engine's inspector gives names of layers only",
            fix="build it again with ProfilingVerbosity.DETAILED, as this plugin does",
        )
    return [_layer(row) for row in rows]


def _layer(row: Mapping[str, Any]) -> Layer:
    kinds = tuple(_type_of(tensor) for tensor in row.get("Inputs", ()))
    return Layer(row["Name"], row["LayerType"], kinds, tuple(_ONNX_LAYER.findall(row.get("Metadata") or "")))


def _type_of(tensor: Mapping[str, Any]) -> str:
    """Return the type as the builder's log spells it: Float, Half, Int8."""
    phrase = next((tensor[key] for key in ("DataType", "Datatype", "Format/Datatype") if tensor.get(key)), "")
    found = _WORD.search(phrase)
    return _CANONICAL.get(found[1].lower(), found[1]) if found else str(phrase)


class Plan:
    """The engine in the file `path`; the primary context must be current.

    Attributes
    ----------
    engine : TensorRT's own object.
    lines : what TensorRT logged, severity in front.

    Raises
    ------
    BuildError : TensorRT does not take the plan, with what it logged: another version or another GPU made it.
    """

    def __init__(self, trt: Any, path: Path) -> None:
        self.lines: list[str] = []
        # TensorRT holds no reference to its logger and its runtime; without ours they are freed under it.
        self._logger = make_logger(trt, self.lines)
        self._runtime: tensorrt.Runtime | None = trt.Runtime(self._logger)
        # A plan of the version-compatible kind holds code; it is our own build.
        self._runtime.engine_host_code_allowed = True
        self.engine: Any = self._runtime.deserialize_cuda_engine(path.read_bytes())
        if self.engine is None:
            raise BuildError(
                f"TensorRT {trt.__version__} does not take the plan it was given",
                value=complaints(self.lines),
                fix="pytest-quant cache clear --kind engine, and the next run builds it for this GPU and version",
            )

    def new_context(self) -> tensorrt.IExecutionContext:
        """Return an execution context. Raises `BuildError` when there is no memory for one."""
        context: tensorrt.IExecutionContext | None = self.engine.create_execution_context()
        if context is None:
            raise BuildError(
                "TensorRT could not make an execution context",
                value=complaints(self.lines),
                fix="the device may be out of memory: nvidia-smi tells",
            )
        return context

    def close(self) -> None:
        """Drop engine and runtime in this order, after the contexts; closing twice is harmless."""
        self.engine = None
        self._runtime = None


def held_bytes(trt: Any, engine: Any, plan_bytes: int) -> int:
    """Return the bytes of device memory that `engine` reports for its activations and weights.

    The figure for activations had another name in early versions 10, and counts as 0 where there is none.

    Parameters
    ----------
    trt : the module ``tensorrt``.
    engine : a ``tensorrt.ICudaEngine``.
    plan_bytes : size of the plan's file in bytes, taken for the weights where this version does not report them.
    """
    for name in ("device_memory_size_v2", "device_memory_size"):
        activations = getattr(engine, name, None)
        if activations is not None:
            break
    else:
        activations = 0
    statistic = getattr(getattr(trt, "EngineStat", None), "TOTAL_WEIGHTS_SIZE", None)
    weights = plan_bytes if statistic is None else engine.get_engine_stat(statistic)
    return int(activations) + int(weights)


def time_parts(runner: Runner, device: DeviceMemory) -> DeviceTimes:
    """Time copies in, compute and copies out between events, and the host's wait for compute alone.

    `runner` is staged, and its primary context current.
    """
    rows = [_one(runner, device) for _ in range(_WARMUP + RUNS)][_WARMUP:]
    h2d_ms, gpu_ms, d2h_ms, host_ms = (median(column) for column in zip(*rows, strict=True))
    return DeviceTimes(runs=RUNS, gpu_ms=gpu_ms, h2d_ms=h2d_ms, d2h_ms=d2h_ms, host_ms=host_ms)


def _one(runner: Runner, device: DeviceMemory) -> tuple[float, float, float, float]:
    start = device.mark(runner.stream)
    runner.copy_in()
    copied = device.mark(runner.stream)
    runner.wait()
    began_ns = time.perf_counter_ns()
    before = device.mark(runner.stream)
    runner.execute()
    after = device.mark(runner.stream)
    runner.wait()
    host_ms = (time.perf_counter_ns() - began_ns) / 1e6
    outward = device.mark(runner.stream)
    runner.copy_out()
    end = device.mark(runner.stream)
    runner.wait()
    return (
        device.between_ms(start, copied), device.between_ms(before, after), device.between_ms(outward, end), host_ms,
    )  # fmt: skip


class Runner:
    """Runs `engine` in `context`; `lines` are what TensorRT logged. Every method needs the primary context current."""

    def __init__(
        self,
        engine: tensorrt.ICudaEngine,
        context: tensorrt.IExecutionContext,
        lines: list[str],
        slots: tuple[Slot, ...],
        device: DeviceMemory,
    ) -> None:
        self._engine = engine
        self._context = context
        self._lines = lines
        self._slots = slots
        self._device = device
        self.stream = device.new_stream()
        self._buffers: dict[str, tuple[int, int]] = {}
        self._host: dict[str, NDArray[Any]] = {}
        self._outputs: Outputs = {}

    def stage(self, feeds: Feeds) -> None:
        """Set shapes, make room for every tensor, and keep the inputs for `copy_in`.

        Raises
        ------
        DataError : a size lies outside the profile that the engine was built for.
        BuildError : the size of an output depends on the values of the inputs.
        """
        for slot in self._slots:
            if slot.is_input:
                self._stage_input(slot, np.asarray(feeds[slot.name], slot.dtype, order="C"))
        missing = self._context.infer_shapes()
        if missing:
            raise BuildError(f"TensorRT cannot infer shapes without {', '.join(missing)}", value=self._said())
        self._outputs = {slot.name: self._stage_output(slot) for slot in self._slots if not slot.is_input}

    def copy_in(self) -> None:
        """Start the copies of all inputs to the device."""
        for slot in self._slots:
            if slot.is_input and not slot.on_host:
                self._device.copy_in(self._buffers[slot.name][0], self._host[slot.name], self.stream)

    def execute(self) -> None:
        """Start one run. Raises `BuildError` when TensorRT does not take it."""
        if not self._context.execute_async_v3(self.stream):
            raise BuildError("TensorRT did not start the run", value=self._said())

    def copy_out(self) -> None:
        """Start the copies of all outputs into the arrays that `take` gives."""
        for slot in self._slots:
            if not slot.is_input and not slot.on_host:
                self._device.copy_out(self._outputs[slot.name], self._buffers[slot.name][0], self.stream)

    def wait(self) -> None:
        """Wait until everything that was started is done."""
        self._device.wait(self.stream)

    def take(self) -> Outputs:
        """Hand the outputs over; they are not written to again."""
        found, self._outputs = self._outputs, {}
        return found

    def close(self) -> None:
        """Free the buffers and the stream, and let the context go."""
        del self._context
        del self._engine
        while self._buffers:
            self._device.free(self._buffers.popitem()[1][0])
        self._device.end_stream(self.stream)

    def _stage_input(self, slot: Slot, array: NDArray[Any]) -> None:
        self._host[slot.name] = array
        if not self._context.set_input_shape(slot.name, array.shape):
            low, _, high = self._engine.get_tensor_profile_shape(slot.name, 0)
            raise DataError(
                f"input '{slot.name}' does not fit the engine",
                value=str(array.shape),
                allowed=f"from {sizes_of(low)} to {sizes_of(high)}",
                fix=f"build for it: options={{'shapes': {{'{slot.name}': [smallest, usual, largest]}}}}, or max_batch",
            )
        self._give_address(slot, array)

    def _stage_output(self, slot: Slot) -> NDArray[Any]:
        shape = sizes_of(self._context.get_tensor_shape(slot.name))
        if any(size < 0 for size in shape):
            raise BuildError(
                f"the size of output '{slot.name}' depends on the values of the inputs",
                value=str(shape),
                fix="cut the model before NonZero, NonMaxSuppression or the like, and do that step in the metric",
            )
        array = np.empty(shape, slot.dtype)
        self._give_address(slot, array)
        return array

    def _give_address(self, slot: Slot, array: NDArray[Any]) -> None:
        address = array.ctypes.data if slot.on_host else self._room(slot.name, array.nbytes)
        self._context.set_tensor_address(slot.name, address)

    def _room(self, name: str, size_bytes: int) -> int:
        """Return a buffer of at least that size; TensorRT takes no null address for an empty tensor."""
        address, size = self._buffers.get(name, (0, 0))
        if size < max(1, size_bytes):
            if size:
                self._device.free(address)
            address = self._device.allocate(max(1, size_bytes))
            self._buffers[name] = (address, max(1, size_bytes))
        return address

    def _said(self) -> str:
        return complaints(self._lines)


class GpuEngine(EngineBase):
    """Runs the plan in `folder` on a stream of its own, in the primary context that other libraries share.

    Raises
    ------
    BackendUnavailable : no library for device memory loads.
    BuildError : TensorRT does not take the plan.
    """

    def __init__(self, spec: EngineSpec, folder: Path, device: DeviceMemory | None = None) -> None:
        import tensorrt as trt

        self._trt: Any = trt
        self.spec = spec
        self._graph = folder / GRAPH_FILE
        self.signature = read_signature(self._graph)
        self.size_bytes = (folder / PLAN_FILE).stat().st_size
        self.provider = f"TensorRT {trt.__version__}"
        self._device = device or open_device()
        with self._device.current():
            self._plan = Plan(trt, folder / PLAN_FILE)
            self.device_bytes = held_bytes(trt, self._plan.engine, self.size_bytes)
            self._slots = slots_of(trt, self._plan.engine)
            self._runner = self._new_runner(self._plan.new_context())
        self._staged: Feeds | None = None
        self.notes = (f"device memory by {self._device.name}", *build_notes(folder))

    def _run(self, feeds: Feeds) -> Outputs:
        """Run one batch. Raises `DataError` when the inputs do not fit the profile."""
        with self._device.current():
            self._load(feeds)
            self._runner.execute()
            self._runner.copy_out()
            self._runner.wait()
            found = self._runner.take()
            self._staged = None
        return {tensor.name: found[tensor.name] for tensor in self.signature.outputs}

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one synchronized run over inputs that are on the device already; `device_times` has the copies."""
        with self._device.current():
            self._load(feeds)
        return partial(self._timed, feeds)

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Ask the engine's inspector for its layers and count the products in the asked precision."""
        inspector: tensorrt.EngineInspector = self._plan.engine.create_engine_inspector()
        text = inspector.get_engine_information(self._trt.LayerInformationFormat.JSON)
        ops = ops_of(read_graph(self._graph).graph)
        macs = macs_by_node(self._graph, feeds)
        return count_layers(layers_in_inspection(text), ops, self.spec.precision, self.provider, macs)

    def _device_times(self, feeds: Feeds) -> DeviceTimes:
        """Time copies and compute apart, by events on the engine's stream."""
        with self._device.current():
            self._load(feeds)
            return time_parts(self._runner, self._device)

    def _close(self) -> None:
        """Free buffers, context, engine and runtime in this order."""
        with self._device.current():
            self._runner.close()
            self._plan.close()

    def _timed(self, feeds: Feeds) -> None:
        """A run over other inputs in between costs one copy, and never the right inputs."""
        with self._device.current():
            if self._staged is not feeds:
                self._load(feeds)
            self._runner.execute()
            self._runner.wait()

    def _load(self, feeds: Feeds) -> None:
        """Bring the inputs to the device."""
        self._runner.stage(feeds)
        self._runner.copy_in()
        self._runner.wait()
        self._staged = feeds

    def _new_runner(self, context: tensorrt.IExecutionContext) -> Runner:
        return Runner(self._plan.engine, context, self._plan.lines, self._slots, self._device)
