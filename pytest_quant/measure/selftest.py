"""The self-test of a runner: launches that time models of our own, whose two sessions should be equal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from pytest_quant.backends import Backend, backend_names, get_backend
from pytest_quant.backends.workload import WORKLOADS, Workload, inputs_of, write_workload
from pytest_quant.cache import Cache
from pytest_quant.clocks import REAL, now
from pytest_quant.errors import BackendUnavailable, LaunchError, QuantError, UsageError
from pytest_quant.files import temporary_folder
from pytest_quant.measure.build import Tools, build_engine
from pytest_quant.measure.engines import TimingSubject, read_data, shape_spec, usable_backend
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.steps import Steps
from pytest_quant.measure.timing_process import TimingJob, TimingProcess
from pytest_quant.result import KindNoise, LatencyResult, SelfTest
from pytest_quant.spec import UNMEASURED, Dataset, EngineSpec, LatencyPlan, Model, Spread
from pytest_quant.stats.means import ValueWithError, median_with_error, session_spread
from pytest_quant.stats.ratio import student_quantile
from pytest_quant.stats.rounds import Floats, Looks, judge_ratio

_FEWEST_ROUNDS = 8

FEWEST_LAUNCHES = 3
"""With fewer there is no standard deviation between launches worth its name."""


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
    # As many rounds as an ordinary check has at most, whatever they show.
    plan: LatencyPlan = field(default=LatencyPlan(min_rounds=40, max_rounds=40, max_s=30.0))


WHOLE = Effort()
QUICK = Effort(launches=10, budget_s=110.0)


def run_selftest(
    effort: Effort,
    identity: Mapping[str, str],
    *,
    steps: Steps,
    backend: str | None = None,
    clock: Callable[[], float] = REAL.perf_counter,
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
    began, measured_at = clock(), now().replace(microsecond=0)
    with temporary_folder() as place:
        tools = Tools(Cache(place / "cache", notify=steps.notify), steps, DeviceLocks(steps.notify))
        chosen = _find_backend(backend) if backend else _choose(place, tools)
        steps.notify(f"building {len(effort.kinds)} models for {chosen.name}")
        files = [*_prepare(effort, chosen, place, tools)]
        measured: list[list[LatencyResult]] = []
        try:
            for times in _launches(effort, files, chosen.device, tools, clock):
                measured.append(times)  # noqa: PERF402 - where the user interrupts, those before stay
        except KeyboardInterrupt:
            if len(measured) < FEWEST_LAUNCHES:
                raise
            steps.notify(f"interrupted: the {len(measured)} launches that were measured count")
    logs = {
        work.name: _log_times(results) for work, results in zip(effort.kinds, zip(*measured, strict=True), strict=True)
    }
    disturbed = Counter(each for launch in measured for each in {name for kind in launch for name in kind.disturbances})
    return SelfTest(
        measured_at=measured_at.isoformat(),
        backend=chosen.name,
        device=chosen.device,
        planned=effort.launches,
        launches=len(measured),
        seconds=clock() - began,
        identity=dict(identity),
        kinds=kinds_noise(logs, UNMEASURED),
        notes=tuple(f"{kind} in {number} of {len(measured)} launches" for kind, number in disturbed.items()),
    )


def _find_backend(name: str) -> Backend:
    backend = get_backend(name)
    if not _offers(backend):
        raise UsageError(
            f"a self-test times static INT8 engines of ONNX models, and backend '{name}' makes none",
            allowed=", ".join(other for other in backend_names() if _offers(get_backend(other))),
        )
    return usable_backend(EngineSpec(name, "fp32", None, Model(WORKLOADS[0].name)))


def _choose(folder: Path, tools: Tools) -> Backend:
    """Return a backend that can be timed on the processor; of several, the backend that offers most."""
    offering = [each for each in map(get_backend, backend_names()) if each.device == "cpu" and _offers(each)]
    for backend in sorted(offering, key=lambda each: -sum(map(len, each.offer.precisions.values()))):
        if not backend.availability().available:
            continue
        try:
            with ExitStack() as opened:
                # The speed of a simulation says nothing.
                if not _subject(backend, WORKLOADS[0], "fp32", folder, tools).open(opened).simulated:
                    return backend
        except QuantError as error:
            tools.steps.notify(f"{backend.name} is left out: {error.what}")
    raise BackendUnavailable(
        "there is nothing to time: no backend that runs ONNX models in INT8 on the processor can run here",
        allowed=", ".join(sorted(each.name for each in offering)),
        fix="pytest-quant doctor lists what each backend needs",
    )


def _offers(backend: Backend) -> bool:
    return backend.offer.reads == "onnx" and "static" in backend.offer.precisions.get("int8", ())


def _subject(backend: Backend, work: Workload, precision: str, folder: Path, tools: Tools) -> TimingSubject:
    """Return a built engine of a model, which is written if it is missing; FP32 is exact."""
    file = folder / f"{work.name}.onnx"
    if not file.exists():
        write_workload(file, work)
    scheme = None if precision == "fp32" else "static"
    spec, samples = EngineSpec(backend.name, precision, scheme, Model.from_onnx(file)), inputs_of(work, 8)
    data = read_data(Dataset.from_arrays(samples, calibration=4), spec, tools)
    (tensor,) = backend.signature(spec.model).inputs
    shaped = shape_spec(spec, (tensor,), data, 1, 1)
    return TimingSubject(build_engine(shaped, backend, data, tools), {tensor.name: samples[:1]})


def _prepare(effort: Effort, backend: Backend, folder: Path, tools: Tools) -> Iterator[Path]:
    """Build both engines of each kind of model; yield the files that describe them for a launch."""
    for work in effort.kinds:
        reference, candidate = (_subject(backend, work, precision, folder, tools) for precision in ("fp32", "int8"))
        file = folder / f"{work.name}.launch"
        TimingJob(reference, candidate, effort.plan).save(file)
        yield file


def _launches(
    effort: Effort, files: Sequence[Path], device: str, tools: Tools, clock: Callable[[], float]
) -> Iterator[list[LatencyResult]]:
    """Yield the times of each launch, which has the device alone.

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
            results = []
            for file in files:
                # An answer takes some seconds on a machine that is not overloaded.
                with TimingProcess(file, limit_s=300.0) as process:
                    results.append(process.measure(plan))
        took = clock() - started
        longest = max(longest, took)
        yield results
        tools.steps.notify(f"launch {number} of {effort.launches}: {took:.0f} s")


def _log_times(results: Sequence[LatencyResult]) -> LogTimes:
    """Return the rounds as arrays; if a launch had no time for all, every launch counts with as few as the shortest."""
    fewest = min(result.rounds for result in results)
    if fewest < _FEWEST_ROUNDS:
        raise LaunchError(
            "this machine is too slow, or too busy, to be measured",
            value=f"{fewest} rounds in the time of one measurement",
            allowed=f"{_FEWEST_ROUNDS} or more",
            fix="end what else runs here, and measure it again",
        )
    reference, null, candidate = (
        np.log(np.array([side.medians_ns[:fewest] for side in sides], dtype=np.float64))
        for sides in zip(*((result.reference, result.null, result.candidate) for result in results), strict=True)
    )
    return reference, null, candidate


LogTimes: TypeAlias = tuple[Floats, Floats, Floats]
"""Natural logarithms (launches, rounds) of the times of the reference, of its second session, and of the candidate."""


def session_draws(times: LogTimes) -> list[ValueWithError]:
    """Return a draw of the noise between sessions from each launch."""
    reference, null, _ = times
    return [median_with_error([float(log) for log in rounds]) for rounds in null - reference]


def kinds_noise(timed: Mapping[str, LogTimes], prior: Spread) -> tuple[KindNoise, ...]:
    """Return the noise of each kind of model.

    Parameters
    ----------
    timed : by the name of the kind, in the same launches, at least `FEWEST_LAUNCHES`, of at least eight rounds each.
    prior : the noise between sessions of a runner that nobody measured.
    """
    # The verdicts of later runs will allow for this much.
    learned = session_spread(prior, [draw for times in timed.values() for draw in session_draws(times)])
    return tuple(_noise_of(name, times, prior, learned) for name, times in timed.items())


def _noise_of(name: str, times: LogTimes, prior: Spread, learned: Spread) -> KindNoise:
    reference, null, candidate = times
    launches, rounds = reference.shape
    draws = session_draws(times)
    launch = Spread(float(np.std(np.median(reference - candidate, axis=1), ddof=1)), launches - 1.0)
    judged, _ = judge_ratio(reference, null, candidate, Looks(most=rounds), learned)
    one_pct, five_pct, five_each_pct = held_limits(launch, float(np.mean(judged.span.high - judged.span.low)) / 2.0)
    return KindNoise(
        name=name,
        session_sd_pct=100.0 * session_spread(prior, draws).sd,
        launch_sd_pct=100.0 * launch.sd,
        one_pct=one_pct,
        five_pct=five_pct,
        five_each_pct=five_each_pct,
        draws=tuple((draw.value, draw.error) for draw in draws),
    )


def held_limits(launch: Spread, half_width: float, *, confidence: float = 0.95) -> tuple[float, float, float]:
    """Return the smallest limits in percent that one launch holds, five do, and five against a baseline of five.

    A limit L is held where code that did not change passes in at least 80 % of the runs and fails in at most 1 %, and
    code that became slower by twice the limit fails in at least 80 %. A run says log ratio +- w, passes where all of
    that lies within L, and fails where all of it lies beyond; the log ratio has the standard deviation s. Unchanged
    code passes in 80 % of the runs where L >= w + t(0.80) s, and fails in 1 % where L >= t(0.99) s - w; what lost twice
    the limit is the first case mirrored. Over m launches s is divided by sqrt(m), and w is t(0.975) times that.

    Parameters
    ----------
    launch : the spread of one launch's log ratio: between processes, rounds included.
    half_width : w of one launch, as a natural logarithm.
    confidence : of the interval over launches, 0..1.
    """
    # One-sided: P(T <= t) = share where P(|T| <= t) = 2 share - 1.
    passes, fails = (student_quantile(2.0 * share - 1.0, launch.freedom) for share in (0.80, 0.99))

    def held(sd: float, width: float) -> float:
        return 100.0 * math.expm1(max(width + passes * sd, fails * sd - width))

    of_five = launch.sd / math.sqrt(5)
    reach = student_quantile(confidence, launch.freedom)
    both = math.sqrt(2.0) * of_five
    return held(launch.sd, half_width), held(of_five, reach * of_five), held(both, reach * both)
