"""Timed runs as a CUDA graph, on a fake device that replays what was captured, at the addresses of then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.trt.gpu.engine import GpuEngine
from pytest_quant.errors import BuildError
from tests.support.fake_tensorrt import MAX_BATCH, RUN_MS
from tests.support.fake_tensorrt.engine import IExecutionContext
from tests.support.fake_tensorrt.opened import feeds_of, opened

GRAPH = {"cuda_graph": True}


def computed(engine: GpuEngine, feeds: Feeds) -> bool:
    """Whether what lies on the device is the result for `feeds`."""
    runner, device = engine._runner, engine._device
    with device.current():
        runner.copy_out()
        runner.wait()
    return bool(np.allclose(runner.take()["y"], 2 * feeds["x"] + feeds["ids"][:, None], rtol=1e-6))


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The streams that TensorRT itself was asked to run in, one for each time."""
    streams: list[int] = []
    real = IExecutionContext.execute_async_v3

    def execute_async_v3(self: IExecutionContext, stream_handle: int) -> bool:
        streams.append(stream_handle)
        return real(self, stream_handle)

    monkeypatch.setattr(IExecutionContext, "execute_async_v3", execute_async_v3)
    return streams


def test_fake_timed_runs_replay_one_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enqueued: list[int]) -> None:
    """TensorRT is asked twice, to warm up and to capture, both before the first timed run; the note says so."""
    with opened(tmp_path, monkeypatch, written=GRAPH) as (engine, device, _):
        feeds = feeds_of(3)
        call = engine.prepare(feeds)
        assert len(enqueued) == 2
        before = device.cuda._busy_ms
        for _ in range(5):
            call()
        assert device.cuda._busy_ms - before == 5 * RUN_MS
        assert len(enqueued) == 2
        assert computed(engine, feeds)
        assert device.cuda.held()["executables"] == 1
        assert "graphs" not in device.cuda.held()
        assert any("CUDA graph" in note for note in engine.notes)


def test_fake_runs_are_no_graph_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enqueued: list[int]
) -> None:
    """Nor are those that are not timed."""
    with opened(tmp_path, monkeypatch) as (engine, device, _):
        engine.prepare(feeds_of(3))()
        assert not any("CUDA graph" in note for note in engine.notes)
        assert "executables" not in device.cuda.held()
    enqueued.clear()
    with opened(tmp_path, monkeypatch, written=GRAPH) as (engine, device, _):
        engine.run(feeds_of(3))
        assert len(enqueued) == 1
        assert "executables" not in device.cuda.held()


def test_fake_graph_of_other_shapes_or_addresses_is_captured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A larger batch moves the buffers: the old graph would write to memory that was given back."""
    with opened(tmp_path, monkeypatch, written=GRAPH) as (engine, device, _):
        small, large = feeds_of(2, 1), feeds_of(MAX_BATCH, 2)
        first, second = engine.prepare(small), engine.prepare(large)
        for feeds, call in ((small, first), (large, second), (small, first)):
            call()
            assert computed(engine, feeds)
            engine.run(feeds_of(MAX_BATCH, 3))
        assert device.cuda.held()["executables"] == 1


def test_fake_graph_of_other_values_on_the_host_is_captured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorRT reads them when a run is started, so that a graph holds those of its capture."""
    with opened(tmp_path, monkeypatch, written=GRAPH, on_host=("ids",)) as (engine, _, _):
        for seed in range(3):
            feeds = feeds_of(2, seed)
            engine.prepare(feeds)()
            assert computed(engine, feeds)


def test_fake_graph_is_timed_by_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enqueued: list[int]) -> None:
    """They are recorded around its launch, not in it."""
    with opened(tmp_path, monkeypatch, written=GRAPH) as (engine, _, _):
        timed = engine.prepare_events(feeds_of(2))
        assert timed is not None
        enqueued.clear()
        assert [timed() for _ in range(3)] == [RUN_MS] * 3
        assert enqueued == []


def test_fake_times_of_the_device_are_those_of_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enqueued: list[int]
) -> None:
    """They stand beside the latency, and take apart the run that it is of."""
    with opened(tmp_path, monkeypatch, written=GRAPH) as (engine, _, _):
        found = engine.device_times(feeds_of(2))
        assert found is not None
        assert found.gpu_ms == RUN_MS
        assert len(enqueued) == 2


def test_fake_run_that_cannot_be_captured_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the option to drop; the stream has left the capture, and the engine runs on."""
    with opened(tmp_path, monkeypatch, written=GRAPH, uncapturable=True) as (engine, device, _):
        with pytest.raises(BuildError, match="cannot be captured") as caught:
            engine.prepare(feeds_of(2))
        assert "not permitted when stream is capturing" in str(caught.value)
        assert "cuda_graph" in str(caught.value)
        assert "captures" not in device.cuda.held()
        assert engine.run(feeds_of(2))["y"].shape[0] == 2
