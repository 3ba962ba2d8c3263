"""An engine on a GPU provider of ONNX Runtime."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.layers import LayerTime
from pytest_quant.backends.ort.device_clock import device_clock
from pytest_quant.backends.ort.engine import OrtEngine
from pytest_quant.backends.ort.layers import time_layers_on_gpu
from pytest_quant.backends.ort.session import Provider, new_run_options
from pytest_quant.result import DeviceTimes
from pytest_quant.spec import EngineSpec

_TIMED_RUNS = 21


class OrtGpuEngine(OrtEngine):
    """A session whose inputs and outputs stay on the device while it is timed.

    It runs on a stream of ours where a library for device memory is here, so that the device's clock can be read.
    Parameters are those of `OrtEngine`.
    """

    def __init__(
        self, spec: EngineSpec, path: Path, providers: Sequence[Provider], *, notes: tuple[str, ...] = ()
    ) -> None:
        self._clock = device_clock()
        ours = providers if self._clock is None else self._clock.asked(providers)
        super().__init__(spec, path, ours, notes=notes)
        # Sessions that are opened apart, in other processes too, have streams of their own.
        self._providers = providers

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one run over inputs that are on the device already, synchronized before it returns."""
        done = None if self._clock is None else self._clock.wait
        return partial(_run_bound, self._session, self._bound(feeds), done)

    def _prepare_events(self, feeds: Feeds) -> Callable[[], float] | None:
        """Return the same run between two events; ``None`` without a stream of our own."""
        if self._clock is None:
            return None
        return partial(self._clock.time_ms, self._start(self._bound(feeds)))

    def _device_times(self, feeds: Feeds) -> DeviceTimes:
        """Time copies and compute apart, by events where there is a stream of our own, else all of it by the host."""
        binding = self._bound(feeds)
        if self._clock is None:
            return _times_by_host(partial(self._bound, feeds), partial(_run_bound, self._session))

        def outputs() -> list[tuple[int, int]]:
            return [(value.data_ptr(), value.tensor_size_in_bytes()) for value in binding.get_outputs()]

        sizes = [np.asarray(array).nbytes for array in feeds.values()]
        return self._clock.time_parts(self._start(binding), sizes, outputs)

    def _start(self, binding: Any) -> Callable[[], object]:
        """Return a run that does not wait for the device."""
        options = new_run_options()
        options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        return partial(self._session.run_with_iobinding, binding, options)

    def _layer_times(self, feeds: Feeds, model: Path) -> tuple[LayerTime, ...]:
        return time_layers_on_gpu(self.path, model, self._providers, feeds)

    def _bound(self, feeds: Feeds) -> Any:
        from onnxruntime import OrtValue

        binding = self._session.io_binding()
        for name, array in feeds.items():
            value = OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), "cuda", 0)
            binding.bind_ortvalue_input(name, value)
        for name in self._names:
            binding.bind_output(name, "cuda")
        binding.synchronize_inputs()
        return binding


def _times_by_host(bind: Callable[[], Any], run: Callable[[Any], object]) -> DeviceTimes:
    """Time copies and runs by the clock of the process, which counts launching and waiting too."""
    times: dict[str, list[float]] = {"h2d": [], "run": [], "d2h": []}
    for _ in range(_TIMED_RUNS):
        started = time.perf_counter()
        binding = bind()
        copied = time.perf_counter()
        run(binding)
        ran = time.perf_counter()
        for value in binding.get_outputs():
            value.numpy()
        for name, seconds in zip(times, (copied - started, ran - copied, time.perf_counter() - ran), strict=True):
            times[name].append(1e3 * seconds)
    found = {name: statistics.median(values) for name, values in times.items()}
    return DeviceTimes(_TIMED_RUNS, None, found["h2d"], found["d2h"], found["run"])


def _run_bound(session: Any, binding: Any, done: Callable[[], object] | None = None) -> None:
    """Run, and wait for the outputs: for all streams of the session's own, or for `done`, which waits for ours."""
    session.run_with_iobinding(binding)
    (done or binding.synchronize_outputs)()
