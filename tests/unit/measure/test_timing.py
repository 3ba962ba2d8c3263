"""Timing the engines of one check on simulated time, and once more where a limit is broken, within one budget."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.measure import engine_trio
from pytest_quant.measure.engine_trio import device_note
from pytest_quant.measure.engines import TimingSubject
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.timing import CONFIRMING, _time_apart, plan_for, time_check, time_with_confirmation
from pytest_quant.result import DeviceTimes, Interval, LatencyResult, PercentileBound, Status, TokenTime
from pytest_quant.spec import LatencyPlan, Limits
from pytest_quant.verdict import Judge
from pytest_quant.verdict.latency_limits import latency_verdicts
from tests.support.measuring import quiet_tools
from tests.support.nvml_stub import NvmlStub, StubCard, each
from tests.unit.measure.played_apart import PlayedBackend, played
from tests.unit.measure.simulated import SimulatedTime
from tests.unit.record.examples import LATENCY, a_check


class Simulated:
    """As much of a subject as timing touches: a device, a name, and sessions that take `run_ms` a run."""

    def __init__(self, time: SimulatedTime, run_ms: float, device: str = "cpu", device_ms: float | None = None) -> None:
        spec = a_check().candidate
        self.device = device
        self.built = SimpleNamespace(spec=spec, name=f"{spec.id} of {spec.model.name}")
        self.feeds: dict[str, Any] = {}
        self.precision = "fp32"
        self.tf32: bool | None = None
        self.sample = None
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
            prepare_tokens=lambda _feeds: None,
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
def time(monkeypatch: pytest.MonkeyPatch) -> SimulatedTime:
    """The clock of every measurement."""
    time = SimulatedTime()
    monkeypatch.setattr(engine_trio, "measure", time.measure_calls)
    return time


def timed(
    limits: Limits,
    reference: Simulated,
    candidate: Simulated,
    folder: Path,
) -> LatencyResult:
    """Time a check with these limits."""
    tools = quiet_tools(folder)
    check = replace(a_check(), limits=limits)
    subjects = cast("TimingSubject", reference), cast("TimingSubject", candidate)
    return time_check(check, LatencyPlan(), *subjects, tools, Judge(limits))


@pytest.mark.parametrize(
    ("limits", "again"),
    [
        (Limits(min_speedup=3.0), True),
        (Limits(max_latency_ms=((50.0, 0.5),)), True),
        (Limits(min_speedup=1.5), False),
        (Limits(max_latency_ms=((50.0, 1.5),)), False),
        (Limits(), False),
    ],
)
def test_a_broken_limit_is_measured_again_in_fresh_sessions(
    time: SimulatedTime, tmp_path: Path, limits: Limits, again: bool
) -> None:
    """The second measurement is kept beside the first; reference and null are two sessions."""
    reference, candidate = Simulated(time, 2.0), Simulated(time, 1.0)
    result = timed(limits, reference, candidate, tmp_path)
    assert (result.repeat is not None) is again
    assert result.repeat is None or result.repeat.speedup == pytest.approx(2.0, rel=1e-3)
    assert (reference.opened, candidate.opened) == ((4, 2) if again else (2, 1))


def test_the_second_measurement_of_a_close_failure_has_its_own_process(tmp_path: Path) -> None:
    """Where no other process can open the engines fresh sessions have to do, and that is told."""

    class OnlyHere(PlayedBackend):
        pass

    tools = quiet_tools(tmp_path)
    plan = LatencyPlan(max_s=0.5, max_warmup_s=0.05)
    here = "measured again in the same process: played-quiet of net can be timed in this process only"
    for backend, note in ((PlayedBackend(), "measured in a process of its own"), (OnlyHere(), here)):
        result = _time_apart(plan, played("quiet", backend), played("quiet", backend), tools)
        assert note in result.notes
        assert result.rounds >= plan.min_rounds


def clock_notes_of(card: StubCard, stub: NvmlStub, time: SimulatedTime, folder: Path) -> list[str]:
    """Time engines on a card, and return the notes on its clocks."""
    stub.play(card)
    result = timed(Limits(), Simulated(time, 2.0, "cuda:0"), Simulated(time, 1.0, "cuda:0"), folder)
    assert result.rounds == 8
    return [note for note in result.notes if note.startswith("GPU")]


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

    monkeypatch.setattr(engine_trio, "gpu_neighbours", gpu_neighbours)
    result = timed(Limits(), Simulated(time, 2.0, "cuda:0"), Simulated(time, 1.0, "cuda:0"), tmp_path)
    note = "shared GPU: other processes have it open: 7 (train), 9 (serve)"
    assert [item for item in result.notes if item.startswith("shared")] == [note]
    assert asked_ns[0] < asked_ns[1]


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
    result = timed(Limits(), OnDevice(time, 2.0), OnDevice(time, 1.0), tmp_path)
    assert result.notes == tuple(
        f"ort-int8-static: GPU 0.25 ms, copies in 0.125 ms and out 0.0625 ms ({memory} memory), "
        "host without copies 1.5 ms (medians of 9 runs)"
        for memory in ("pageable", "pinned")
    )


def test_the_clocks_of_the_devices_are_judged_and_the_hosts_is_told_beside(time: SimulatedTime, tmp_path: Path) -> None:
    """Compute is three times as fast; half a millisecond around each run, the same for both, makes that twice."""
    reference = Simulated(time, 2.0, device_ms=1.5)
    result = timed(Limits(), reference, Simulated(time, 1.0, device_ms=0.5), tmp_path)
    assert result.clock == "device"
    assert result.speedup_ci.low < 3.0 < result.speedup_ci.high
    assert result.null_ratio_ci.low < 1.0 < result.null_ratio_ci.high
    assert result.candidate_p50_ms == pytest.approx(0.5, rel=0.05)
    assert result.reference_p50_ms == pytest.approx(1.5, rel=0.05)
    (note,) = (note for note in result.notes if note.startswith("timed by the device's clock; by the host's p50 "))
    assert [float(median) for median in note.split()[9:12:2]] == pytest.approx([2.0, 1.0], rel=1e-3)
    assert result.reasons == ()


@pytest.mark.parametrize(("of_reference", "of_candidate"), [(1.5, None), (None, 0.5), (None, None)])
def test_one_clock_times_both_engines(
    time: SimulatedTime, tmp_path: Path, of_reference: float | None, of_candidate: float | None
) -> None:
    """Where one device has none of its own, it is the host's."""
    pair = Simulated(time, 2.0, device_ms=of_reference), Simulated(time, 1.0, device_ms=of_candidate)
    result = timed(Limits(), *pair, tmp_path)
    assert result.clock == "host"
    assert not any("clock" in note for note in result.notes)
    assert result.speedup == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(
    ("times", "notes"),
    [
        (None, ()),
        (
            DeviceTimes(9, 0.25, 0.125, 0.0625, 1.5),
            ("GPU 0.25 ms, copies in 0.125 ms and out 0.0625 ms (pageable memory), host without copies 1.5 ms",),
        ),
        # Events step by half a microsecond or one: 2 % of 50 microseconds, and more of less.
        (DeviceTimes(9, 0.0499, 0.1, 0.1, 0.2), ("GPU 0.0499 ms (events may step by 0.001 ms), ",)),
        (DeviceTimes(9, 0.0501, 0.1, 0.1, 0.2), ("GPU 0.0501 ms, ",)),
        # Launching takes more than four fifths of the GPU's time, as trtexec has it.
        (DeviceTimes(9, 0.25, 0.1, 0.1, 1.5, enqueue_ms=0.2), ("GPU 0.25 ms, ",)),
        (
            DeviceTimes(9, 0.25, 0.1, 0.1, 1.5, enqueue_ms=0.21),
            ("GPU 0.25 ms, ", "bound by the host, which"),
        ),
        # Times by the host are never called the device's.
        (
            DeviceTimes(9, None, 0.125, 0.0625, 1.5),
            ("host without copies 1.5 ms (medians of 9 runs), copies in",),
        ),
    ],
)
def test_the_parts_of_a_run_are_told(times: DeviceTimes | None, notes: tuple[str, ...]) -> None:
    """With the memory that is copied from, and what bounds the run."""
    lines = device_note("trt-int8", times)
    assert len(lines) == len(notes)
    assert all(line.startswith(f"trt-int8: {note}") for line, note in zip(lines, notes, strict=True))
    assert times is None or times.gpu_ms is not None or lines[0].endswith("all by the host's clock")


@dataclass
class Check:
    """A check of two engines of known speed against a limit on the speedup."""

    reference_ms: float
    candidate_ms: float
    limit: float | None
    time: SimulatedTime = field(default_factory=SimulatedTime)
    plans: list[LatencyPlan] = field(default_factory=list)

    def once(self, plan: LatencyPlan) -> LatencyResult:
        """Measure in fresh sessions."""
        self.plans.append(plan)
        reference, null, candidate = map(self.time.engine, (self.reference_ms, self.reference_ms, self.candidate_ms))
        return self.time.measure(reference, null, candidate, plan)

    def run(self, max_s: float = 10.0) -> LatencyResult:
        """Time the check within `max_s`."""
        plan = LatencyPlan(max_s=max_s, least_speedup=self.limit)
        return time_with_confirmation(plan, self.once, Judge(Limits(min_speedup=self.limit)))

    def statuses(self, latency: LatencyResult) -> list[Status]:
        """What the limit says."""
        return [verdict.status for verdict in latency_verdicts(Limits(min_speedup=self.limit), latency)]


@given(run_ms=st.floats(0.05, 10_000), max_s=st.floats(0.1, 30), limit=st.sampled_from([None, 0.5, 2.0]))
@settings(max_examples=40)
def test_both_measurements_fit_into_the_budget(run_ms: float, max_s: float, limit: float | None) -> None:
    """A broken limit is measured twice, and both together take no longer, but for one run of each engine."""
    check = Check(run_ms, run_ms, limit)
    result = check.run(max_s)
    assert check.time.now_ns / 1e9 <= max(max_s, 3 * run_ms / 1e3) + 1e-6 + (3 * run_ms / 1e3 if result.repeat else 0.0)


def test_a_slow_engine_that_breaks_its_limit_fails_within_the_default_budget() -> None:
    """Runs of 80 ms against a limit of x2 that an equal engine does not reach: ten seconds tell it twice."""
    check = Check(80.0, 80.0, 2.0)
    result = check.run()
    assert check.statuses(result) == [Status.FAIL]
    assert result.repeat is not None
    assert result.spent_s <= 6.0
    assert check.time.now_ns <= 10e9
    assert check.plans[0].seed != check.plans[1].seed


def test_a_budget_too_short_to_confirm_is_inconclusive() -> None:
    """The first measurement fails, and the second has too few rounds: that is told, and nothing fails."""
    check = Check(125.0, 125.0, 2.0)
    result = check.run()
    assert check.statuses(replace(result, repeat=None)) == [Status.FAIL]
    assert check.statuses(result) == [Status.INCONCLUSIVE]
    assert result.repeat is not None
    assert result.repeat.reasons[0].startswith("too few rounds within 4 s")


def test_a_limit_leaves_the_second_measurement_its_share() -> None:
    """Six of ten seconds for the first, and all that it did not take for the second."""
    check = Check(1.0, 1.0, 1.5)
    result = check.run(10.0)
    assert [plan.max_s for plan in check.plans] == pytest.approx([6.0, 10.0 - result.spent_s])


@pytest.mark.parametrize(("limit", "apart"), [(0.99, 1), (3.0, 0)])
def test_a_close_failure_is_confirmed_in_a_fresh_process(limit: float, apart: int) -> None:
    """A ratio of 0.98 against a limit near it might be that of this process; against x3 it is no matter of one."""
    check = Check(1.0, 1.0 / 0.98, limit)
    fresh: list[LatencyPlan] = []

    def measure_apart(plan: LatencyPlan) -> LatencyResult:
        fresh.append(plan)
        return check.once(plan)

    plan = LatencyPlan(least_speedup=limit)
    result = time_with_confirmation(plan, check.once, Judge(Limits(min_speedup=limit)), measure_apart)
    assert check.statuses(result) == [Status.FAIL]
    assert len(fresh) == apart
    assert len(check.plans) == 2
    assert check.plans[1].confidence == CONFIRMING


@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_ttft_ms=10.0),
        Limits(max_tpot_ms=10.0),
        Limits(max_latency_ms=((50.0, 10.0),)),
        Limits(max_latency_ms=((90.0, 10.0),)),
        Limits(min_speedup=10.5),
    ],
)
@pytest.mark.parametrize(("ends", "apart"), [(Interval(10.05, 10.35), True), (Interval(15.05, 15.35), False)])
def test_every_limit_that_is_barely_broken_is_confirmed_in_a_fresh_process(
    limits: Limits, ends: Interval, apart: bool
) -> None:
    """An interval of 3 % that ends 0.5 % behind the limit would hold it if it were twice as wide; 50 % behind not."""
    figures = replace(
        LATENCY,
        speedup=10.2,
        speedup_ci=ends if apart else Interval(5.05, 5.35),
        percentile_bounds=(PercentileBound(50.0, *ends), PercentileBound(90.0, *ends)),
        tokens=tuple(TokenTime(name, None, ends.high, ends) for name in ("ttft", "tpot")),
    )
    fresh: list[LatencyPlan] = []

    def measure_apart(plan: LatencyPlan) -> LatencyResult:
        fresh.append(plan)
        return figures

    assert time_with_confirmation(LatencyPlan(), lambda _: figures, Judge(limits), measure_apart).repeat == figures
    assert bool(fresh) is apart


def test_a_plan_decides_every_limit_on_time() -> None:
    """Those of the check, whatever the plan had; a time of tokens that is not limited is not waited for."""
    check = replace(a_check(), limits=Limits(min_speedup=1.5, max_latency_ms=((50.0, 2.0),), max_tpot_ms=3.0))
    plan = plan_for(check, LatencyPlan(most_tokens_ms=(("ttft", 1.0),)))
    assert (plan.least_speedup, plan.most_ms, plan.most_tokens_ms) == (1.5, ((50.0, 2.0),), (("tpot", 3.0),))


@pytest.mark.parametrize(
    ("limits", "pages"),
    [
        (Limits(), "huge"),
        (Limits(min_speedup=1.5), "huge"),
        (Limits(max_ttft_ms=1.0), "huge"),
        (Limits(max_latency_ms=((50.0, 2.0),)), "small"),
        (Limits(max_latency_ms=((99.0, 2.0),), min_speedup=1.5), "small"),
    ],
)
def test_milliseconds_are_those_on_the_pages_that_the_system_gives(limits: Limits, pages: str) -> None:
    """A user's program gets no others: 100 MB of weights are read a fifth faster from pages of 2 MB."""
    check = replace(a_check(), limits=limits)
    assert plan_for(check, LatencyPlan()).pages == pages
    assert plan_for(check, LatencyPlan(pages="small")).pages == "small"
