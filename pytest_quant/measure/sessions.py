"""Reference, null and candidate of one check, open in this process and ready to be timed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from pytest_quant.backends import Backend, Engine, Feeds, prepare_events
from pytest_quant.environment.gpu_clocks import Clocks, clock_notes, clock_reader
from pytest_quant.measure.block import Block, ByDevice, Call, time_block
from pytest_quant.measure.build import BuiltEngine
from pytest_quant.measure.engines import open_built
from pytest_quant.measure.latency import measure
from pytest_quant.measure.warmup import Warm, warm_up
from pytest_quant.result import DeviceTimes, LatencyResult
from pytest_quant.spec import EngineSpec, LatencyPlan


@dataclass(frozen=True, slots=True)
class Subject:
    """An engine to time, opened anew for each measurement, and the batch it runs.

    Attributes
    ----------
    precision : one of `REFERENCE_PRECISIONS`, where it is what latency is compared with.
    tf32 : whether its FP32 products may be rounded to TF32; ``None`` where they are not FP32, or there is no TF32.
    """

    spec: EngineSpec
    backend: Backend
    built: BuiltEngine
    feeds: Feeds
    precision: str = "fp32"
    tf32: bool | None = None

    def open(self, stack: ExitStack) -> Engine:
        """Open a new session, closed with `stack`."""
        engine: Engine = open_built(self.spec, self.backend, self.built)
        stack.callback(engine.close)
        return engine


@dataclass(frozen=True, slots=True)
class Sessions:
    """Two sessions of the reference and one of the candidate.

    Attributes
    ----------
    engines, calls : of reference, null and candidate, in this order; a call is one run.
    reference, candidate : what was opened.
    """

    engines: tuple[Engine, ...]
    calls: tuple[Call, ...]
    reference: Subject
    candidate: Subject

    def measure(self, plan: LatencyPlan) -> LatencyResult:
        """Time all three interleaved, with notes on the clocks of a GPU and on what a run there is made of."""
        with clock_reader(self.candidate.backend.device) as read:
            samples: list[Clocks] = []

            def sample() -> None:
                if read is not None:
                    samples.append(read())

            first, null, ours = self.calls
            latency = measure(first, null, ours, plan, observe=sample)
        apart = [
            note
            for subject, engine in ((self.reference, self.engines[0]), (self.candidate, self.engines[-1]))
            for note in device_note(subject.spec.id, engine.device_times(subject.feeds))
        ]
        return replace(
            latency,
            notes=(*latency.notes, *clock_notes(samples), *apart),
            reference_precision=self.reference.precision,
            tf32=self.reference.tf32,
        )

    def warm_up(self, plan: LatencyPlan) -> tuple[Warm, ...]:
        """Warm up all three; their times tell how many runs a block needs, see `runs_of_block`."""
        return tuple(warm_up(call, plan, time.perf_counter_ns) for call in self.calls)

    def block(self, engine: int, runs: int) -> Block:
        """Time a cold run and `runs` more of one engine: 0 is the reference, 1 the null, 2 the candidate."""
        return time_block(self.calls[engine], runs, time.perf_counter_ns)


@contextmanager
def open_sessions(reference: Subject, candidate: Subject) -> Iterator[Sessions]:
    """Open new sessions of both engines, and close them when the block ends; the null is a second one of the first.

    Raises
    ------
    BuildError : a runtime cannot load its engine.
    DataError : an engine does not take its batch.
    """
    subjects = (reference, reference, candidate)
    with ExitStack() as stack:
        engines = tuple(subject.open(stack) for subject in subjects)
        yield Sessions(engines, tuple(_calls(list(zip(engines, subjects, strict=True)))), reference, candidate)


def _calls(sessions: Sequence[tuple[Engine, Subject]]) -> list[Call]:
    """Return the calls to time: all by the clocks of their devices, or, where one has none, all by the host's."""
    by_device = []
    for engine, subject in sessions:
        call = prepare_events(engine, subject.feeds)
        if call is None:
            return [engine.prepare(subject.feeds) for engine, subject in sessions]
        by_device.append(ByDevice(call))
    return [*by_device]


def device_note(name: str, times: DeviceTimes | None) -> tuple[str, ...]:
    """Return a note with the parts of one run by the device's own clock, or the host's; nothing on the CPU."""
    if times is None:
        return ()
    memory = "pinned" if times.pinned else "pageable"
    copies = f"copies in {times.h2d_ms:.4g} ms and out {times.d2h_ms:.4g} ms ({memory} memory)"
    host = f"host without copies {times.host_ms:.4g} ms (medians of {times.runs} runs)"
    if times.gpu_ms is None:
        return (f"{name}: {host}, {copies}, all by the host's clock",)
    return (f"{name}: GPU {times.gpu_ms:.4g} ms, {copies}, {host}",)
