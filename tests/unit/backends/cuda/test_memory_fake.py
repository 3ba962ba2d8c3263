"""The engine with pycuda, on a fake of it: the same runs, times and errors as with cuda-bindings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_quant.errors import BuildError
from tests.support.fake_tensorrt import ACTIVATION_BYTES, MAX_BATCH, RUN_MS
from tests.support.fake_tensorrt.device import PycudaHost
from tests.support.fake_tensorrt.opened import feeds_of, opened


def test_fake_pycuda_runs_and_gives_everything_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that grow and shrink, copies from and to page-locked memory; `opened` counts what is left."""
    device = PycudaHost(monkeypatch)
    with opened(tmp_path, monkeypatch, device=device) as (engine, _, _):
        for rows in (1, MAX_BATCH, 3):
            feeds = feeds_of(rows, rows)
            np.testing.assert_allclose(engine.run(feeds)["y"], 2 * feeds["x"] + feeds["ids"][:, None], rtol=1e-6)
        assert device.cuda._pageable_copies == 0
        assert "device memory by pycuda" in engine.notes
    assert device.depth == 0


def test_fake_pycuda_has_as_few_events_after_many_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made once and recorded again."""
    device = PycudaHost(monkeypatch)
    with opened(tmp_path, monkeypatch, device=device) as (engine, _, _):
        times = engine.device_times(feeds_of(2))
        timed = engine.prepare_events(feeds_of(2))
        assert times is not None
        assert timed is not None
        assert [times.gpu_ms, *(timed() for _ in range(4))] == [RUN_MS] * 5
        assert device.cuda.held()["events"] <= 8


def test_fake_pycuda_without_room_says_so_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same figures as by cuda-bindings."""
    device = PycudaHost(monkeypatch, capacity_bytes=ACTIVATION_BYTES + 150)
    with opened(tmp_path, monkeypatch, device=device) as (engine, _, _):
        with pytest.raises(BuildError, match="out of memory") as caught:
            engine.run(feeds_of(MAX_BATCH))
        assert "cuMemAlloc of 0.0 MB" in str(caught.value)
        assert len(engine.run(feeds_of(1))["y"]) == 1


def test_fake_pycuda_knows_an_error_that_breaks_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its text: pycuda gives no codes. Closing does not hide it."""
    device = PycudaHost(monkeypatch)
    with (
        pytest.raises(BuildError, match="no longer use the GPU") as caught,
        opened(tmp_path, monkeypatch, device=device, crashes=True) as (engine, _, _),
    ):
        engine.run(feeds_of(1))
    assert "illegal memory access" in str(caught.value)
    with pytest.raises(BuildError, match="no longer use the GPU"):
        device.check()
