"""A TensorRT engine on a GPU: its runs, where their time goes, and the precisions of its layers."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.base import EngineBase, Feeds, Outputs
from pytest_quant.backends.onnx_files import read_graph, read_signature
from pytest_quant.backends.trt.build import GRAPH_FILE
from pytest_quant.backends.trt.configure import complaints
from pytest_quant.backends.trt.coverage import count_layers, macs_by_node, ops_of
from pytest_quant.backends.trt.gpu.device import DeviceMemory, open_device
from pytest_quant.backends.trt.gpu.memory import Slot, slots_of
from pytest_quant.backends.trt.gpu.plan import Plan, held_bytes, layers_in_inspection
from pytest_quant.backends.trt.options import sizes_of
from pytest_quant.backends.trt.request import PLAN_FILE, build_notes
from pytest_quant.errors import BuildError, DataError
from pytest_quant.result import Coverage, DeviceTimes
from pytest_quant.spec import EngineSpec

if TYPE_CHECKING:
    import tensorrt


RUNS = 20
_WARMUP = 3


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
