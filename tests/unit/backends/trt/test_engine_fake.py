"""A plan that runs, on a fake device: where its tensors lie, what it is refused for, what it tells, what ends when."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.cuda import DeviceMemory, OutOfMemoryError
from pytest_quant.backends.readback import LayerTime
from pytest_quant.backends.trt.build import PLAN_FILE
from pytest_quant.backends.trt.engine import GpuEngine
from pytest_quant.errors import BuildError, DataError, QuantError
from tests.support.fake_tensorrt import (
    ACTIVATION_BYTES,
    COLUMNS,
    LAYER_MS,
    MAX_BATCH,
    RUN_MS,
    WEIGHT_BYTES,
    HostMemory,
    inspection,
)
from tests.support.fake_tensorrt.cuda import PRIMARY, FakeCuda
from tests.support.fake_tensorrt.engine import TOO_LARGE
from tests.support.fake_tensorrt.inspection import HIDDEN
from tests.support.fake_tensorrt.opened import PLAN, feeds_of, opened


def is_result(outputs: Feeds, feeds: Feeds) -> bool:
    """Whether these are the outputs for `feeds`."""
    return np.allclose(outputs["y"], 2 * feeds["x"] + feeds["ids"][:, None], rtol=1e-6) and np.array_equal(
        outputs["next"], feeds["ids"] + 1
    )


@pytest.mark.parametrize("on_host", [(), ("ids",), ("next",)])
def test_fake_run_gives_the_outputs_of_every_batch_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_host: tuple[str, ...]
) -> None:
    """Growing and shrinking, INT64 beyond 32 bits, in the model's order; copies are from and to locked memory.

    A host tensor with an address of the device ends the process.
    """
    with opened(tmp_path, monkeypatch, on_host=on_host) as (engine, device, _):
        for seed, rows in enumerate((1, MAX_BATCH, 3)):
            feeds = feeds_of(rows, seed)
            outputs = engine.run(feeds)
            assert list(outputs) == ["y", "next"]
            assert is_result(outputs, feeds)
        assert device.cuda._pageable_copies == 0


def test_fake_timed_call_computes_over_its_own_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Done when it returns, in the time of the kernels alone, whatever ran or was refused in between; by events too.

    Markers of NVTX, a profiler and the inspector's shapes would lengthen or change it.
    """
    with opened(tmp_path, monkeypatch) as (engine, device, module):
        mine, larger = feeds_of(4, 1), feeds_of(MAX_BATCH, 2)
        call, timed = engine.prepare(mine), engine.prepare_events(mine)
        assert timed is not None

        def spoil() -> None:
            engine.run(larger)
            engine.layer_times(feeds_of(2))
            engine.coverage(feeds_of(2))
            with pytest.raises(DataError):
                engine.run({**feeds_of(2, 2), "ids": np.zeros(MAX_BATCH + 1, np.int64)})

        for between in (int, spoil, spoil):
            between()
            call()
            before = device.cuda._busy_ms
            call()
            assert device.cuda._busy_ms - before == RUN_MS
            assert timed() == RUN_MS
            with device.current():
                engine._runner.copy_out()
                engine._runner.wait()
            assert is_result(engine._runner.take(), mine)
        assert engine._runner.context.profiler is None
        assert device.cuda.held()["events"] == 2
        assert module._machine.ended == ["context gone"] * 2


def test_fake_times_are_those_of_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run takes five milliseconds of its clock, without the host's way to it, and a copy none; sizes are its own."""
    with opened(tmp_path, monkeypatch) as (engine, _, _):
        times = engine.device_times(feeds_of(2))
        assert engine.device_bytes == ACTIVATION_BYTES + WEIGHT_BYTES
        assert engine.size_bytes == len(PLAN)
    assert times is not None
    assert (times.gpu_ms, times.h2d_ms, times.d2h_ms, times.pinned) == (RUN_MS, 0.0, 0.0, True)


@pytest.mark.parametrize("major", [10, 11])
@pytest.mark.parametrize(("precision", "pct"), [("int8", 100.0), ("fp32", 0.0)])
def test_fake_inspector_is_given_the_shapes_that_types_of_free_axes_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, major: int, precision: str, pct: float
) -> None:
    """Also where the name of the kernel tells nothing."""
    text = inspection(major, precision, tactic="")
    with opened(tmp_path, monkeypatch, major=major, inspection=text) as (engine, _, _):
        coverage = engine.coverage(feeds_of(2, 2))
        assert (coverage.pct, coverage.opaque_nodes, coverage.notes) == (pct, 0, ())
        bare = engine._plan.engine.create_engine_inspector()
        assert HIDDEN in bare.get_engine_information(engine._trt.LayerInformationFormat.JSON)


def test_fake_layers_have_times_precisions_and_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The median of warm runs: the first one is ten times as slow. A layer that is told twice in a run counts twice."""
    with opened(tmp_path, monkeypatch) as (engine, _, _):
        assert engine.layer_times(feeds_of(2)) == (
            LayerTime("product", "CaskGemmMatrixMultiply", "int8", LAYER_MS["product"], ("product",), "compute"),
            LayerTime("__myl_Repl_myl0_0", "kgen", "", 2 * LAYER_MS["__myl_Repl_myl0_0"], (), "other"),
        )


@pytest.mark.parametrize(
    ("changes", "call", "said"),
    [
        ({"refuses": True}, "run", "did not start the run(.|\\n)*the run was refused"),
        ({"data_dependent": True}, "run", "depends on the values"),
        ({"silent": True}, "layer_times", "reports no times of layers(.|\\n)*cache clear"),
    ],
)
def test_fake_run_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], call: str, said: str
) -> None:
    """TensorRT returns False and says why in its log; an output has no known size; no layer is told."""
    with opened(tmp_path, monkeypatch, **changes) as (engine, _, _), pytest.raises(BuildError, match=said):
        getattr(engine, call)(feeds_of(1))


def test_fake_inputs_that_do_not_fit_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch beyond the profile, with its sizes; inputs that differ in rows, with TensorRT's log; the engine runs on.

    So it does where there was no room for a larger batch.
    """
    device = HostMemory(capacity_bytes=ACTIVATION_BYTES + 150)
    with opened(tmp_path, monkeypatch, device=device) as (engine, _, _):
        for feeds, error, said in (
            (feeds_of(MAX_BATCH + 1), DataError, (f"({MAX_BATCH}, {COLUMNS})", "max_batch")),
            ({**feeds_of(2), "ids": np.zeros(3, np.int64)}, DataError, ("'ids': (3,)", "differ in rows")),
            (feeds_of(MAX_BATCH), OutOfMemoryError, ("cudaMalloc", "of 0.0 MB of the GPU are free")),
        ):
            with pytest.raises(error) as caught:
                engine.run(feeds)
            text = str(caught.value)
            # The fake's own frames hold its context, as those of a compiled binding cannot.
            del caught
            assert all(each in text for each in said)
            assert engine.run(feeds_of(1))["y"].shape == (1, COLUMNS)


@pytest.mark.parametrize(
    ("room", "plan", "said", "unsaid", "ended"),
    [
        (1 << 20, b"", "does not take the plan(.|\\n)*Version tag(.|\\n)*cache clear", "smi", ["runtime gone"]),
        # A plan that is built anew needs as much room.
        *((1 << 20, plan, "no memory for this engine(.|\\n)*smi", "cache", ["runtime gone"]) for plan in TOO_LARGE),
        (999, PLAN, "no memory for an execution context", "cache", ["engine gone", "runtime gone"]),
    ],
)
def test_fake_engine_that_does_not_open_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, plan: bytes, said: str, unsaid: str, ended: list[str]
) -> None:
    """A plan of another version, no room for weights or activations: TensorRT's objects end in their CUDA context."""
    device = HostMemory(capacity_bytes=room)
    with (
        pytest.raises(BuildError, match=said) as caught,
        opened(tmp_path, monkeypatch, device=device, written={"plan": plan}),
    ):
        pass
    assert unsaid not in str(caught.value)
    assert sys.modules["tensorrt"]._machine.ended == ended
    assert device.cuda.held() == {}


def test_a_context_of_the_users_own_is_current_again_after_each_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``pycuda.autoinit`` makes one, before ours is opened or after; an error too leaves it as it was."""
    device = HostMemory()
    device.cuda.context = users = 77
    with opened(tmp_path, monkeypatch, device=device) as (engine, _, _):
        feeds = feeds_of(2)
        calls: list[Any] = [engine.run, engine.coverage, engine.layer_times, engine.device_times]
        for call in (*calls, engine.prepare(feeds), engine.prepare_events(feeds)):
            call(feeds) if call in calls else call()
            assert device.cuda.context == users
        with pytest.raises(DataError):
            engine.run(feeds_of(MAX_BATCH + 1))
        assert device.cuda.context == users
    assert device.cuda.context == users


def test_a_device_that_is_opened_leaves_the_users_context_current() -> None:
    """The first thing that is done with CUDA is to choose the device; without any context the primary one stays."""
    cuda = FakeCuda()
    cuda.context = 77
    memory = DeviceMemory(cuda, cuda, 0)
    assert cuda.context == 77
    cuda.break_context()
    cuda._contexts += 1
    with pytest.raises(BuildError, match="no longer use the GPU"), memory.current():
        pass
    assert cuda.context == 77
    fresh = FakeCuda()
    DeviceMemory(fresh, fresh, 0)
    assert fresh.context == PRIMARY


def test_fake_objects_end_in_order_and_nothing_stays_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Context before engine before runtime: the other way crashes the process."""
    with opened(tmp_path, monkeypatch) as (engine, device, module):
        engine.prepare(feeds_of(3))
        engine.close()
    assert module._machine.ended == ["context gone", "engine gone", "runtime gone"]
    assert (device.cuda.held(), device.depth) == ({}, 0)


def test_fake_error_that_breaks_the_process_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing does not hide it, and nothing else opens on the device."""
    device = HostMemory()
    for folder in (tmp_path / "first", tmp_path / "later"):
        folder.mkdir()
        with (
            pytest.raises(BuildError, match="no longer use the GPU") as caught,
            opened(folder, monkeypatch, device=device, crashes=True) as (engine, _, _),
        ):
            engine.run(feeds_of(1))
        assert "cudaErrorIllegalAddress" in str(caught.value)
        assert "new process" in str(caught.value)


def test_fake_plugin_logs_after_the_plan_that_registered_last_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorRT keeps a bare pointer to that plan's logger, for the plugins of every plan that is still open."""
    with opened(tmp_path, monkeypatch, plugin=True) as (engine, device, _):
        again = GpuEngine(engine.spec, tmp_path, device)
        again.close()
        del again
        gc.collect()
        assert engine.run(feeds_of(2))["y"].shape == (2, COLUMNS)


def test_fake_plans_are_told_apart_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that are open each shows what TensorRT said of it, whichever was opened or ran last."""
    with opened(tmp_path, monkeypatch, written={"plan": b'{"refuses": true}'}) as (first, device, _):
        (tmp_path / PLAN_FILE).write_bytes(PLAN)
        with GpuEngine(first.spec, tmp_path, device) as second:
            for engine, rows, said in ((first, 2, "refused"), (second, 3, "differ in rows"), (first, 2, "refused")):
                with pytest.raises(QuantError, match=said):
                    engine.run({**feeds_of(2), "ids": feeds_of(rows)["ids"]})
            assert "refused" not in "".join(second._plan.lines)
            assert "differ in rows" not in "".join(first._plan.lines)
