"""Times of layers by TensorRT's profiler, on a fake device: warm, waited for, and in a context of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends.layers import LayerTime, LayerTimed
from pytest_quant.errors import BuildError, DataError
from tests.support.fake_tensorrt import LAYER_MS, MAX_BATCH, RUN_MS, inspection
from tests.support.fake_tensorrt.opened import feeds_of, opened


@pytest.mark.parametrize("major", [10, 11])
def test_fake_layers_have_times_precisions_and_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, major: int
) -> None:
    """The median of warm runs: the first one is ten times as slow. A layer that is told twice in a run counts twice."""
    with opened(tmp_path, monkeypatch, major=major) as (engine, _, _):
        assert isinstance(engine, LayerTimed)
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
