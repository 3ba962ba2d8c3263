"""The self-test of a runner: launches that time models of our own, whose two sessions should be equal."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from pytest_quant.backends import Backend, backend_names, get_backend
from pytest_quant.backends.workload import WORKLOADS, Workload, inputs_of, write_workload
from pytest_quant.cache import Cache
from pytest_quant.errors import BackendUnavailable, LaunchError, QuantError, UsageError
from pytest_quant.measure.build import Tools, build_engine
from pytest_quant.measure.engines import read_data, shape_spec, usable_backend
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.sessions import TimingSubject
from pytest_quant.measure.steps import Steps
from pytest_quant.measure.timing_process import TimingJob, TimingProcess
from pytest_quant.result import LatencyResult, SelfTest
from pytest_quant.spec import UNMEASURED, Dataset, EngineSpec, LatencyPlan, Model
from pytest_quant.stats.selftest import FEWEST_LAUNCHES, KindTimed, kinds_noise

_SAMPLES, _CALIBRATION = 8, 4
_LONGEST_S = 300.0
"""For one answer of a launch, which takes some seconds on a machine that is not overloaded."""

_FEWEST_ROUNDS = 8

_PLAN = LatencyPlan(min_rounds=40, max_rounds=40, max_s=30.0)
"""As many rounds as an ordinary check has at most, whatever they show."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a self-test measures.

    Attributes
    ----------
    launches : of each kind of model.
    budget_s : seconds after which no further launch is begun, once there are enough; ``None`` for no bound.
    kinds : of models.
    plan : of each measurement.
    """

    launches: int = 20
    budget_s: float | None = None
    kinds: tuple[Workload, ...] = field(default=WORKLOADS)
    plan: LatencyPlan = _PLAN


WHOLE = Effort()
QUICK = Effort(launches=10, budget_s=110.0)


def run_selftest(
    effort: Effort,
    identity: Mapping[str, str],
    *,
    steps: Steps,
    backend: str | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SelfTest:
    """Measure how well this machine can time engines.

    Each launch of a kind of model opens a reference, a second session of it, and an INT8 engine, and times them
    interleaved as a check does. Ctrl-C ends it early: the launches that were measured count, where there are enough.

    Parameters
    ----------
    effort : how much is measured.
    identity : of the machine, see `Environment`.
    steps : shows long steps and messages to the user.
    backend : to build the models for; ``None`` for one that is installed and runs on the processor.
    clock : seconds.

    Raises
    ------
    BackendUnavailable : `backend`, or any that could be timed, cannot run here.
    LaunchError : a launch died, or took too long.
    KeyboardInterrupt : of the user, before there were enough launches.
    """
    began, measured_at = clock(), datetime.now(UTC).replace(microsecond=0)
    with tempfile.TemporaryDirectory(prefix="quant-selftest-") as folder:
        place = Path(folder)
        tools = Tools(Cache(place / "cache", notify=steps.notify), steps, DeviceLocks(steps.notify))
        chosen = _named(backend) if backend else _choose(place, tools)
        steps.notify(f"building {len(effort.kinds)} models for {chosen.name}")
        files = _prepare(effort, chosen, place, tools)
        measured: list[list[LatencyResult]] = []
        try:
            _measure(effort, files, chosen.device, tools, clock, measured)
        except KeyboardInterrupt:
            if len(measured) < FEWEST_LAUNCHES:
                raise
            steps.notify(f"interrupted: the {len(measured)} launches that were measured count")
    kinds = [
        _timed(work.name, results) for work, results in zip(effort.kinds, zip(*measured, strict=True), strict=True)
    ]
    return SelfTest(
        measured_at=measured_at.isoformat(),
        backend=chosen.name,
        device=chosen.device,
        planned=effort.launches,
        launches=len(measured),
        seconds=clock() - began,
        identity=dict(identity),
        kinds=kinds_noise(kinds, UNMEASURED),
        notes=tuple(_disturbances(measured)),
    )


_ABOUT_MACHINE = ("busy machine", "stolen time", "throttled")
"""How the notes begin that `pytest_quant.measure.latency_figures.machine_notes` makes."""


def _disturbances(measured: Sequence[Sequence[LatencyResult]]) -> Iterator[str]:
    """Yield what took processor time away, and in how many launches."""
    for name in _ABOUT_MACHINE:
        number = sum(any(note.startswith(name) for kind in launch for note in kind.notes) for launch in measured)
        if number:
            yield f"{name} in {number} of {len(measured)} launches"


def _named(name: str) -> Backend:
    backend = get_backend(name)
    if not _offers(backend):
        raise UsageError(
            f"a self-test times static INT8 engines of ONNX models, and backend '{name}' makes none",
            allowed=", ".join(other for other in backend_names() if _offers(get_backend(other))),
        )
    return usable_backend(EngineSpec(name, "fp32", None, Model(WORKLOADS[0].name)))


def _choose(folder: Path, tools: Tools) -> Backend:
    """Return a backend that can be timed on the processor: of those that offer it, the one that offers most."""
    offering = [each for each in map(get_backend, backend_names()) if each.device == "cpu" and _offers(each)]
    for one in sorted(offering, key=lambda backend: -sum(map(len, backend.offer.precisions.values()))):
        if one.availability().available and _is_timed(one, folder, tools):
            return one
    raise BackendUnavailable(
        "there is nothing to time: no backend that runs ONNX models in INT8 on the processor can run here",
        allowed=", ".join(sorted(one.name for one in offering)),
        fix="pytest-quant doctor tells what each of them needs",
    )


def _is_timed(backend: Backend, folder: Path, tools: Tools) -> bool:
    """Whether an engine can be opened, and is no simulation, whose speed says nothing."""
    try:
        with ExitStack() as opened:
            subject = _subject(backend, WORKLOADS[0], "fp32", folder, tools)
            return not subject.open(opened).simulated
    except QuantError as error:
        tools.steps.notify(f"{backend.name} is left out: {error.what}")
        return False


def _offers(backend: Backend) -> bool:
    return backend.offer.reads == "onnx" and "static" in backend.offer.precisions.get("int8", ())


def _spec(backend: Backend, work: Workload, precision: str, folder: Path) -> EngineSpec:
    """Return the engine of a model, which is written where it is not there yet; FP32 is exact."""
    file = folder / f"{work.name}.onnx"
    if not file.exists():
        write_workload(file, work)
    model = Model.from_onnx(file)
    if precision != "fp32":
        return EngineSpec(backend.name, precision, "static", model)
    return EngineSpec(backend.name, "fp32", None, model)


def _subject(backend: Backend, work: Workload, precision: str, folder: Path, tools: Tools) -> TimingSubject:
    spec, samples = _spec(backend, work, precision, folder), inputs_of(work, _SAMPLES)
    data = read_data(Dataset.from_arrays(samples, calibration=_CALIBRATION), spec, tools)
    (tensor,) = backend.signature(spec.model).inputs
    shaped = shape_spec(spec, (tensor,), data, 1, 1)
    return TimingSubject(build_engine(shaped, backend, data, tools), {tensor.name: samples[:1]})


def _prepare(effort: Effort, backend: Backend, folder: Path, tools: Tools) -> list[Path]:
    """Build both engines of each kind of model; return the files that describe them for a launch."""
    files: list[Path] = []
    for work in effort.kinds:
        reference, candidate = (_subject(backend, work, precision, folder, tools) for precision in ("fp32", "int8"))
        file = folder / f"{work.name}.launch"
        TimingJob.of(reference, candidate, effort.plan).save(file)
        files.append(file)
    return files


def _measure(
    effort: Effort,
    files: Sequence[Path],
    device: str,
    tools: Tools,
    clock: Callable[[], float],
    measured: list[list[LatencyResult]],
) -> None:
    """Add the times of each launch to `measured`, which keeps them when the user interrupts; each has the device alone.

    One launch is a fresh process for each kind of model, one after the other.
    """
    began, longest = clock(), 0.0
    for number in range(1, effort.launches + 1):
        over = effort.budget_s is not None and clock() - began + longest > effort.budget_s
        if over and number > FEWEST_LAUNCHES:
            tools.steps.notify(f"the time is spent after {number - 1} of {effort.launches} launches")
            return
        with tools.locks.exclusive(device):
            started = clock()
            plan = replace(effort.plan, seed=effort.plan.seed + number)
            results = [_launched(file, plan) for file in files]
        took = clock() - started
        longest = max(longest, took)
        measured.append(results)
        tools.steps.notify(f"launch {number} of {effort.launches}: {took:.0f} s")


def _launched(file: Path, plan: LatencyPlan) -> LatencyResult:
    try:
        with TimingProcess(file, limit_s=_LONGEST_S) as process:
            return process.measure(plan)
    except LaunchError as error:
        fix = "end what else keeps this machine busy; pytest-quant doctor tells whether the backend is whole"
        raise LaunchError(error.what, value=error.value, fix=fix, log=error.log) from error


def _timed(kind: str, results: Sequence[LatencyResult]) -> KindTimed:
    """Return the rounds as arrays; where one launch had no time for all of them, each counts with as many as it."""
    fewest = min(result.rounds for result in results)
    if fewest < _FEWEST_ROUNDS:
        raise LaunchError(
            "this machine is too slow, or too busy, to be measured",
            value=f"{fewest} rounds in the time of one measurement",
            allowed=f"{_FEWEST_ROUNDS} or more",
            fix="end what else runs here, and measure it again",
        )
    reference, null, candidate = (
        np.log(np.array([getattr(result, name).medians_ns[:fewest] for result in results], dtype=np.float64))
        for name in ("reference", "null", "candidate")
    )
    return KindTimed(kind, reference, null, candidate)
