"""Runs of PyTorch between events, on a fake of CUDA's streams: no GPU computes here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_quant.backends.torch.cuda import TorchCudaEngine
from pytest_quant.backends.torch.engine import TorchEngine
from pytest_quant.backends.torch.program import write_engine
from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import dense, module_model
from tests.support.fake_tensorrt import HostMemory

COMPUTE_MS, ENQUEUE_MS = 2.5, 0.125


class Device:
    """The current stream of a fake device; making one of its events is ``torch.cuda.Event``."""

    def __init__(self) -> None:
        self.memory = HostMemory()
        with self.memory.current():
            self.stream = self.memory.new_stream()

    def run(self) -> None:
        """What a program does: the host's way to its kernels, then they."""
        cuda = self.memory.cuda
        cuda.spend(ENQUEUE_MS)
        with self.memory.current():
            cuda.enqueue(self.stream, lambda: cuda.tick(COMPUTE_MS))

    def synchronize(self) -> None:
        """Wait for it."""
        with self.memory.current():
            self.memory.wait(self.stream)

    def event(self, *, enable_timing: bool) -> Event:
        """Return an event of the stream."""
        assert enable_timing
        with self.memory.current():
            return Event(self, self.memory.new_event())


class Event:
    """One event."""

    def __init__(self, device: Device, handle: Any) -> None:
        self.device, self.handle = device, handle

    def record(self) -> None:
        """Note the time at which the stream gets here."""
        with self.device.memory.current():
            self.device.memory.record(self.handle, self.device.stream)

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds until `other`."""
        with self.device.memory.current():
            return self.device.memory.between_ms(self.handle, other.handle)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TorchCudaEngine]:
    """An engine whose tensors stay on the CPU, and whose program also takes time of the fake device."""
    device = Device()
    monkeypatch.setattr(torch.cuda, "Event", device.event)
    monkeypatch.setattr(torch.cuda, "synchronize", device.synchronize)
    monkeypatch.setattr(TorchCudaEngine, "_tensors", TorchEngine._tensors)
    monkeypatch.setattr(TorchCudaEngine, "_load", TorchEngine._load)
    own = TorchEngine._program

    def slowed(self: TorchEngine, shapes: Any, tensors: Any) -> Any:
        program = own(self, shapes, tensors)

        def run(*inputs: Any) -> Any:
            device.run()
            return program(*inputs)

        return run

    monkeypatch.setattr(TorchCudaEngine, "_program", slowed)
    spec = EngineSpec("torch-cuda", "fp32", None, module_model(dense()), options=(("compiled", False),))
    write_engine(spec, None, tmp_path)
    with TorchCudaEngine(spec, tmp_path) as opened:
        yield opened


def test_fake_events_hold_kernels_and_not_the_way_to_them(engine: TorchCudaEngine) -> None:
    """In an idle stream an event is reached when it is recorded, and the kernel comes after the host's way to it."""
    call = engine.prepare_events(dense().feeds(4, 1))
    assert call is not None
    assert [call(), call()] == [COMPUTE_MS, COMPUTE_MS]
    times = engine.device_times(dense().feeds(4, 1))
    assert times is not None
    assert times.gpu_ms == COMPUTE_MS
    assert times.enqueue_ms is not None
    assert 0 < times.enqueue_ms <= times.host_ms
