"""Runs of ONNX Runtime between events, over a fake of CUDA; layers are profiled in a process that waits."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends import Feeds
from pytest_quant.backends.cuda import device, make_clock
from pytest_quant.backends.ort import CPU, gpu_engine
from pytest_quant.backends.ort.gpu_engine import OrtGpuEngine, device_clock, set_stream, time_layers_on_gpu
from pytest_quant.backends.ort.libraries import CUDA, TENSORRT
from pytest_quant.backends.ort.session import ON_CPU, Provider
from pytest_quant.errors import BuildError
from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import dense
from tests.support.fake_tensorrt import HostMemory
from tests.support.models import select_first
from tests.support.third_party import forget_modules

COMPUTE_MS = 2.5
COPY_MS = 0.25
ENQUEUE_MS = 0.125


class TickingMemory(HostMemory):
    """Every copy takes the device the same time."""

    def copy_in(self, address: int, array: Any, stream: int) -> None:
        """Copy, and let time pass."""
        super().copy_in(address, array, stream)
        self.cuda.enqueue(stream, lambda: self.cuda.tick(COPY_MS))

    def copy_out(self, array: Any, address: int, stream: int) -> None:
        """Copy, and let time pass."""
        super().copy_out(array, address, stream)
        self.cuda.enqueue(stream, lambda: self.cuda.tick(COPY_MS))


class FakeValue:
    """An output on the device."""

    def __init__(self, memory: HostMemory) -> None:
        with memory.current():
            self.address = memory.allocate(40)

    def data_ptr(self) -> int:
        """Its address."""
        return self.address

    def tensor_size_in_bytes(self) -> int:
        """Its size."""
        return 40


class FakeBinding:
    """Remembers who waited."""

    def __init__(self, memory: HostMemory) -> None:
        self.waited = 0
        self._value = FakeValue(memory)

    def get_outputs(self) -> list[FakeValue]:
        """The one output."""
        return [self._value]

    def synchronize_outputs(self) -> None:
        """Wait for the session's own streams."""
        self.waited += 1


class FakeSession:
    """Puts its compute into the stream that it was given, and waits for it unless the options of the run say not."""

    def __init__(self, memory: HostMemory, options: Mapping[str, str]) -> None:
        self.memory, self.options = memory, options
        self.ran: list[str] = []

    def run_with_iobinding(self, _binding: FakeBinding, options: Any = None) -> None:
        """Start a run."""
        waits = options is None or options.get_run_config_entry("disable_synchronize_execution_providers") != "1"
        self.ran.append("waited for" if waits else "started")
        # The provider makes the primary context current, and leaves it so.
        self.memory.cuda.cudaSetDevice(0)
        if "user_compute_stream" in self.options:
            stream = int(self.options["user_compute_stream"])
            self.memory.cuda.spend(ENQUEUE_MS)
            self.memory.cuda.enqueue(stream, lambda: self.memory.cuda.tick(COMPUTE_MS))
            if waits:
                self.memory.wait(stream)

    def run(self, names: Sequence[str], *_: object) -> list[str]:
        """Run to the end."""
        self.memory.cuda.cudaSetDevice(0)
        return list(names)


@pytest.fixture
def memory() -> TickingMemory:
    """A fake device."""
    return TickingMemory()


@pytest.fixture(params=[CUDA, TENSORRT])
def engine(
    memory: TickingMemory, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> OrtGpuEngine:
    """An engine whose session is a fake, on a stream of ours."""
    clock = make_clock(memory)
    monkeypatch.setattr(gpu_engine, "device_clock", lambda: (clock, ""))
    return _opened(request.param, memory, monkeypatch, tmp_path)


def _opened(name: str, memory: HostMemory, monkeypatch: pytest.MonkeyPatch, folder: Path) -> OrtGpuEngine:
    def open_session(_: Path, providers: Any, **__: Any) -> tuple[FakeSession, tuple[str, ...]]:
        return FakeSession(memory, providers[0].options), ()

    monkeypatch.setattr("pytest_quant.backends.ort.engine.open_session", open_session)
    monkeypatch.setattr(OrtGpuEngine, "_bound", lambda *_: FakeBinding(memory))
    model = dense().write(folder)
    assert model.path is not None
    providers = [Provider(name, {"device_id": "0"})]
    return OrtGpuEngine(EngineSpec("ort-cuda", "fp32", None, model), model.path, providers)


def test_compute_lies_between_two_events(engine: OrtGpuEngine, memory: TickingMemory) -> None:
    """Of a run behind another one, neither of which waits within, so that no way of the host's is in them.

    After a run that is timed by the host nothing is left to do.
    """
    call = engine.prepare_events(dense().feeds(4, 1))
    assert call is not None
    assert [call(), call()] == [COMPUTE_MS, COMPUTE_MS]
    assert engine._session.ran == ["started"] * 4
    engine.prepare(dense().feeds(4, 1))()
    assert memory.cuda._busy_ms == 5 * COMPUTE_MS
    assert not any(memory.cuda._queues.values())


def test_a_context_of_the_users_own_is_current_again_after_each_call(
    memory: TickingMemory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Streams and kernels of pycuda belong to a context, and are lost in another one."""
    clock = make_clock(memory)
    monkeypatch.setattr(gpu_engine, "device_clock", lambda: (clock, ""))
    memory.cuda.context = users = 77
    engine = _opened(CUDA, memory, monkeypatch, tmp_path)
    feeds = dense().feeds(4, 1)
    calls: list[Any] = [lambda: engine.run(feeds), engine.prepare(feeds), engine.prepare_events(feeds)]
    for call in (*calls, lambda: engine.device_times(feeds), engine.close):
        call()
        assert memory.cuda.context == users


def test_copies_are_timed_apart_with_locked_memory(engine: OrtGpuEngine, memory: TickingMemory) -> None:
    """Each of both by events, none over memory that CUDA would copy twice, and all of it given back."""
    times = engine.device_times(dense().feeds(4, 1))
    assert times is not None
    assert (times.h2d_ms, times.gpu_ms, times.d2h_ms) == (COPY_MS, COMPUTE_MS, COPY_MS)
    assert times.host_ms > 0
    assert memory.cuda._pageable_copies == 0
    assert memory.cuda.held() == {"blocks": 1, "streams": 1, "events": 2}


def test_without_a_library_for_streams_time_is_the_hosts(
    memory: TickingMemory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is never called the device's."""
    monkeypatch.setattr(gpu_engine, "device_clock", lambda: (None, "no library is here"))
    engine = _opened(CUDA, memory, monkeypatch, tmp_path)
    feeds = dense().feeds(4, 1)
    assert engine.prepare_events(feeds) is None
    assert engine.device_times(feeds) is None


def test_sessions_that_are_opened_apart_have_streams_of_their_own(engine: OrtGpuEngine) -> None:
    """A stream is one of this process."""
    assert "user_compute_stream" in engine._session.options
    assert [dict(provider.options) for provider in engine._providers] == [{"device_id": "0"}]


def test_only_gpus_take_the_stream(memory: TickingMemory) -> None:
    """The CPU's provider knows no such option."""
    clock = make_clock(memory)
    providers = set_stream(clock, [Provider(TENSORRT, {"a": "1"}), Provider(CUDA), Provider(CPU)])
    ours = {"has_user_compute_stream": "1", "user_compute_stream": str(clock.stream)}
    assert [dict(each.options) for each in providers] == [{"a": "1", **ours}, ours, {}]


OLD_DRIVER = """
from enum import IntEnum
class cudaError_t(IntEnum):
    cudaSuccess = 0
    cudaErrorMemoryAllocation = 2
    cudaErrorInsufficientDriver = 35
SAID = b"CUDA driver version is insufficient for CUDA runtime version"
def cudaSetDevice(device): return (cudaError_t.cudaErrorInsufficientDriver,)
def cudaGetErrorString(error): return (cudaError_t.cudaSuccess, SAID)
def cudaGetLastError(): return (cudaError_t.cudaErrorInsufficientDriver,)
"""


@pytest.fixture
def no_clock_yet() -> Iterator[None]:
    """The clock and the device's memory are kept for a process; this test asks for itself."""
    device_clock.cache_clear()
    yield
    device_clock.cache_clear()
    forget_modules("cuda")


@pytest.mark.usefixtures("no_clock_yet")
@pytest.mark.parametrize("installed", [False, True])
def test_fake_cuda_that_cannot_be_used_leaves_the_hosts_clock_and_a_note(
    memory: TickingMemory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, installed: bool
) -> None:
    """ONNX Runtime does without it: neither a library that is missing nor one for a newer driver ends a check."""
    if installed:
        file = tmp_path / "cuda" / "bindings" / "runtime.py"
        file.parent.mkdir(parents=True)
        file.write_text(OLD_DRIVER)
        file.with_name("driver.py").write_text("def cuCtxGetCurrent(): return 3, None\n")
        monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cuda", raising=False)
    monkeypatch.setattr(device, "memory_libraries", lambda: ("cuda-bindings",) if installed else ())
    notes = _opened(CUDA, memory, monkeypatch, tmp_path).notes
    (note,) = [note for note in notes if note.startswith("timed by the host's clock: ")]
    if not installed:
        assert "pip install cuda-bindings" in note
        return
    assert "cudaErrorInsufficientDriver" in note
    assert "cuda-bindings<13" in note
    assert "sees a GPU" not in note


def report_process(engine: Path, _model: Path, providers: Sequence[Provider], _feeds: Feeds) -> tuple[object, ...]:
    """Stand in for `time_here`, and tell what the process that runs it was given."""
    return os.getpid(), os.environ.get("CUDA_LAUNCH_BLOCKING"), engine, providers


def test_on_a_gpu_each_kernel_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a process of its own, whose driver is not in use yet."""
    monkeypatch.setattr(gpu_engine, "time_here", report_process)
    provider = Provider("CUDAExecutionProvider", {"device_id": "1"})
    result: tuple[object, ...] = time_layers_on_gpu(tmp_path, tmp_path, [provider], {})
    pid, waits, engine, providers = result
    assert pid != os.getpid()
    assert (waits, os.environ.get("CUDA_LAUNCH_BLOCKING")) == ("1", None)
    assert (engine, providers) == (tmp_path, [provider])


def test_that_process_hands_back_layers_and_errors(tmp_path: Path) -> None:
    """On the CPU provider, which every wheel has."""
    model = select_first(tmp_path / "model.onnx")
    feeds = {"x": np.zeros((2, 8), np.float32)}
    (layer,) = time_layers_on_gpu(model, model, ON_CPU, feeds)
    assert (layer.name, layer.nodes, layer.role) == ("scores", ("scores",), "compute")
    with pytest.raises(BuildError, match=r"refused the model absent\.onnx") as raised:
        time_layers_on_gpu(tmp_path / "absent.onnx", model, ON_CPU, feeds)
    assert raised.value.fix
