"""Runs on a fake TensorRT: where tensors lie, what it refuses, and what breaks the process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.trt.gpu_engine import GpuEngine
from pytest_quant.errors import BuildError, DataError
from tests.support.fake_tensorrt import ACTIVATION_BYTES, MAX_BATCH, RUN_MS, HostMemory
from tests.support.fake_tensorrt.engine import IExecutionContext
from tests.support.fake_tensorrt.opened import feeds_of, opened


@pytest.mark.parametrize(("on_host", "shape_io"), [(("ids",), ()), ((), ("ids",)), (("next",), ("next",))])
def test_fake_tensors_lie_where_the_engine_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_host: tuple[str, ...], shape_io: tuple[str, ...]
) -> None:
    """Whether one decides shapes is another question: a host tensor with an address of the device ends the process."""
    with opened(tmp_path, monkeypatch, on_host=on_host, shape_io=shape_io) as (engine, _, _):
        for rows in (2, 5, 1):
            feeds = feeds_of(rows, rows)
            found = engine.run(feeds)
            np.testing.assert_allclose(found["y"], 2 * feeds["x"] + feeds["ids"][:, None], rtol=1e-6)
            np.testing.assert_array_equal(found["next"], feeds["ids"] + 1)


def test_fake_inputs_that_do_not_go_together_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorRT raises a number; its log has the reason, and the engine runs on."""
    with opened(tmp_path, monkeypatch) as (engine, _, _):
        with pytest.raises(DataError, match="shapes of the inputs do not go together") as caught:
            engine.run({**feeds_of(2), "ids": np.zeros(3, np.int64)})
        said = str(caught.value)
        # The fake's own frames hold its context, as those of a compiled binding cannot.
        del caught
        assert "'ids': (3,)" in said
        assert "differ in rows" in said
        assert len(engine.run(feeds_of(2))["y"]) == 2


def test_fake_memory_that_runs_out_is_told_and_the_engine_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the size asked for and the free one; a smaller batch fits."""
    device = HostMemory(capacity_bytes=ACTIVATION_BYTES + 150)
    with opened(tmp_path, monkeypatch, device=device) as (engine, _, _):
        with pytest.raises(BuildError, match="out of memory") as caught:
            engine.run(feeds_of(8))
        assert "cudaMalloc" in str(caught.value)
        assert "of 0.0 MB are free" in str(caught.value)
        assert len(engine.run(feeds_of(1))["y"]) == 1


def test_fake_host_that_locks_no_more_memory_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the GPU's memory that is short, and a smaller batch fits."""
    device = HostMemory()
    device.cuda._lockable_bytes = 150
    with opened(tmp_path, monkeypatch, device=device) as (engine, _, _):
        with pytest.raises(BuildError, match="page-locked memory of the host") as caught:
            engine.run(feeds_of(8))
        assert "ulimit -l" in str(caught.value)
        assert len(engine.run(feeds_of(1))["y"]) == 1


def test_fake_error_that_breaks_the_process_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every later call gives the same error, closing does not hide it, and nothing else opens on the device."""
    device = HostMemory()
    with (
        pytest.raises(BuildError, match="no longer use the GPU") as caught,
        opened(tmp_path, monkeypatch, device=device, crashes=True) as (engine, _, _),
    ):
        engine.run(feeds_of(1))
    assert "cudaErrorIllegalAddress" in str(caught.value)
    assert "new process" in str(caught.value)
    (tmp_path / "later").mkdir()
    with (
        pytest.raises(BuildError, match="no longer use the GPU") as again,
        opened(tmp_path / "later", monkeypatch, device=device),
    ):
        pass
    assert "cudaErrorIllegalAddress" in str(again.value)


def test_fake_copies_are_from_and_to_locked_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others go through a buffer of the driver, block the host, and are no copies of the device's own."""
    with opened(tmp_path, monkeypatch) as (engine, device, _):
        engine.run(feeds_of(3))
        engine.device_times(feeds_of(8))
        engine.prepare(feeds_of(1))()
        assert device.cuda._pageable_copies == 0


def test_fake_events_are_as_few_after_many_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made once and recorded again."""
    with opened(tmp_path, monkeypatch) as (engine, device, _):
        counts = []
        for _ in range(3):
            engine.device_times(feeds_of(2))
            timed = engine.prepare_events(feeds_of(2))
            assert timed is not None
            assert [timed() for _ in range(4)] == [RUN_MS] * 4
            counts.append(device.cuda.held()["events"])
        assert counts[0] == counts[-1]
        assert counts[0] <= 8


def test_fake_timed_call_by_events_computes_over_its_own_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the one by the host's clock does, whatever ran in between; copies are not in its time."""
    with opened(tmp_path, monkeypatch) as (engine, _, _):
        mine = feeds_of(4, 1)
        timed = engine.prepare_events(mine)
        assert timed is not None
        engine.run(feeds_of(2, 2))
        assert timed() == RUN_MS
        assert engine._staged is mine


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


def test_fake_run_that_cannot_be_captured_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the option to drop; the stream has left the capture, and the engine runs on."""
    with opened(tmp_path, monkeypatch, written=GRAPH, uncapturable=True) as (engine, device, _):
        with pytest.raises(BuildError, match="cannot be captured") as caught:
            engine.prepare(feeds_of(2))
        assert "not permitted when stream is capturing" in str(caught.value)
        assert "cuda_graph" in str(caught.value)
        assert "captures" not in device.cuda.held()
        assert engine.run(feeds_of(2))["y"].shape[0] == 2
