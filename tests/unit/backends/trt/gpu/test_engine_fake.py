"""A plan that runs, on a fake device: shapes, types, copies, streams and the order of closing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends.readback import LayerTime
from pytest_quant.backends.trt.gpu.engine import GpuEngine
from pytest_quant.errors import BuildError, DataError
from tests.support.fake_tensorrt import (
    ACTIVATION_BYTES,
    COLUMNS,
    LAYER_MS,
    MAX_BATCH,
    RUN_MS,
    WEIGHT_BYTES,
    DataType,
    HostMemory,
    inspection,
    make,
)
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

    monkeypatch.setattr("pytest_quant.backends.trt.gpu.engine.open_device", open_device)
    monkeypatch.setitem(sys.modules, "tensorrt", make(device))
    with GpuEngine(write_engine(tmp_path, **options), tmp_path):
        assert asked == [{"library": library}]


def test_fake_run_hands_its_outputs_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later run changes no earlier output."""
    with opened(tmp_path, monkeypatch) as (engine, _, _):
        first = engine.run(feeds_of(2, 1))["y"]
        kept = first.copy()
        engine.run(feeds_of(2, 2))
        np.testing.assert_array_equal(first, kept)


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


def test_fake_width_beyond_the_profile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An axis that the graph leaves free is bounded by the profile like the batch, and the option to write is named."""
    with opened(tmp_path, monkeypatch, written={"width": "w"}) as (engine, _, _):
        feeds = {**feeds_of(2), "x": np.zeros((2, COLUMNS + 1), np.float32)}
        with pytest.raises(DataError, match=r"'x' does not fit the engine") as caught:
            engine.run(feeds)
        assert f"from (1, {COLUMNS}) to ({MAX_BATCH}, {COLUMNS})" in str(caught.value)
        assert "options={'shapes': {'x':" in str(caught.value)


def test_fake_refusal_to_run_is_an_error_with_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorRT returns False and says why in its log only."""
    with (
        opened(tmp_path, monkeypatch, refuses=True) as (engine, _, _),
        pytest.raises(BuildError, match="did not start the run") as caught,
    ):
        engine.run(feeds_of(1))
    assert "the run was refused" in str(caught.value)


def test_fake_output_of_unknown_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No buffer can be made for it beforehand."""
    with (
        opened(tmp_path, monkeypatch, data_dependent=True) as (engine, _, _),
        pytest.raises(BuildError, match="depends on the values"),
    ):
        engine.run(feeds_of(1))


def test_fake_type_that_numpy_lacks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bytes must not be read as four."""
    with (
        pytest.raises(BuildError, match="'y' of the engine is BF16"),
        opened(tmp_path, monkeypatch, y_type=DataType.BF16),
    ):
        pass


def test_fake_plan_of_another_version_is_refused_with_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None instead of an engine, and the reason in the log."""
    with (
        pytest.raises(BuildError, match="does not take the plan") as caught,
        opened(tmp_path, monkeypatch, written={"plan": b""}),
    ):
        pass
    assert "Version tag does not match" in str(caught.value)


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


def test_fake_coverage_is_read_from_the_inspector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from the file that was quantized: the same file with a float layer has none."""
    (tmp_path / "float").mkdir()
    with opened(tmp_path, monkeypatch) as (engine, _, module):
        found = engine.coverage(feeds_of(1))
        assert (found.pct, found.provider) == (100.0, f"TensorRT {module.__version__}")
    with opened(tmp_path / "float", monkeypatch, inspection=inspection(10, "fp32")) as (engine, _, _):
        assert engine.coverage(feeds_of(1)).pct == 0.0


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


def test_fake_engine_is_not_simulated_and_counts_missing_scales(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of the build is in the notes."""
    log = "[WARNING] Missing scale and zero-point for tensor a\n[WARNING] Missing scale and zero-point for tensor b\n"
    with opened(tmp_path, monkeypatch, written={"log": log}) as (engine, _, _):
        assert not engine.simulated
        assert any(note.startswith("2 tensors have no scale") for note in engine.notes)


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


def test_fake_float_layer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the inspector says, whatever was asked for."""
    with opened(tmp_path, monkeypatch, inspection=inspection(10, "fp32")) as (engine, _, _):
        assert engine.layer_times(feeds_of(1))[0].precision == "fp32"


def test_fake_timed_runs_have_no_profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after: a profiler makes every run wait for its layers. The engine goes on with its own inputs."""
    with opened(tmp_path, monkeypatch) as (engine, device, module):
        mine = feeds_of(3)
        call = engine.prepare(mine)
        call()
        engine.layer_times(feeds_of(2))
        assert engine._runner._context.profiler is None
        assert module._machine.ended == ["context gone"]
        before = device.cuda._busy_ms
        call()
        assert device.cuda._busy_ms - before == RUN_MS
        np.testing.assert_array_equal(engine._runner._host["x"], mine["x"])


def test_fake_graph_is_not_replayed_for_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the option for graphs the layers are those of plain runs."""
    with opened(tmp_path, monkeypatch, written={"cuda_graph": True}) as (engine, _, _):
        assert [layer.name for layer in engine.layer_times(feeds_of(2))] == list(LAYER_MS)


def test_fake_plan_without_verbosity_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No layer is told, and an empty profile would look like a fast engine; nothing stays on the device."""
    with (
        opened(tmp_path, monkeypatch, silent=True) as (engine, _, _),
        pytest.raises(BuildError, match="tells no times of layers") as caught,
    ):
        engine.layer_times(feeds_of(1))
    assert "cache clear" in str(caught.value)


def test_fake_refusals_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch beyond the profile, and a run that TensorRT refuses: the context ends while CUDA's is current."""
    with opened(tmp_path, monkeypatch) as (engine, _, _):
        with pytest.raises(DataError, match="'x' does not fit the engine"):
            engine.layer_times(feeds_of(MAX_BATCH + 1))
        assert len(engine.layer_times(feeds_of(1))) == 2
        engine.close()
        with pytest.raises(BuildError, match="closed"):
            engine.layer_times(feeds_of(1))
    with (
        opened(tmp_path, monkeypatch, refuses=True) as (engine, _, _),
        pytest.raises(BuildError, match="did not start the run"),
    ):
        engine.layer_times(feeds_of(1))
