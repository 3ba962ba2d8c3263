"""Runs of one execution context on a stream of its own, and where the time of one goes."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.base import Feeds, Outputs
from pytest_quant.backends.trt.configure import complaints
from pytest_quant.backends.trt.gpu.memory import DeviceMemory
from pytest_quant.backends.trt.gpu.slots import Slot
from pytest_quant.backends.trt.options import sizes_of
from pytest_quant.errors import BuildError, DataError
from pytest_quant.result import DeviceTimes

if TYPE_CHECKING:
    import tensorrt

RUNS = 20

_WARMUP = 3


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
