"""What a candidate takes: memory, and energy by a counter that steps."""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant import host
from pytest_quant.measure.batching import OpenEngine
from pytest_quant.measure.build import BuiltEngine
from pytest_quant.measure.resources import AddedMemory, Energy, find_resources, measure_energy
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


def resources_of(engine: Sized) -> Resources:
    """The resources of `engine`, beside a reference of four megabytes."""
    memory = AddedMemory("cpu")
    memory.process_mb, memory.device_mb = 7.0, 90.0
    return find_resources(opened(engine), opened(Sized(4_000_000)), memory, (12.5, Interval(12.0, 13.0)))


def test_every_figure_is_in_its_unit() -> None:
    """Bytes become megabytes of 10^6."""
    assert resources_of(Sized(1_500_000, device_bytes=80_000_000)) == Resources(
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
    simulated = resources_of(Sized(1_500_000, device_bytes=80_000_000, simulated=True))
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
    other = resources_of(Sized(1_500_000, simulated=True, plan_of="Another"))
    assert (other.size_mb, other.build_s, other.build_memory_mb, other.plan_of) == (None, None, None, "Another")
    assert (other.calibration_s, other.reference_size_mb) == (1.0, 4.0)


@pytest.fixture
def garbage_of_other_tests_is_gone() -> Iterator[None]:
    """Memory that the collector frees amid the block would be taken off what the block adds."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _use(size_mb: int) -> int:
    """Touch so many megabytes, and give them back."""
    return int(np.ones(size_mb * MB, dtype=np.uint8).sum())


@pytest.mark.usefixtures("garbage_of_other_tests_is_gone")
@pytest.mark.parametrize("is_held", [True, False])
def test_the_peak_counts_memory_that_was_given_back(is_held: bool) -> None:
    """200 MB that are written show up, whether or not they are free again at the end; a CPU has no device memory."""
    with AddedMemory("cpu") as memory:
        held = np.ones(200 * MB, dtype=np.uint8) if is_held else _use(200)
    assert memory.process_mb is not None
    assert 180 <= memory.process_mb <= 260
    assert memory.device_mb is None
    assert np.any(held)


@pytest.mark.parametrize("file", ["missing/clear_refs", "ignored"])
def test_a_peak_that_cannot_be_reset_is_no_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str) -> None:
    """A sandbox that accepts the reset and does nothing would report the largest earlier block."""

    def path(*parts: str) -> Path:
        return tmp_path / file if parts == ("/proc/self/clear_refs",) else Path(*parts)

    monkeypatch.setattr(host, "Path", path)
    _use(300)
    with AddedMemory() as memory:
        _use(20)
    assert memory.process_mb is None


READING_S = 5e-5
IDLE_W = 60.0


class Meter:
    """A device that runs for `run_s` at `power_w`, and a counter that shows what was spent when it last stepped.

    Parameters
    ----------
    step_s : time between two steps of the counter, which vary by a third.
    noise : standard deviation of the power of one run, as a share of it.
    """

    def __init__(self, run_s: float, power_w: float, step_s: float, *, noise: float = 0.0, seed: int = 0) -> None:
        self.now_s = 0.0
        self.runs = 0
        self._run_s, self._power_w, self._step_s, self._noise = run_s, power_w, step_s, noise
        self._random = random.Random(seed)  # noqa: S311 - noise, not a secret
        self._spent_mj = self._shown_mj = 0.0
        self._steps_at_s = self._random.random() * step_s

    def run(self) -> None:
        """Make one run."""
        self.runs += 1
        self._pass(self._run_s, self._power_w * (1.0 + self._random.gauss(0.0, self._noise)))

    def read(self) -> float | None:
        """The counter; the device idles meanwhile."""
        self._pass(READING_S, min(IDLE_W, self._power_w))
        return self._shown_mj

    def clock(self) -> float:
        """Seconds since the start."""
        return self.now_s

    def _pass(self, seconds: float, power_w: float) -> None:
        end_s = self.now_s + seconds
        while self._steps_at_s <= end_s:
            self._shown_mj = self._spent_mj + 1e3 * power_w * (self._steps_at_s - self.now_s)
            self._steps_at_s += self._step_s * self._random.uniform(2 / 3, 4 / 3)
        self._spent_mj += 1e3 * power_w * seconds
        self.now_s = end_s

    def measure(self, limit_mj: float | None = math.inf) -> Energy:
        """Measure one run, by a limit that is far away where none is given."""
        energy = measure_energy(self.run, self.read, limit_mj, clock=self.clock)
        assert energy is not None
        return energy


def interval(energy: Energy) -> Interval:
    """The interval of a figure that has one."""
    assert energy[1] is not None
    return energy[1]


@settings(max_examples=60, deadline=None)
@given(
    power_w=st.floats(5.0, 700.0),
    run_s=st.floats(0.002, 3.0),
    step_s=st.floats(0.001, 0.1),
    seed=st.integers(0, 2**32),
)
def test_a_steady_device_is_within_the_interval(power_w: float, run_s: float, step_s: float, seed: int) -> None:
    """One run costs power x time; whenever the counter steps, the interval holds that, and is some percent wide."""
    truth_mj = 1e3 * power_w * run_s
    energy = Meter(run_s, power_w, step_s, seed=seed).measure()
    span = interval(energy)
    assert span.low <= truth_mj <= span.high
    assert energy[0] == pytest.approx(truth_mj, rel=0.05)
    assert span.high - span.low < 0.2 * truth_mj


def test_a_limit_at_the_truth_is_seldom_broken() -> None:
    """By chance in one of forty, although it is looked at twice."""
    broken = 0
    for seed in range(200):
        meter = Meter(0.25, 200.0, 0.05, noise=0.3, seed=seed)
        broken += interval(meter.measure(50_000.0)).low > 50_000.0
    # P(more than 14 of 200 at 2.5 %) is below 1e-3.
    assert broken <= 14


@pytest.mark.parametrize(("noise", "limit_mj", "repeats"), [(0.0, math.inf, 3), (0.0, 60_000.0, 3), (0.5, math.inf, 6)])
def test_repeats_are_made_until_the_interval_tells(noise: float, limit_mj: float, repeats: int) -> None:
    """Three for a steady device; six for one whose interval is too wide then."""
    meter = Meter(0.25, 200.0, 0.05, noise=noise, seed=1)
    meter.measure(limit_mj)
    assert 5.0 * repeats <= meter.now_s < 5.4 * repeats + 1.0


def test_slow_runs_are_bounded_in_time() -> None:
    """No repeat begins that would end after the bound; what was measured twice has a wide interval."""
    meter = Meter(10.0, 200.0, 0.05)
    energy = meter.measure()
    assert meter.now_s < 61.0
    assert interval(energy).low <= 2e6 <= interval(energy).high


def test_a_rough_figure_has_no_interval() -> None:
    """Half a second of runs, edge to edge, which is nearer than whole steps of the counter would be."""
    for seed in range(20):
        meter = Meter(0.005, 200.0, 0.1, seed=seed)
        energy = meter.measure(None)
        assert energy[1] is None
        assert energy[0] == pytest.approx(1000.0, rel=0.05)
        assert meter.now_s < 1.0


def test_a_counter_that_cannot_be_read_is_not_measured() -> None:
    """Neither at the start nor later is it taken for 0."""
    meter = Meter(0.1, 200.0, 0.05)
    assert measure_energy(meter.run, lambda: None, math.inf, clock=meter.clock) is None
    for readings in range(1, 30):
        left = iter(range(readings))
        silent = Meter(0.1, 200.0, 0.05)

        def read(silent: Meter = silent, left: object = left) -> float | None:
            return None if next(left, None) is None else silent.read()  # type: ignore[call-overload]

        energy = measure_energy(silent.run, read, math.inf, clock=silent.clock)
        assert energy is None or silent.now_s > 15.0


@pytest.mark.parametrize("run_s", [0.001, 2.0])
def test_a_counter_that_stands_still_is_not_measured(run_s: float) -> None:
    """As in some virtual machines; it is given up within a second, or a run."""
    meter = Meter(run_s, 200.0, math.inf)
    assert measure_energy(meter.run, meter.read, math.inf, clock=meter.clock) is None
    assert meter.now_s < 3 * run_s + 0.6
