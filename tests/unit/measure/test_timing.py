"""Timing the engines of one check, on simulated time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_quant.cache import Cache
from pytest_quant.measure import sessions
from pytest_quant.measure.build import Tools
from pytest_quant.measure.latency import measure
from pytest_quant.measure.lock import FOLDER_VARIABLE, DeviceLocks
from pytest_quant.measure.sessions import TimingSubject, device_note
from pytest_quant.measure.timing import _time_apart, time_check
from pytest_quant.result import DeviceTimes, LatencyResult
from pytest_quant.spec import LatencyPlan, Limits
from pytest_quant.verdict import breaks_latency
from tests.support.nvml_stub import NvmlStub, StubCard, each
from tests.support.quiet_steps import QuietSteps
from tests.unit.measure.played_apart import PlayedBackend, played
from tests.unit.measure.simulated import SimulatedTime
from tests.unit.record.examples import a_check


class Simulated:
    """As much of a subject as timing touches: a device, a name, and sessions that take `run_ms` a run."""

    def __init__(self, time: SimulatedTime, run_ms: float, device: str = "cpu", device_ms: float | None = None) -> None:
        spec = a_check().candidate
        self.device = device
        self.built = SimpleNamespace(spec=spec, name=f"{spec.id} of {spec.model.name}")
        self.feeds: dict[str, Any] = {}
        self.precision = "fp32"
        self.tf32: bool | None = None
        self.opened = 0
        self._time = time
        self._run_ms = run_ms
        self._device_ms = device_ms
        self._noise = random.Random(str(run_ms))  # noqa: S311 - noise, not a secret

    def open(self, _stack: ExitStack) -> Any:
        """Open one more session."""
        self.opened += 1
        return SimpleNamespace(
            prepare=self.prepare,
            prepare_events=self.prepare_events,
            device_times=self.device_times,
            size_bytes=1000,
        )

    def prepare(self, _feeds: object) -> Callable[[], object]:
        """Return a run."""
        return self._time.engine(self._run_ms)

    def prepare_events(self, feeds: object) -> Callable[[], float] | None:
        """Return a run, and one behind it that took the device `device_ms`, give or take a few percent."""
        device_ms = self._device_ms
        if device_ms is None:
            return None
        run = self.prepare(feeds)

        def timed() -> float:
            run()
            own_ms = device_ms * (1.0 + self._noise.expovariate(50.0))
            self._time.now_ns += int(1e6 * own_ms)
            return own_ms

        return timed

    def device_times(self, _feeds: object) -> DeviceTimes | None:
        """Tell of no device."""
        return None


@pytest.fixture
def time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedTime:
    """The clock of every measurement, and locks of this test only."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "locks"))
    time = SimulatedTime()
    monkeypatch.setattr(sessions, "measure", partial(measure, clock=time.clock, machine=time.quiet))
    return time


def timed(
    limits: Limits,
    reference: Simulated,
    candidate: Simulated,
    folder: Path,
) -> LatencyResult:
    """Time a check with these limits."""
    tools = Tools(Cache(folder), QuietSteps(), DeviceLocks(pytest.fail))
    check = replace(a_check(), limits=limits)
    return time_check(
        check, LatencyPlan(), cast("TimingSubject", reference), cast("TimingSubject", candidate), tools, breaks_latency
    )


@pytest.mark.parametrize("limits", [Limits(min_speedup=3.0), Limits(max_latency_ms=((50.0, 0.5),))])
def test_a_broken_limit_is_measured_again_in_fresh_sessions(
    time: SimulatedTime, tmp_path: Path, limits: Limits
) -> None:
    """The second measurement is kept beside the first, with another order of its rounds."""
    reference, candidate = Simulated(time, 2.0), Simulated(time, 1.0)
    found = timed(limits, reference, candidate, tmp_path)
    assert found.repeat is not None
    assert found.repeat.speedup == pytest.approx(2.0, rel=1e-3)
    # Reference and null are two sessions.
    assert (reference.opened, candidate.opened) == (4, 2)


@pytest.mark.parametrize("limits", [Limits(), Limits(min_speedup=1.5), Limits(max_latency_ms=((50.0, 1.5),))])
def test_what_breaks_no_limit_is_measured_once(time: SimulatedTime, tmp_path: Path, limits: Limits) -> None:
    """Nothing is left to confirm."""
    reference, candidate = Simulated(time, 2.0), Simulated(time, 1.0)
    assert timed(limits, reference, candidate, tmp_path).repeat is None
    assert (reference.opened, candidate.opened) == (2, 1)


def test_the_second_measurement_of_a_close_failure_has_its_own_process(tmp_path: Path) -> None:
    """Where no other process can open the engines fresh sessions have to do, and that is told."""

    class OnlyHere(PlayedBackend):
        pass

    tools = Tools(Cache(tmp_path), QuietSteps(), DeviceLocks(pytest.fail))
    plan = LatencyPlan(max_s=0.5, max_warmup_s=0.05)
    here = "measured again in the same process: played-quiet of net can be timed in this process only"
    for backend, told in ((PlayedBackend(), "measured in a process of its own"), (OnlyHere(), here)):
        found = _time_apart(plan, played("quiet", backend), played("quiet", backend), tools)
        assert told in found.notes
        assert found.rounds >= plan.min_rounds


def test_a_limit_on_a_percentile_is_measured(time: SimulatedTime, tmp_path: Path) -> None:
    """Bounds are found of the percentiles that the check names, beside those that are always stated."""
    found = timed(Limits(max_latency_ms=((95.0, 1.5),)), Simulated(time, 2.0), Simulated(time, 1.0), tmp_path)
    assert [bound.percentile for bound in found.percentile_bounds] == [50.0, 90.0, 95.0, 99.0]


def clock_notes_of(card: StubCard, stub: NvmlStub, time: SimulatedTime, folder: Path) -> list[str]:
    """Time engines on a card, and return the notes on its clocks."""
    stub.play(card)
    found = timed(Limits(), Simulated(time, 2.0, "cuda:0"), Simulated(time, 1.0, "cuda:0"), folder)
    assert found.rounds == 8
    return [note for note in found.notes if note.startswith("GPU")]


def test_throttling_in_the_middle_of_a_run_is_told(time: SimulatedTime, tmp_path: Path, nvml_stub: NvmlStub) -> None:
    """One sample follows the warm-up and one each of eight rounds; both ends are at full speed here."""
    card = StubCard(sm_mhz=each(1980, 1980, 1980, 1200, 1410, 1980), throttle=each(0, 0, 0, 0x40, 0x40, 0))
    assert clock_notes_of(card, nvml_stub, time, tmp_path) == [
        "GPU held down in 22 % of 9 samples (hardware thermal slowdown 22 %), SM clock 1200 to 1980 MHz"
    ]


def test_neighbours_on_the_card_are_looked_for_before_and_after(
    time: SimulatedTime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engines are open by then, so that this process is listed; one note names both."""
    there: list[dict[int, str]] = [{7: "train"}, {7: "train", 9: "serve"}]
    asked_ns: list[int] = []

    def gpu_neighbours(device: str) -> dict[int, str]:
        assert device == "cuda:0"
        asked_ns.append(time.now_ns)
        return there[len(asked_ns) - 1]

    monkeypatch.setattr(sessions, "gpu_neighbours", gpu_neighbours)
    found = timed(Limits(), Simulated(time, 2.0, "cuda:0"), Simulated(time, 1.0, "cuda:0"), tmp_path)
    note = "shared GPU: other processes have it open: 7 (train), 9 (serve)"
    assert [one for one in found.notes if one.startswith("shared")] == [note]
    assert asked_ns[0] < asked_ns[1]


@pytest.mark.parametrize(("gpu_ms", "told"), [(0.0499, True), (0.0501, False)])
def test_times_near_the_step_of_the_devices_clock_say_so(gpu_ms: float, told: bool) -> None:
    """Events step by half a microsecond or one: 2 % of 50 microseconds, and more of less."""
    (note,) = device_note("trt-int8", DeviceTimes(9, gpu_ms, 0.1, 0.1, 0.2, pinned=True))
    assert ("events step by 0.0005 to 0.001 ms" in note) is told


def test_a_clock_that_rises_while_warming_up_is_no_note(
    time: SimulatedTime, tmp_path: Path, nvml_stub: NvmlStub
) -> None:
    """An idle card is read only when its engines have run."""

    class Idle(Simulated):
        def prepare(self, feeds: object) -> Callable[[], object]:
            run = super().prepare(feeds)

            def busy() -> None:
                run()
                nvml_stub.play(StubCard(sm_mhz=1980))

            return busy

    nvml_stub.play(StubCard(sm_mhz=210, throttle=0x1))
    found = timed(Limits(), Idle(time, 20.0, "cuda:0"), Idle(time, 10.0, "cuda:0"), tmp_path)
    assert [note for note in found.notes if note.startswith("GPU")] == []


def test_the_parts_of_a_run_are_timed_while_nobody_else_may_use_the_device(
    time: SimulatedTime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of both engines stand in the notes, under their names."""
    held: list[str] = []

    @contextmanager
    def exclusive(_: DeviceLocks, *devices: str) -> Iterator[None]:
        held.extend(devices)
        yield
        held.clear()

    class OnDevice(Simulated):
        def device_times(self, _feeds: object) -> DeviceTimes:
            assert held == ["cpu", "cpu"]
            return DeviceTimes(9, 0.25, 0.125, 0.0625, 1.5, pinned=self._run_ms < 2.0)

    monkeypatch.setattr(DeviceLocks, "exclusive", exclusive)
    found = timed(Limits(), OnDevice(time, 2.0), OnDevice(time, 1.0), tmp_path)
    assert found.notes == tuple(
        f"ort-int8-static: GPU 0.25 ms, copies in 0.125 ms and out 0.0625 ms ({memory} memory), "
        "host without copies 1.5 ms (medians of 9 runs)"
        for memory in ("pageable", "pinned")
    )


def test_what_latency_is_compared_with_is_told(time: SimulatedTime, tmp_path: Path) -> None:
    """Of both measurements, where a broken limit is measured again."""
    reference = Simulated(time, 2.0)
    reference.precision, reference.tf32 = "tf32", True
    found = timed(Limits(min_speedup=3.0), reference, Simulated(time, 1.0), tmp_path)
    assert found.repeat is not None
    assert [(one.reference_precision, one.tf32) for one in (found, found.repeat)] == [("tf32", True)] * 2


def test_timing_on_a_processor_opens_no_driver(
    time: SimulatedTime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for clocks nor for anything else."""
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    monkeypatch.setattr(pynvml, "nvmlInit", pytest.fail)
    found = timed(Limits(), Simulated(time, 2.0), Simulated(time, 1.0), tmp_path)
    assert not [note for note in found.notes if "clock" in note]


def test_the_clocks_of_the_devices_are_judged_and_the_hosts_is_told_beside(time: SimulatedTime, tmp_path: Path) -> None:
    """Compute is three times as fast; half a millisecond around each run, the same for both, makes that twice."""
    reference = Simulated(time, 2.0, device_ms=1.5)
    found = timed(Limits(), reference, Simulated(time, 1.0, device_ms=0.5), tmp_path)
    assert found.clock == "device"
    assert found.speedup_ci.low < 3.0 < found.speedup_ci.high
    assert found.null_ratio_ci.low < 1.0 < found.null_ratio_ci.high
    assert found.candidate_p50_ms == pytest.approx(0.5, rel=0.05)
    assert found.reference_p50_ms == pytest.approx(1.5, rel=0.05)
    (note,) = (note for note in found.notes if note.startswith("timed by the device's clock; by the host's p50 "))
    assert [float(median) for median in note.split()[9:12:2]] == pytest.approx([2.0, 1.0], rel=1e-3)
    assert found.reasons == ()


@pytest.mark.parametrize(("enqueue_ms", "bound"), [(None, False), (0.2, False), (0.21, True), (3.0, True)])
def test_a_host_that_is_the_bound_is_named(enqueue_ms: float | None, bound: bool) -> None:
    """Where launching takes more than four fifths of the GPU's time, as trtexec has it."""
    first, *more = device_note("trt-fp32", DeviceTimes(9, 0.25, 0.125, 0.0625, 1.5, enqueue_ms=enqueue_ms))
    assert first.startswith("trt-fp32: GPU 0.25 ms")
    assert len(more) == bound
    assert all(f"bound by the host, which takes {enqueue_ms:.4g} ms" in note for note in more)


def test_a_limit_is_judged_by_the_clock_of_the_device(time: SimulatedTime, tmp_path: Path) -> None:
    """What holds by the one is broken by the other."""
    reference, candidate = Simulated(time, 2.0, device_ms=1.5), Simulated(time, 1.0, device_ms=0.5)
    assert timed(Limits(min_speedup=2.5), reference, candidate, tmp_path).repeat is None
    by_host = timed(Limits(min_speedup=2.5), Simulated(time, 2.0), Simulated(time, 1.0), tmp_path)
    assert by_host.repeat is not None
    assert timed(Limits(max_latency_ms=((50.0, 0.6),)), reference, candidate, tmp_path).repeat is None


@pytest.mark.parametrize(("of_reference", "of_candidate"), [(1.5, None), (None, 0.5), (None, None)])
def test_one_clock_times_both_engines(
    time: SimulatedTime, tmp_path: Path, of_reference: float | None, of_candidate: float | None
) -> None:
    """Where one device has none of its own, it is the host's."""
    pair = Simulated(time, 2.0, device_ms=of_reference), Simulated(time, 1.0, device_ms=of_candidate)
    found = timed(Limits(), *pair, tmp_path)
    assert found.clock == "host"
    assert not any("clock" in note for note in found.notes)
    assert found.speedup == pytest.approx(2.0, rel=1e-3)


def test_times_by_the_host_are_never_called_the_devices() -> None:
    """A runtime whose device's clock cannot be read gives no milliseconds of the GPU; the note says whose they are."""
    (by_device,) = device_note("ort-cuda-fp32", DeviceTimes(9, 0.25, 0.125, 0.0625, 1.5))
    assert by_device.startswith("ort-cuda-fp32: GPU 0.25 ms, copies in 0.125 ms and out 0.0625 ms (pageable memory)")
    (by_host,) = device_note("ort-cuda-fp32", DeviceTimes(9, None, 0.125, 0.0625, 1.5))
    assert "GPU" not in by_host
    assert "host without copies 1.5 ms" in by_host
    assert by_host.endswith("all by the host's clock")
    assert device_note("ort-fp32", None) == ()
