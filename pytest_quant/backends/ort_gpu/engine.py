"""One session on a GPU, and what a check asks of it."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from pytest_quant.backends.base import Feeds, Outputs
from pytest_quant.backends.misfit import misfit
from pytest_quant.backends.onnx_files import read_signature, size_bytes
from pytest_quant.backends.ort.coverage import count_coverage
from pytest_quant.backends.ort.profile import read_profile
from pytest_quant.backends.ort.refusal import run_refused
from pytest_quant.backends.ort_gpu.session import Providers, open_session
from pytest_quant.errors import BuildError
from pytest_quant.result import Coverage, DeviceTimes
from pytest_quant.spec import EngineSpec

_TIMED_RUNS = 21


class OrtGpuEngine:
    """A session whose inputs and outputs stay on the device while it is timed."""

    simulated = False
    device_bytes: int | None = None

    def __init__(self, spec: EngineSpec, path: Path, providers: Providers, notes: tuple[str, ...] = ()) -> None:
        self.spec = spec
        self.provider = providers[0][0]
        self.signature = read_signature(path)
        self.size_bytes = size_bytes(path)
        self._path, self._providers = path, providers
        self._names = [tensor.name for tensor in self.signature.outputs]
        session, beside = open_session(path, providers)
        self._session: Any = session
        self.notes = (*notes, *beside)

    def run(self, feeds: Feeds) -> Outputs:
        """Run one batch. Raises `DataError` when the inputs do not fit the model."""
        self._check(feeds)
        try:
            return dict(zip(self._names, self._session.run(self._names, feeds), strict=True))
        except Exception as error:
            raise run_refused(error, feeds, self.signature, f"a run of {self.spec.id}") from error

    def prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one run over inputs that are on the device already, synchronized before it returns."""
        self._check(feeds)
        binding = self._bound(feeds)
        return partial(_run_bound, self._session, binding)

    def coverage(self, feeds: Feeds) -> Coverage:
        """Profile one run in a session of its own and count what ran in the asked precision, and where."""
        self._check(feeds)
        with tempfile.TemporaryDirectory(prefix="pytest-quant-") as folder:
            session, _ = open_session(self._path, self._providers, profile=Path(folder))
            session.run(None, feeds)
            return count_coverage(read_profile(Path(session.end_profiling())), self.spec.precision)

    def device_times(self, feeds: Feeds) -> DeviceTimes | None:
        """Time copies apart; ONNX Runtime shows no events of its stream, so compute is timed by the host."""
        self._check(feeds)
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

    def close(self) -> None:
        """Drop the session; a later run says that it is closed."""
        self._session = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, feeds: Feeds) -> None:
        if self._session is None:
            raise BuildError(f"engine {self.spec.id} is closed", fix="run it before close()")
        wrong = misfit(feeds, self.signature)
        if wrong is not None:
            raise wrong

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
