"""The self-test of a runner: fresh processes that time models whose differences are known."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from pytest_quant.backends import Backend, Tf32Backend, backend_names, get_backend
from pytest_quant.backends.apart import run_apart
from pytest_quant.backends.workload import LAYERS, WORKLOADS, Workload, inputs_of, write_workload
from pytest_quant.cache import Cache
from pytest_quant.errors import BackendUnavailable, LaunchError, QuantError, UsageError
from pytest_quant.measure.build import Step
from pytest_quant.measure.engines import Tools, build_side, read_data, shape_spec, usable_backend
from pytest_quant.measure.launch import Launchable
from pytest_quant.measure.lock import exclusive
from pytest_quant.measure.selftest_process import SIDES
from pytest_quant.measure.sessions import Subject
from pytest_quant.result import SelfTest
from pytest_quant.spec import Dataset, EngineSpec, LatencyPlan, Model
from pytest_quant.stats.runner import UNMEASURED
from pytest_quant.stats.selftest import FEWEST_PROCESSES, GATE_PCT, PLANTED_PCT, KindTimed, Timed, figures
from pytest_quant.stats.sequential import Floats

_MODULE = "pytest_quant.measure.selftest_process"
_PLANTED_LAYERS = round(LAYERS * (1.0 + PLANTED_PCT / 100.0))
_SAMPLES, _CALIBRATION = 8, 4
_LONGEST_S = 300.0
"""For one process, which needs some ten seconds on a machine that is not overloaded."""

_FEWEST_ROUNDS = 8

_PLAN = LatencyPlan(min_rounds=40, max_rounds=40, max_s=30.0)
"""As many rounds as an ordinary check has at most, whatever they show."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a self-test measures.

    Attributes
    ----------
    processes : fresh ones.
    budget_s : seconds after which no further process is begun, once there are enough; ``None`` for no bound.
    kinds : of models.
    plan : of each measurement.
    """

    processes: int = 20
    budget_s: float | None = None
    kinds: tuple[Workload, ...] = field(default=WORKLOADS)
    plan: LatencyPlan = _PLAN


WHOLE = Effort()
QUICK = Effort(processes=10, budget_s=110.0)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Files that describe what is timed, two for each kind: reference with candidate, and candidate with planted."""

    kinds: tuple[str, ...]
    files: tuple[Path, ...]
    device: str


@dataclass(frozen=True, slots=True)
class _Process:
    """Rounds by engine of each measurement of one process, in nanoseconds, and the notes on them."""

    rounds: list[dict[str, list[float]]]
    notes: list[str]


def run_selftest(
    effort: Effort,
    identity: Mapping[str, str],
    *,
    step: Step,
    notify: Callable[[str], None],
    backend: str | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SelfTest:
    """Measure how well this machine can time engines.

    Each process opens a reference, a second session of it, and an INT8 engine of each kind of model, and times them
    interleaved as a check does; then two new sessions of the INT8 engine, and one with 21 layers in place of 20. These
    are timed with each other, because a process times what it opens second by some 3 % otherwise than what it opens
    first. Ctrl-C ends it early: the processes that were measured count, where there are enough.

    Parameters
    ----------
    effort : how much is measured.
    identity : of the machine, see `Environment`.
    step : shows a long step to the user.
    notify : shows a line to the user.
    backend : to build the models for; ``None`` for one that is installed and runs on the processor.
    clock : seconds.

    Raises
    ------
    BackendUnavailable : `backend`, or any that could be timed, cannot run here.
    LaunchError : a process died, or took too long.
    KeyboardInterrupt : of the user, before there were enough processes.
    """
    began, measured_at = clock(), datetime.now(UTC).replace(microsecond=0)
    with tempfile.TemporaryDirectory(prefix="quant-selftest-") as folder:
        place = Path(folder)
        tools = Tools(Cache(place / "cache", notify=notify), notify, step)
        chosen = _asked(backend) if backend else _choose(place, tools)
        notify(f"building {len(effort.kinds)} models of 20 layers, and of 21, for {chosen.name}")
        prepared = _prepare(effort, chosen, place, tools)
        processes: list[_Process] = []
        try:
            _measure(effort, prepared, place, tools, clock, processes)
        except KeyboardInterrupt:
            if len(processes) < FEWEST_PROCESSES:
                raise
            notify(f"interrupted: the {len(processes)} processes that were measured count")
    found = figures(_timed(prepared.kinds, [one.rounds for one in processes]), UNMEASURED)
    return SelfTest(
        measured_at=measured_at.isoformat(),
        backend=chosen.name,
        device=chosen.device,
        asked=effort.processes,
        processes=len(processes),
        gate_pct=GATE_PCT,
        alarms=found.alarms,
        alarms_below_pct=found.alarms_below_pct,
        seconds=clock() - began,
        identity=dict(identity),
        kinds=found.kinds,
        notes=tuple(_disturbances(processes)),
    )


_ABOUT_MACHINE = ("busy machine", "stolen time", "throttled")
"""How the notes begin that `pytest_quant.measure.noise.machine_notes` makes."""


def _disturbances(processes: Sequence[_Process]) -> Iterator[str]:
    """Yield what took processor time away, and in how many processes."""
    for name in _ABOUT_MACHINE:
        number = sum(any(note.startswith(name) for note in one.notes) for one in processes)
        if number:
            yield f"{name} in {number} of {len(processes)} processes"


def _asked(name: str) -> Backend:
    backend = get_backend(name)
    if not _offers(backend):
        raise UsageError(
            f"a self-test times static INT8 engines of ONNX models, and backend '{name}' makes none",
            allowed=", ".join(one for one in backend_names() if _offers(get_backend(one))),
        )
    return usable_backend(EngineSpec(name, "fp32", None, Model(WORKLOADS[0].name)))


def _choose(folder: Path, tools: Tools) -> Backend:
    """Return a backend that can be timed on the processor: of those that offer it, the one that offers most."""
    offering = [one for one in map(get_backend, backend_names()) if one.device == "cpu" and _offers(one)]
    for one in sorted(offering, key=lambda backend: -sum(map(len, backend.schemes.values()))):
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
            return not _subject(_spec(backend.name, folder), backend, WORKLOADS[0], tools).open(opened).simulated
    except QuantError as error:
        tools.notify(f"{backend.name} is left out: {error.what}")
        return False


def _offers(backend: Backend) -> bool:
    return backend.reads == "onnx" and "static" in backend.schemes.get("int8", ())


def _spec(backend: str, folder: Path, precision: str = "fp32", work: Workload = WORKLOADS[0]) -> EngineSpec:
    """Return the engine of a model, which is written where it is not there yet; ``planted`` has a layer more."""
    layers = _PLANTED_LAYERS if precision == "planted" else LAYERS
    file = folder / f"{work.name}-{layers}.onnx"
    if not file.exists():
        write_workload(file, work, layers)
    if precision != "fp32":
        return EngineSpec(backend, "int8", "static", Model.from_onnx(file))
    spec, maker = EngineSpec(backend, "fp32", None, Model.from_onnx(file)), get_backend(backend)
    return maker.with_tf32(spec, allowed=False) if isinstance(maker, Tf32Backend) else spec


def _subject(spec: EngineSpec, backend: Backend, work: Workload, tools: Tools) -> Subject:
    samples = inputs_of(work, _SAMPLES)
    data = read_data(Dataset.from_arrays(samples, calibration=_CALIBRATION), spec, tools)
    (tensor,) = backend.signature(spec.model).inputs
    shaped = shape_spec(spec, (tensor,), data, 1, 1)
    return Subject(shaped, backend, build_side(shaped, backend, data, tools), {tensor.name: samples[:1]})


def _prepare(effort: Effort, backend: Backend, folder: Path, tools: Tools) -> _Prepared:
    files: list[Path] = []
    for work in effort.kinds:
        reference, candidate, planted = (
            _subject(_spec(backend.name, folder, which, work), backend, work, tools)
            for which in ("fp32", "int8", "planted")
        )
        for which, sides in (("candidate", (reference, candidate)), ("planted", (candidate, planted))):
            file = folder / f"{work.name}-{which}"
            Launchable.of(*sides, replace(effort.plan, seed=len(files))).save(file)
            files.append(file)
    return _Prepared(tuple(work.name for work in effort.kinds), tuple(files), backend.device)


def _measure(
    effort: Effort,
    prepared: _Prepared,
    folder: Path,
    tools: Tools,
    clock: Callable[[], float],
    measured: list[_Process],
) -> None:
    """Add what each process found to `measured`, which keeps it when the user interrupts; each has the device alone."""
    began, longest = clock(), 0.0
    for number in range(1, effort.processes + 1):
        over = effort.budget_s is not None and clock() - began + longest > effort.budget_s
        if over and number > FEWEST_PROCESSES:
            tools.notify(f"the time is spent after {number - 1} of {effort.processes} processes")
            return
        with exclusive(prepared.device, tools.notify, tools.lock_timeout_s):
            now = clock()
            found = _one(prepared.files, folder / f"rounds-{number}.json")
        took = clock() - now
        longest = max(longest, took)
        measured.append(found)
        tools.notify(f"process {number} of {effort.processes}: {took:.0f} s")


def _one(files: Sequence[Path], out: Path) -> _Process:
    command = (sys.executable, "-m", _MODULE, str(out), *map(str, files))
    try:
        done = run_apart(command, _LONGEST_S)
    except subprocess.TimeoutExpired as error:
        raise LaunchError(
            f"a fresh process of the self-test did not end within {_LONGEST_S:g} s",
            fix="end what else keeps this machine busy, and measure it again",
        ) from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise LaunchError(
            f"a fresh process of the self-test died with code {done.returncode}",
            value=lines[-1] if lines else "it wrote nothing",
            fix="pytest-quant doctor tells whether the backend is whole",
        )
    return _Process(**json.loads(out.read_text("ascii")))


def _timed(kinds: Sequence[str], processes: Sequence[Sequence[Mapping[str, Sequence[float]]]]) -> list[KindTimed]:
    """Return the rounds as arrays; where one process had no time for all of them, each counts with as many as it."""
    fewest = min(len(one[name]) for process in processes for one in process for name in SIDES)
    if fewest < _FEWEST_ROUNDS:
        raise LaunchError(
            "this machine is too slow, or too busy, to be measured",
            value=f"{fewest} rounds in the time of one measurement",
            allowed=f"{_FEWEST_ROUNDS} or more",
            fix="end what else runs here, and measure it again",
        )

    def arrays(place: int) -> Timed:
        return Timed(*(_logs([process[place][name][:fewest] for process in processes]) for name in SIDES))

    return [KindTimed(kind, arrays(2 * index), arrays(2 * index + 1)) for index, kind in enumerate(kinds)]


def _logs(times_ns: Sequence[Sequence[float]]) -> Floats:
    return np.log(np.asarray(times_ns, dtype=np.float64))
