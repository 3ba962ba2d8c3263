"""Reference, null and candidate of one check, open in this process to be timed, as a whole and layer by layer."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Self

import psutil

from pytest_quant.backends import Engine
from pytest_quant.backends.readback import LayerTime
from pytest_quant.clocks import REAL
from pytest_quant.environment.device_state import Clocks, clock_notes, clock_reader, gpu_neighbours, neighbour_notes
from pytest_quant.errors import UsageError
from pytest_quant.host import c_library, huge_page_bytes
from pytest_quant.measure.build import Tools
from pytest_quant.measure.engines import TimingSubject
from pytest_quant.measure.interleave import Block, ByDevice, ByToken, Call, time_block
from pytest_quant.measure.timed_rounds import Calls, Reopening, measure
from pytest_quant.result import DeviceTimes, LatencyResult
from pytest_quant.spec import Check, LatencyPlan, Pages


class EngineTrio:
    """Two sessions of the reference, the second being the null, and one session of the candidate, open inside a block.

    Parameters
    ----------
    reference, candidate : what is opened.
    pages : those under engines on the processor.

    Raises
    ------
    BuildError : a runtime cannot load its engine.
    DataError : an engine does not take its batch.
    """

    def __init__(self, reference: TimingSubject, candidate: TimingSubject, pages: Pages) -> None:
        self._subjects = (reference, reference, candidate)
        self._on_processor = all(subject.device == "cpu" for subject in self._subjects)
        self._huge = self._on_processor and pages == "huge"
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        """Open all three, in random order."""
        with self._opened:
            self._open()
            self._opened = self._opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Close those that are open now."""
        self._opened.close()

    def measure(self, plan: LatencyPlan) -> LatencyResult:
        """Time all three interleaved, with notes on clocks and neighbours of a GPU and on the parts of a run there."""
        self._settle()
        reference, _, candidate = self._subjects
        before = gpu_neighbours(candidate.device)
        with clock_reader(candidate.device) as read:
            samples: list[Clocks] = []

            def sample() -> None:
                if read is not None:
                    samples.append(read())

            reopening = Reopening(self._reopen, self._took_ns, self._weights_bytes)
            latency = measure(self._calls, plan, observe=sample, reopening=reopening)
        shared = neighbour_notes({**before, **gpu_neighbours(candidate.device)})
        apart = [
            note
            for subject, engine in ((reference, self._engines[0]), (candidate, self._engines[-1]))
            for note in device_note(subject.built.spec.id, engine.device_times(subject.feeds))
        ]
        return replace(
            latency,
            notes=(*latency.notes, *clock_notes(samples), *shared, *apart),
            reference_precision=reference.precision,
            tf32=reference.tf32,
            small_pages=self._on_processor and not self._huge,
            sample=candidate.sample,
        )

    def block(self, engine: int, runs: int) -> Block:
        """Time a cold run and `runs` more of one engine: 0 is the reference, 1 the null, 2 the candidate."""
        self._settle()
        return time_block(self._calls[engine], runs, REAL.perf_counter_ns)

    def _reopen(self) -> Calls:
        self._opened.close()
        self._open()
        self._settle()
        return self._calls

    def _open(self) -> None:
        """Open all three in random order, since what is opened first is the slowest as a rule."""
        began = REAL.perf_counter_ns()
        engines = {index: self._subjects[index].open(self._opened) for index in self._draw_order()}
        self._engines = tuple(engines[index] for index in sorted(engines))
        first, null, ours = _calls(list(zip(self._engines, self._subjects, strict=True)))
        self._calls: Calls = (first, null, ours)
        self._weights_bytes = max(engine.size_bytes for engine in self._engines) if self._on_processor else 0
        self._settled = not self._huge
        self._took_ns = REAL.perf_counter_ns() - began

    def _settle(self) -> None:
        """Move all memory into pages of 2 MB: before the timing, of which a run that fails is a failure."""
        if self._settled:
            return
        began, self._settled = REAL.perf_counter_ns(), True
        for index in self._draw_order():
            self._calls[index]()  # a page that nobody touched is none yet
        self._huge = collapse()
        self._took_ns += REAL.perf_counter_ns() - began

    def _draw_order(self) -> list[int]:
        order = random.Random()  # nosec B311 # noqa: S311 - an order, not a secret
        return order.sample(range(len(self._subjects)), len(self._subjects))


def _calls(sessions: Sequence[tuple[Engine, TimingSubject]]) -> list[Call]:
    """Return the calls to time: all by the clocks of their devices, or all by the host's if a clock is missing."""
    by_device = [engine.prepare_events(subject.feeds) for engine, subject in sessions]
    if None in by_device:
        tokens = [engine.prepare_tokens(subject.feeds) for engine, subject in sessions]
        both = zip(tokens, sessions, strict=True)
        return [engine.prepare(of.feeds) if call is None else ByToken(call) for call, (engine, of) in both]
    return [ByDevice(call) for call in by_device if call is not None]


def device_note(name: str, times: DeviceTimes | None) -> tuple[str, ...]:
    """Return a note with the parts of one run by the device's own clock, or the host's; nothing on the CPU."""
    if times is None:
        return ()
    memory = "pinned" if times.pinned else "pageable"
    copies = f"copies in {times.h2d_ms:.4g} ms and out {times.d2h_ms:.4g} ms ({memory} memory)"
    host = f"host without copies {times.host_ms:.4g} ms (medians of {times.runs} runs)"
    if times.gpu_ms is None:
        return (f"{name}: {host}, {copies}, all by the host's clock",)
    # A step of the device's clock is then 2 % or more of a run.
    step = " (events may step by 0.001 ms)" if times.gpu_ms < 0.05 else ""
    parts = f"{name}: GPU {times.gpu_ms:.4g} ms{step}, {copies}, {host}"
    # Before the GPU waits, launching may take this share of its time, as in trtexec (``sampleReporting.cpp``).
    if times.enqueue_ms is None or times.enqueue_ms <= 0.8 * times.gpu_ms:
        return (parts,)
    bound = f"bound by the host, which takes {times.enqueue_ms:.4g} ms to launch the kernels of a run"
    return (parts, f"{name}: {bound}; the GPU waits for it between kernels, and its time holds that wait")


_HUGE = 2 << 20
"""A session keeps the pages of 4 KB that it was given for as long as it lives. Where its weights do not fit into the
caches next to the core, their places alone make it up to a fifth slower or faster than another session of that file."""


def collapse() -> bool:
    """Move the anonymous memory of this process into pages of 2 MB, and return whether this system can do that.

    Their contents stay. Ranges that are mostly untouched stay as they are, since pages for all of one would take memory
    that nobody uses; so do those that the system refuses.
    """
    if huge_page_bytes() != _HUGE:
        return False
    madvise = c_library().madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    # ``MADV_COLLAPSE``, of Linux 6.1 and later, whatever the setting for transparent huge pages is.
    ranges = _ranges(psutil.Process().memory_maps(grouped=False))
    return 0 in [madvise(start, size, 25) for start, size in ranges]


def _ranges(maps: Iterable[Any]) -> Iterator[tuple[int, int]]:
    """Yield start and size in bytes, whole pages of 2 MB, of anonymous ranges that are mostly touched.

    Parameters
    ----------
    maps : the memory of a process, as psutil lists it.
    """
    for block in maps:
        low, high = (int(address, 16) for address in block.addr.split("-"))
        start = -(-low // _HUGE) * _HUGE
        size = high // _HUGE * _HUGE - start
        if block.path in ("[anon]", "[heap]") and block.perms == "rw-p" and 2 * block.rss >= size > 0:
            yield start, size


@dataclass(frozen=True, slots=True)
class SideLayers:
    """One engine of a check.

    Attributes
    ----------
    engine : its id, ``ort-int8-static``, and for a reference at another precision that.
    provider : where it runs, in the runtime's words.
    run_ms : median milliseconds of a whole run as it is timed, without a profiler; ``None`` where it was not timed.
    layers : in the order they run; empty where the backend does not tell them.
    """

    engine: str
    provider: str
    run_ms: float | None
    layers: tuple[LayerTime, ...]


@dataclass(frozen=True, slots=True)
class LayerProfile:
    """The layers of a check.

    Attributes
    ----------
    nodeid : of the test.
    model : name of the model.
    batch_size : samples in one run.
    untimed : why no whole run was timed; empty where it was.
    """

    nodeid: str
    model: str
    batch_size: int
    reference: SideLayers
    candidate: SideLayers
    untimed: str = ""


def profile_layers(
    check: Check, latency: LatencyResult | None, timed: tuple[TimingSubject, TimingSubject], tools: Tools
) -> LayerProfile:
    """Time the layers of both engines of a check, in the sessions and over the batch that their latency is of.

    Parameters
    ----------
    check : whose engines they are.
    latency : as measured; ``None`` where it was not.
    timed : reference and candidate.
    tools : the locks of devices, and the messages to the user.

    Raises
    ------
    UsageError : neither backend tells the times of layers.
    QuantError : an engine cannot be opened or run, or a device was not free in time.
    """
    reference, candidate = timed
    spec = reference.built.spec
    # Its precision is named where that is not in the id.
    name = spec.id if reference.precision in spec.id else f"{spec.id} at {reference.precision}"
    with tools.locks.exclusive(reference.device, candidate.device):
        sides = (
            _side(reference, name, None if latency is None else latency.reference_p50_ms, tools),
            _side(candidate, candidate.built.spec.id, None if latency is None else latency.candidate_p50_ms, tools),
        )
    if not any(side.layers for side in sides):
        names = " and ".join(sorted({spec.backend, candidate.built.spec.backend}))
        raise UsageError(
            f"{names} cannot tell the times of layers",
            value=check.nodeid,
            allowed="a backend whose runtime has a profiler of layers, see: pytest-quant guide failures",
            fix="name another backend in the mark, or use the profiler of that runtime itself",
        )
    return LayerProfile(
        check.nodeid,
        check.candidate.model.name,
        check.batch_size if latency is None else latency.batch_size,
        *sides,
        untimed=check.latency_off if latency is None else "",
    )


def _side(subject: TimingSubject, name: str, run_ms: float | None, tools: Tools) -> SideLayers:
    with ExitStack() as opened, tools.steps.show(f"profiling {name} of {subject.built.spec.model.name}"):
        engine = subject.open(opened)
        return SideLayers(name, engine.provider, run_ms, engine.layer_times(subject.feeds))
