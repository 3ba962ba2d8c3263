"""A plan on a fake TensorRT: what it needs before, what its contexts are told, and what ends when."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from pytest_quant.backends.cuda import OutOfMemoryError
from pytest_quant.backends.trt.configure import PLAN_FILE
from pytest_quant.backends.trt.gpu.engine import GpuEngine
from pytest_quant.errors import BuildError, QuantError
from tests.support.fake_tensorrt import ACTIVATION_BYTES, COLUMNS, NVTX_MS, RUN_MS, DataType, HostMemory, inspection
from tests.support.fake_tensorrt.engine import TOO_LARGE
from tests.support.fake_tensorrt.opened import PLAN, feeds_of, opened


def test_fake_plan_with_a_plugin_opens_in_a_process_that_built_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plugins are registered in each process, and this one has not parsed the model."""
    with opened(tmp_path, monkeypatch, plugin=True) as (engine, _, _):
        assert engine.run(feeds_of(2))["y"].shape == (2, COLUMNS)


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


def test_fake_device_without_room_for_a_context_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what TensorRT wanted and who may hold the memory."""
    device = HostMemory(capacity_bytes=ACTIVATION_BYTES - 1)
    with (
        pytest.raises(BuildError, match="no memory for an execution context") as caught,
        opened(tmp_path, monkeypatch, device=device),
    ):
        pass
    assert str(ACTIVATION_BYTES) in str(caught.value)
    assert "nvidia-smi" in str(caught.value)


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


@pytest.mark.parametrize("capacity_bytes", [ACTIVATION_BYTES - 1, 1 << 20])
def test_fake_engine_that_does_not_open_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capacity_bytes: int
) -> None:
    """Neither after the memory ran out nor after a type that numpy lacks: its objects end in their CUDA context."""
    device = HostMemory(capacity_bytes=capacity_bytes)
    y_type = DataType.FLOAT if capacity_bytes < ACTIVATION_BYTES else DataType.BF16
    with pytest.raises(BuildError), opened(tmp_path, monkeypatch, device=device, y_type=y_type):
        pass
    assert sys.modules["tensorrt"]._machine.ended == ["engine gone", "runtime gone"]
    assert device.cuda.held() == {}


def test_fake_plan_of_another_version_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runtime ends in the CUDA context too."""
    device = HostMemory()
    with (
        pytest.raises(BuildError, match="does not take the plan"),
        opened(tmp_path, monkeypatch, device=device, written={"plan": b""}),
    ):
        pass
    assert sys.modules["tensorrt"]._machine.ended == ["runtime gone"]
    assert device.cuda.held() == {}


@pytest.mark.parametrize("major", [10, 11])
def test_fake_inspectors_of_both_versions_tell_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, major: int
) -> None:
    """Format and type in one phrase beside ``Bindings``, or apart beside ``I/O Tensors``."""
    with opened(tmp_path, monkeypatch, major=major) as (engine, _, _):
        assert engine.coverage(feeds_of(1)).pct == 100.0
    for precision, fused, wanted in (("fp32", False, (0.0, 0)), ("int8", True, (None, 1))):
        (tmp_path / f"{precision}{fused}").mkdir()
        text = inspection(major, precision, fused=fused)
        with opened(tmp_path / f"{precision}{fused}", monkeypatch, major=major, inspection=text) as (engine, _, _):
            found = engine.coverage(feeds_of(1))
            assert (found.pct, found.opaque_nodes) == wanted
