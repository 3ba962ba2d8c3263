"""What a candidate takes, and the memory that a block adds."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pytest_quant.measure import resources as measured
from pytest_quant.measure.batching import OpenEngine
from pytest_quant.measure.build import BuiltEngine
from pytest_quant.measure.pipeline import find_resources
from pytest_quant.measure.resources import AddedMemory
from pytest_quant.result import Interval, Resources
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing import NumpyBackend
from tests.support.nvml_stub import NvmlStub, StubCard

MB = 1_000_000


@dataclass(frozen=True)
class Sized:
    """As much of an engine as its resources are told from."""

    size_bytes: int
    device_bytes: int | None = None
    simulated: bool = False
    plan_of: str = ""


def opened(engine: Sized) -> OpenEngine:
    """An engine that took three seconds to build, one of them to calibrate."""
    spec = EngineSpec("numpy", "fp32", None, Model("net"))
    backend = NumpyBackend()
    built = BuiltEngine(spec, backend, Path(), "key", "built", "", build_s=3.0, calibration_s=1.0, build_memory_mb=50.0)
    return OpenEngine(built, cast("Any", engine), {}, {})


def found(engine: Sized) -> Resources:
    """The resources of `engine`, beside a reference of four megabytes."""
    memory = AddedMemory("cpu")
    memory.process_mb, memory.device_mb = 7.0, 90.0
    return find_resources(opened(engine), opened(Sized(4_000_000)), memory, (12.5, Interval(12.0, 13.0)))


def test_every_figure_is_in_its_unit() -> None:
    """Bytes become megabytes of 10^6."""
    assert found(Sized(1_500_000, device_bytes=80_000_000)) == Resources(
        size_mb=1.5,
        reference_size_mb=4.0,
        build_s=3.0,
        calibration_s=1.0,
        build_memory_mb=50.0,
        run_memory_mb=7.0,
        energy_mj=12.5,
        energy_mj_ci=Interval(12.0, 13.0),
        device_memory_mb=80.0,
        device_memory_nvml_mb=90.0,
    )


def test_memory_of_a_simulation_is_not_measured() -> None:
    """It is that of another program than the engine it stands for; its file is real."""
    simulated = found(Sized(1_500_000, device_bytes=80_000_000, simulated=True))
    assert (simulated.run_memory_mb, simulated.device_memory_mb, simulated.device_memory_nvml_mb) == (None, None, None)
    assert simulated.size_mb == 1.5


@pytest.mark.parametrize(
    ("resources", "peak_mb"),
    [
        (Resources(run_memory_mb=7.0), 7.0),
        (Resources(run_memory_mb=7.0, device="cuda:0"), None),
        (Resources(run_memory_mb=7.0, device_memory_mb=80.0, device="cuda:0"), 80.0),
        (Resources(run_memory_mb=700.0, device_memory_mb=80.0, device_memory_nvml_mb=90.0, device="cuda:1"), 90.0),
        (Resources(run_memory_mb=7.0, device_memory_nvml_mb=6.0, device="cuda:0"), 6.0),
        (Resources(), None),
    ],
)
def test_the_limit_is_on_memory_where_the_engine_runs(resources: Resources, peak_mb: float | None) -> None:
    """On a device the larger of its two figures counts, never the host's; what is not known is not 0."""
    assert resources.peak_memory_mb == peak_mb


@pytest.mark.parametrize(
    ("before", "after", "added_mb"),
    [
        ("self:300000000,1:0", "self:350000000,1:5000000000", 50.0),
        ("1:0", "1:5000000000", None),
        ("1:0", "self:350000000,1:5000000000", 350.0),
        ("self:300000000", "self:?", None),
        ("self:300000000", "self:250000000", 0.0),
    ],
)
def test_a_neighbour_on_the_card_adds_nothing(
    before: str, after: str, added_mb: float | None, nvml_stub: NvmlStub
) -> None:
    """It takes 5 GB meanwhile. What this process holds counts, and where that is hidden there is no figure."""
    nvml_stub.play(StubCard(memory_used=1_000_000_000, processes=before))
    with AddedMemory("cuda:0") as memory:
        nvml_stub.play(StubCard(memory_used=6_000_000_000, processes=after))
    assert memory.device_mb == added_mb


def test_the_plan_of_another_product_is_not_measured() -> None:
    """Its size and what building it took say nothing of the one that was asked for; the calibration is ours."""
    other = found(Sized(1_500_000, simulated=True, plan_of="Another"))
    assert (other.size_mb, other.build_s, other.build_memory_mb, other.plan_of) == (None, None, None, "Another")
    assert (other.calibration_s, other.reference_size_mb) == (1.0, 4.0)


@pytest.fixture(autouse=True)
def garbage_of_other_tests_is_gone() -> Iterator[None]:
    """Memory that the collector frees amid the block would be taken off what the block adds."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _use(size_mb: int) -> int:
    """Touch so many megabytes, and give them back."""
    return int(np.ones(size_mb * MB, dtype=np.uint8).sum())


def test_the_peak_counts_memory_that_was_given_back() -> None:
    """200 MB that are free again at the end were the peak."""
    with AddedMemory() as found:
        _use(200)
    assert found.process_mb is not None
    assert 180 <= found.process_mb <= 260


def test_added_memory_holds_what_was_allocated() -> None:
    """200 megabytes that are written show up; a CPU has no device memory."""
    with AddedMemory("cpu") as memory:
        held = np.ones(200 * MB, dtype=np.uint8)
    assert memory.process_mb is not None
    assert 180 <= memory.process_mb <= 260
    assert memory.device_mb is None
    assert held.size == 200 * MB


def test_an_earlier_peak_does_not_count() -> None:
    """What was used before the block is not the block's."""
    _use(300)
    with AddedMemory() as found:
        _use(20)
    assert found.process_mb is not None
    assert found.process_mb <= 60


@pytest.mark.parametrize("file", ["missing/clear_refs", "ignored"])
def test_a_peak_that_cannot_be_reset_is_no_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str) -> None:
    """A sandbox that accepts the reset and does nothing would report the largest earlier block."""
    monkeypatch.setattr(measured, "_CLEAR_REFS", tmp_path / file)
    _use(300)
    with AddedMemory() as found:
        _use(20)
    assert found.process_mb is None
