"""Where the time of a run goes: copies and compute by the device's clock, layers by TensorRT's profiler."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

from pytest_quant.backends.trt.gpu.device import DeviceMemory
from pytest_quant.backends.trt.gpu.runner import Runner
from pytest_quant.errors import BuildError
from pytest_quant.result import DeviceTimes

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


def time_layers(trt: Any, context: tensorrt.IExecutionContext, runner: Runner) -> tuple[tuple[str, float], ...]:
    """Return each layer with its milliseconds in one run, in the order they ran.

    `context` is the one that `runner` runs, staged, and its primary context current. It is good for nothing else
    afterwards: a context does not forget its profiler, and a profiled run is slower as a whole.
    """
    found: list[tuple[str, float]] = []

    class Profiler(trt.IProfiler):  # type: ignore[misc]
        """Keeps what TensorRT reports."""

        def __init__(self) -> None:
            trt.IProfiler.__init__(self)

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            found.append((layer_name, ms))

    runner.copy_in()
    # TensorRT holds no reference to it.
    profiler = Profiler()
    context.profiler = profiler
    context.enqueue_emits_profile = False
    runner.execute()
    runner.wait()
    if not context.report_to_profiler():
        raise BuildError("TensorRT gave no times of its layers", fix="it profiles no captured CUDA graphs")
    return tuple(found)
