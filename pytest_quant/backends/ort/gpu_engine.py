"""An engine on a GPU provider of ONNX Runtime."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.layers import LayerTime
from pytest_quant.backends.ort.engine import OrtEngine
from pytest_quant.backends.ort.layers import time_layers_on_gpu
from pytest_quant.result import DeviceTimes

_TIMED_RUNS = 21


class OrtGpuEngine(OrtEngine):
    """A session whose inputs and outputs stay on the device while it is timed."""

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one run over inputs that are on the device already, synchronized before it returns."""
        return partial(_run_bound, self._session, self._bound(feeds))

    def _device_times(self, feeds: Feeds) -> DeviceTimes | None:
        """Time copies apart; ONNX Runtime shows no events of its stream, so compute is timed by the host."""
        times: dict[str, list[float]] = {"h2d": [], "run": [], "d2h": []}
        for _ in range(_TIMED_RUNS):
            started = time.perf_counter()
            binding = self._bound(feeds)
            copied = time.perf_counter()
            _run_bound(self._session, binding)
            ran = time.perf_counter()
            for value in binding.get_outputs():
                value.numpy()
            for name, seconds in zip(times, (copied - started, ran - copied, time.perf_counter() - ran), strict=True):
                times[name].append(1e3 * seconds)
        found = {name: statistics.median(values) for name, values in times.items()}
        return DeviceTimes(_TIMED_RUNS, found["run"], found["h2d"], found["d2h"], found["run"])

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


def _run_bound(session: Any, binding: Any) -> None:
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
