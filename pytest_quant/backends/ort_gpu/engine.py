"""An engine on a GPU provider of ONNX Runtime, with the proof that its compute is there."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.backends.base import EngineBase, Feeds, Outputs
from pytest_quant.backends.onnx_files import read_signature, size_bytes
from pytest_quant.backends.ort.coverage import count_coverage
from pytest_quant.backends.ort.macs import FLOAT_OPS, INT8_OPS, NARROW_OPS, read_profile
from pytest_quant.backends.ort.session import refused
from pytest_quant.errors import BuildError
from pytest_quant.result import Coverage, DeviceTimes
from pytest_quant.spec import EngineSpec

_COMPUTE = FLOAT_OPS | INT8_OPS | NARROW_OPS
_FATAL = 4
_CPU = "CPUExecutionProvider"
_INNER = (
    "TensorRT takes only a part of this graph, and tensors between the parts have free axes: use backend='trt', which "
    "takes it whole or says what it cannot, or export the model with fixed axes"
)
Providers = Sequence[tuple[str, dict[str, str]]]


def open_session(path: Path, providers: Providers, profile: Path | None = None) -> tuple[Any, tuple[str, ...]]:
    """Open the model in `path` and return the session with what runs on the CPU beside it, in words.

    Raises
    ------
    BuildError : ONNX Runtime refuses the model, falls back, or puts a product on another provider.
    """
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = _FATAL
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if profile is not None:
        settings.enable_profiling = True
        settings.profile_file_prefix = str(profile / "run")
    try:
        session = onnxruntime.InferenceSession(str(path), settings, providers=list(providers), enable_fallback=0)
    except Exception as error:
        fix = _INNER if "no associated shape profiles" in str(error) else None
        raise refused(f"the model {path.name}", error, fix) from error
    asked = [name for name, _ in providers]
    if session.get_providers()[0] != asked[0]:
        raise BuildError(
            f"{path.name} does not run where it was asked to",
            value=f"asked for {asked[0]}, got {', '.join(session.get_providers())}",
            fix="pytest-quant doctor tells which library does not load",
        )
    return session, prove_placement(session.get_provider_graph_assignment_info(), asked, path.name)


def prove_placement(parts: Sequence[Any], asked: Sequence[str], name: str) -> tuple[str, ...]:
    """Refuse a product outside the providers `asked`; say how many harmless nodes run elsewhere.

    Raises
    ------
    BuildError : names the nodes.
    """
    strays = [(part.ep_name, node) for part in parts if part.ep_name not in asked for node in part.get_nodes()]
    products = [f"{node.name} ({node.op_type}) on {where}" for where, node in strays if node.op_type in _COMPUTE]
    if products:
        raise BuildError(
            f"a part of {name} does not run where it was asked to",
            value="; ".join(products[:6]) + (f" and {len(products) - 6} more" if len(products) > 6 else ""),
            allowed=", ".join(asked),
            fix="leave these nodes out of the quantization with exclude=[...], or use a provider that has them",
        )
    if not strays:
        return ()
    kinds = sorted({node.op_type for _, node in strays})
    return (f"{len(strays)} nodes without products run on {_CPU}: {', '.join(kinds[:6])}",)


_TIMED_RUNS = 21


class OrtGpuEngine(EngineBase):
    """A session whose inputs and outputs stay on the device while it is timed."""

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

    def _run(self, feeds: Feeds) -> Outputs:
        try:
            return dict(zip(self._names, self._session.run(self._names, feeds), strict=True))
        except Exception as error:
            raise refused(f"a run of {self.spec.id}", error) from error

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one run over inputs that are on the device already, synchronized before it returns."""
        binding = self._bound(feeds)
        return partial(_run_bound, self._session, binding)

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Profile one run in a session of its own and count what ran in the asked precision, and where."""
        with tempfile.TemporaryDirectory(prefix="pytest-quant-") as folder:
            session, _ = open_session(self._path, self._providers, profile=Path(folder))
            session.run(None, feeds)
            return count_coverage(read_profile(Path(session.end_profiling())), self.spec.precision)

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

    def _close(self) -> None:
        self._session = None

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
