"""A plan that runs, on a fake device: what it needs, what it is refused for, what it tells, and what ends when."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends.cuda import OutOfMemoryError
from pytest_quant.backends.readback import LayerTime
from pytest_quant.backends.trt.builder import PLAN_FILE
from pytest_quant.backends.trt.gpu_engine import GpuEngine
from pytest_quant.errors import BuildError, DataError, QuantError
from tests.support.fake_tensorrt import (
    ACTIVATION_BYTES,
    COLUMNS,
    LAYER_MS,
    MAX_BATCH,
    NVTX_MS,
    RUN_MS,
    WEIGHT_BYTES,
    DataType,
    HostMemory,
    inspection,
    make,
)
from tests.support.fake_tensorrt.engine import TOO_LARGE
from tests.support.fake_tensorrt.inspection import HIDDEN
from tests.support.fake_tensorrt.opened import PLAN, feeds_of, opened, write_engine


def test_fake_run_gives_the_outputs_of_every_batch_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Growing and shrinking batches, INT64 beyond 32 bits, and the outputs in the model's order."""
    with opened(tmp_path, monkeypatch) as (engine, _, _):
        for seed, rows in enumerate((1, MAX_BATCH, 3)):
            feeds = feeds_of(rows, seed)
            found = engine.run(feeds)
            assert list(found) == ["y", "next"]
            np.testing.assert_allclose(found["y"], 2 * feeds["x"] + feeds["ids"][:, None], rtol=1e-6)
            np.testing.assert_array_equal(found["next"], feeds["ids"] + 1)
            assert found["next"].dtype == np.int64


@pytest.mark.parametrize(("options", "library"), [({}, ""), ({"memory": "pycuda"}, "pycuda")])
def test_fake_engine_opens_the_library_that_the_mark_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], library: str
) -> None:
    """Else the preferred one that is here."""
    device = HostMemory()
    asked: list[dict[str, object]] = []

    def open_device(**named: object) -> HostMemory:
        asked.append(named)
        return device

    monkeypatch.setattr("pytest_quant.backends.trt.gpu_engine.open_device", open_device)
    monkeypatch.setitem(sys.modules, "tensorrt", make(device))
    with GpuEngine(write_engine(tmp_path, **options), tmp_path):
        assert asked == [{"library": library}]


def test_fake_timed_call_waits_and_computes_over_its_own_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run is done when it returns; a run over other inputs in between does not change what is timed."""
    with opened(tmp_path, monkeypatch) as (engine, device, _):
        mine = feeds_of(4, 1)
        call = engine.prepare(mine)
        before = device.cuda._busy_ms
        call()
        assert device.cuda._busy_ms - before == RUN_MS
        engine.run(feeds_of(2, 2))
        call()
        np.testing.assert_array_equal(engine._runner._host["x"], mine["x"])


def test_fake_timed_call_after_inputs_that_did_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be refused when some of them are staged already: what is timed is staged anew."""
    with opened(tmp_path, monkeypatch) as (engine, device, _):
        mine = feeds_of(4, 1)
        call = engine.prepare(mine)
        with pytest.raises(DataError):
            engine.run({**feeds_of(2, 2), "ids": np.zeros(MAX_BATCH + 1, np.int64)})
        call()
        with device.current():
            engine._runner.copy_out()
            engine._runner.wait()
        np.testing.assert_allclose(engine._runner.take()["y"], 2 * mine["x"] + mine["ids"][:, None], rtol=1e-6)


def test_fake_batch_beyond_the_profile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the sizes that the plan was built for, and the engine stays usable."""
    with opened(tmp_path, monkeypatch) as (engine, _, _):
        with pytest.raises(DataError, match=r"'x' does not fit the engine") as caught:
            engine.run(feeds_of(MAX_BATCH + 1))
        assert f"({MAX_BATCH}, {COLUMNS})" in str(caught.value)
        assert "max_batch" in str(caught.value)
        assert engine.run(feeds_of(1))["y"].shape == (1, COLUMNS)


def test_fake_objects_end_in_order_and_nothing_stays_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Context before engine before runtime: the other way crashes the process."""
    with opened(tmp_path, monkeypatch) as (engine, device, module):
        engine.prepare(feeds_of(3))
        engine.close()
        engine.close()
        with pytest.raises(BuildError, match="closed"):
            engine.run(feeds_of(1))
    ended = module._machine.ended
    assert ended[-2:] == ["engine gone", "runtime gone"]
    assert ended[:-2] == ["context gone"]
    assert (device.cuda.held(), device.depth) == ({}, 0)


@pytest.mark.parametrize("old", [True, False])
def test_fake_device_memory_is_activations_and_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: bool
) -> None:
    """By the engine's own account, whose first half had another name."""
    with opened(tmp_path, monkeypatch, old=old) as (engine, _, _):
        assert engine.device_bytes == ACTIVATION_BYTES + WEIGHT_BYTES
        assert engine.size_bytes == len(PLAN)


def test_fake_times_are_those_of_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run takes five milliseconds of its clock and a copy none."""
    with opened(tmp_path, monkeypatch) as (engine, _, _):
        found = engine.device_times(feeds_of(2))
    assert found is not None
    assert (found.gpu_ms, found.h2d_ms, found.d2h_ms, found.pinned) == (RUN_MS, 0.0, 0.0, True)
    assert found.runs >= 10


@pytest.mark.parametrize("major", [10, 11])
@pytest.mark.parametrize(("precision", "pct"), [("int8", 100.0), ("fp32", 0.0)])
def test_fake_inspector_is_given_the_shapes_that_types_of_free_axes_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, major: int, precision: str, pct: float
) -> None:
    """Also where the name of the kernel tells nothing; the run that is timed stages its own inputs again."""
    text = inspection(major, precision, tactic="")
    with opened(tmp_path, monkeypatch, major=major, inspection=text) as (engine, _, _):
        mine = feeds_of(4, 1)
        call = engine.prepare(mine)
        found = engine.coverage(feeds_of(2, 2))
        assert (found.pct, found.opaque_nodes, found.notes) == (pct, 0, ())
        bare = engine._plan.engine.create_engine_inspector()
        assert HIDDEN in bare.get_engine_information(engine._trt.LayerInformationFormat.JSON)
        call()
        np.testing.assert_array_equal(engine._runner._host["x"], mine["x"])


@pytest.mark.parametrize("major", [10, 11])
def test_fake_layers_have_times_precisions_and_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, major: int
) -> None:
    """The median of warm runs: the first one is ten times as slow. A layer that is told twice in a run counts twice."""
    with opened(tmp_path, monkeypatch, major=major) as (engine, _, _):
        assert engine.layer_times(feeds_of(2)) == (
            LayerTime("product", "CaskGemmMatrixMultiply", "int8", LAYER_MS["product"], ("product",), "compute"),
            LayerTime("__myl_Repl_myl0_0", "kgen", "", 2 * LAYER_MS["__myl_Repl_myl0_0"], (), "other"),
        )


def test_fake_timed_runs_have_no_profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after: a profiler makes every run wait for its layers. The engine goes on with its own inputs."""
    with opened(tmp_path, monkeypatch) as (engine, device, module):
        mine = feeds_of(3)
        call = engine.prepare(mine)
        call()
        engine.layer_times(feeds_of(2))
        assert engine._runner.context.profiler is None
        assert module._machine.ended == ["context gone"]
        before = device.cuda._busy_ms
        call()
        assert device.cuda._busy_ms - before == RUN_MS
        np.testing.assert_array_equal(engine._runner._host["x"], mine["x"])


def test_fake_plan_without_verbosity_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No layer is told, and an empty profile would look like a fast engine; nothing stays on the device."""
    with (
        opened(tmp_path, monkeypatch, silent=True) as (engine, _, _),
        pytest.raises(BuildError, match="tells no times of layers") as caught,
    ):
        engine.layer_times(feeds_of(1))
    assert "cache clear" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"refuses": True}, "did not start the run(.|\\n)*the run was refused"),
        ({"data_dependent": True}, "depends on the values"),
    ],
)
def test_fake_run_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], said: str
) -> None:
    """TensorRT returns False and says why in its log only; an output of unknown size has no buffer beforehand."""
    with opened(tmp_path, monkeypatch, **changes) as (engine, _, _):
        for call in (engine.run, engine.layer_times):
            with pytest.raises(BuildError, match=said):
                call(feeds_of(1))


@pytest.mark.parametrize(
    ("changes", "plan", "said", "ended"),
    [
        ({"y_type": DataType.BF16}, PLAN, "'y' of the engine is BF16", ["engine gone", "runtime gone"]),
        ({}, b"", "does not take the plan(.|\\n)*Version tag does not match", ["runtime gone"]),
        ({"room": ACTIVATION_BYTES - 1}, PLAN, "no memory for an execution context", ["engine gone", "runtime gone"]),
    ],
)
def test_fake_engine_that_does_not_open_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], plan: bytes, said: str, ended: list[str]
) -> None:
    """A type that numpy lacks, a plan of another version, no room: TensorRT's objects end in their CUDA context."""
    device = HostMemory(capacity_bytes=changes.pop("room", 1 << 20))
    with (
        pytest.raises(BuildError, match=said),
        opened(tmp_path, monkeypatch, device=device, written={"plan": plan}, **changes),
    ):
        pass
    assert sys.modules["tensorrt"]._machine.ended == ended
    assert device.cuda.held() == {}


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
            for engine, said in ((first, "refused"), (second, "differ in rows"), (first, "refused")):
                with pytest.raises(QuantError) as caught:
                    engine.run({**feeds_of(2), "ids": feeds_of(2 if engine is first else 3)["ids"]})
                assert said in str(caught.value)
            assert "refused" not in "".join(second._plan.lines)
            assert "differ in rows" not in "".join(first._plan.lines)


def test_fake_timed_runs_have_no_markers_of_nvtx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is built with detailed verbosity, for the inspector; a context would keep it and run slower."""
    with opened(tmp_path, monkeypatch) as (engine, device, _):
        call = engine.prepare(feeds_of(2))
        before = device.cuda._busy_ms
        call()
        assert device.cuda._busy_ms - before == RUN_MS
        assert NVTX_MS > 0


def test_fake_device_without_room_for_the_weights_is_not_blamed_on_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that is built anew needs as much; what helps is room."""
    with (
        pytest.raises(OutOfMemoryError, match="no memory for this engine") as caught,
        opened(tmp_path, monkeypatch, written={"plan": TOO_LARGE}),
    ):
        pass
    assert "Requested size was 4294967296 bytes" in str(caught.value)
    assert "nvidia-smi" in str(caught.value)
    assert "cache clear" not in str(caught.value)
