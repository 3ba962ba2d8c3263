"""The measurement of a check: build, run over the data, compare, read back what ran, time."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_quant.backends import get_exporter
from pytest_quant.clocks import REAL
from pytest_quant.environment.device_state import energy_counter
from pytest_quant.measure.batching import SELF_ROUNDING, OpenEngine
from pytest_quant.measure.bench import Bench, Measurement, open_bench, read_back
from pytest_quant.measure.build import Tools, export_spec
from pytest_quant.measure.engines import TimingSubject, read_data, shape_check, usable_backend, with_inputs
from pytest_quant.measure.reference import refuse_quantized, timed_reference
from pytest_quant.measure.resources import BYTES_PER_MB, AddedMemory, Energy, measure_energy
from pytest_quant.measure.workers import Workers
from pytest_quant.result import AccuracyResult, Cost, Resources, SelfDifference
from pytest_quant.spec import Check

if TYPE_CHECKING:
    from pytest_quant.measure.timing import Breaks


def measure_check(check: Check, tools: Tools, breaks: Breaks) -> Measurement:
    """Build and measure everything that `check` asks for; engines that are closed meanwhile open again when they run.

    Parameters
    ----------
    check : model, data, engines and limits.
    breaks : whether a latency breaks a limit of the check, so that it is measured once more.

    Raises
    ------
    QuantError : a backend cannot run here, or the model, the data or an engine does not meet its requirements.
    """
    began_s = REAL.perf_counter()
    with tools.steps.show(f"loading {check.candidate.backend}"):
        candidate, reference = usable_backend(check.candidate), usable_backend(check.reference)
    opaque = candidate.offer.is_opaque
    models = [model for model in (check.reference.model, check.candidate.quantized) if model]
    modules = [model for model in models if model.module is not None]
    refuse_quantized(check.reference)
    check = check.map_engines(partial(export_spec, tools=tools))
    check = check.map_engines(partial(with_inputs, dataset=check.dataset, known={}))
    refuse_quantized(check.reference)
    with ExitStack() as opened:
        with tools.locks.shared(candidate.device, reference.device, waits=check.latency is not None):
            data = read_data(check.dataset, check.reference, tools)
            check = shape_check(check, data)
            kept = [SelfDifference(each.name, keeps_state=True) for each in modules if get_exporter().keeps_state(each)]
            with Workers(tools.workers, tools.steps) if tools.workers else nullcontext() as workers:
                bench = open_bench(check, data, tools, opened, workers)
                if check.accuracy_off:
                    accuracy, again = AccuracyResult(0, bench.metric.name if bench.metric else None), None
                else:
                    accuracy, again = bench.compare(bench.candidate, bench.data), bench.compare_again()
            with tools.steps.show(f"reading back what {bench.candidate.built.name} runs"):
                coverage = read_back(bench.candidate, bench.data, bench.timed[1].feeds, bench.latency_batch_size)
            why_not = _why_not_timed(bench)
            times = check.latency is not None and not why_not
            if times:
                deployed = timed_reference(check, bench.reference, bench.timed[0], bench.data, tools)
                bench = replace(bench, timed=(deployed, bench.timed[1]))
        evaluated_s = REAL.perf_counter()
        latency = energy = None
        for each in (bench.reference, bench.candidate):
            # Timing opens three engines; in the memory of a GPU there may be no room for more. And whoever runs an
            # engine later has the one that is timed, not the one that was evaluated on all cores.
            if times or each.built.evaluating.spec != each.built.spec:
                each.engine.set_aside(partial(each.built.open, tools.steps.watch))
                each.engine.spec, each.engine.threads = each.spec, each.engine.threads and each.built.threads
        if times and check.latency is not None:
            plan = replace(check.latency, batch_size=bench.latency_batch_size)
            # Here, because a check without latency needs none of the timing.
            from pytest_quant.measure.timing import time_check

            with tools.cache.quiet():
                latency = time_check(check, plan, *bench.timed, tools, breaks)
                energy = None if opaque else _energy(check, bench.timed[1], tools)
        opened.pop_all()
    built = bench.candidate.built
    unsteady = (*bench.unsteady, *kept)
    sample = bench.timed[1].sample if times else None
    of_one_size = () if sample is None or not sample.warning else (sample.warning,)
    mixed = () if bench.reference.mixed or not bench.candidate.mixed else (bench.candidate.mixed,)
    stateful = (each.words for each in unsteady if each.keeps_state)
    build_s = sum(each.build_s or 0.0 for each in (built, bench.reference.built) if each.status == "built")
    return Measurement(
        check=check if not why_not else replace(check, latency_off=why_not),
        engine=bench.candidate.engine,
        reference=bench.reference.engine,
        accuracy=accuracy,
        latency=latency,
        coverage=coverage,
        resources=find_resources(bench.candidate, bench.reference, bench.memory, energy),
        cache={
            **({} if opaque else {"engine": built.status}),
            **({} if bench.recorded is None else {"reference": bench.recorded.status}),
        },
        digests={
            **built.models,
            "engine": built.key,
            "reference_engine": bench.reference.built.key,
            "data": bench.data.digest,
            "calibration_data": bench.data.calibration_digest,
        },
        calibration_samples=_calibration_samples(bench),
        threads=bench.candidate.engine.threads,
        notes=(*_notes(bench, accuracy, unsteady), *of_one_size, *(() if workers is None else workers.notes)),
        warnings=(*stateful, *mixed, *of_one_size),
        accuracy_again=again,
        unsteady=unsteady,
        cost=Cost(build_s, max(0.0, evaluated_s - began_s - build_s), REAL.perf_counter() - evaluated_s),
        bench=bench,
    )


def _why_not_timed(bench: Bench) -> str:
    """Return why latency is not measured; empty where it is, or nobody says why."""
    if bench.check.latency is None:
        return bench.check.latency_off
    for opened in (bench.reference, bench.candidate):
        if opened.engine.simulated:
            return f"{opened.spec.id} is a float simulation, and its speed says nothing about the device"
    return ""


def _energy(check: Check, candidate: TimingSubject, tools: Tools) -> Energy | None:
    """Return the energy of one timed run, ``None`` where nothing counts energy."""
    device, limit_mj = candidate.device, check.limits.max_energy_mj
    with tools.locks.exclusive(device), energy_counter(device) as counter, ExitStack() as stack:
        if counter is None:
            return None
        lasts = "" if limit_mj is None else " for 15 to 30 s"
        with tools.steps.show(f"measuring the energy of {candidate.built.spec.id}{lasts}"):
            return measure_energy(candidate.open(stack).prepare(candidate.feeds), counter, limit_mj)


def find_resources(
    candidate: OpenEngine, reference: OpenEngine, memory: AddedMemory, energy: Energy | None
) -> Resources:
    """Return size, memory, build time and energy, each ``None`` where it is not known.

    The memory of a simulation is not that of the simulated engine. The size of the plan and the cost of its build are
    left out where another product than the backend's own built the plan.

    Of what cannot be seen into all are left out.

    Parameters
    ----------
    candidate, reference : the open engines.
    memory : that opening the candidate added.
    energy : of one run.
    """
    built, engine = candidate.built, candidate.engine
    if built.backend.offer.is_opaque:
        return Resources(device=built.backend.device)
    real, other = not engine.simulated, engine.plan_of
    return Resources(
        size_mb=None if other else engine.size_bytes / BYTES_PER_MB,
        reference_size_mb=None if reference.engine.plan_of else reference.engine.size_bytes / BYTES_PER_MB,
        build_s=None if other else built.build_s,
        calibration_s=built.calibration_s,
        build_memory_mb=None if other else built.build_memory_mb,
        run_memory_mb=memory.process_mb if real else None,
        energy_mj=None if energy is None else energy[0],
        energy_mj_ci=None if energy is None else energy[1],
        device_memory_mb=engine.device_bytes / BYTES_PER_MB if real and engine.device_bytes is not None else None,
        device_memory_nvml_mb=memory.device_mb if real else None,
        plan_of=other,
        device=candidate.built.backend.device,
    )


def _calibration_samples(bench: Bench) -> int | None:
    spec = bench.candidate.spec
    if bench.candidate.built.backend.calibration_ingredients(spec) is None:
        return None
    return min(spec.calibration.samples or bench.data.n_calibration, bench.data.n_calibration)


def _notes(bench: Bench, accuracy: AccuracyResult, unsteady: tuple[SelfDifference, ...]) -> tuple[str, ...]:
    recorded, check = bench.recorded, bench.check
    notes = [*bench.data.notes, *bench.candidate.engine.notes]
    notes += [note for opened in (bench.reference, bench.candidate) for note in opened.notes]
    engine = bench.candidate.built
    built = [("engine", engine.status, engine.reason)]
    built += [] if recorded is None else [("reference outputs", recorded.status, recorded.reason)]
    notes += [f"{what} built: {reason}" for what, status, reason in built if status == "built" and reason]
    size = bench.latency_batch_size
    if check.latency is not None and size != check.latency.batch_size:
        notes.append(f"latency is for batches of {size}: the model's batch size is fixed")
    notes += [difference.words for difference in unsteady]
    notes += [
        f"an offset is most of output '{output.name}': SQNR {output.sqnr_db:.4g} dB, "
        f"{output.centred_sqnr_db:.4g} dB without it"
        for output in accuracy.by_output
        if output.sqnr_db is not None and output.centred_sqnr_db is not None
    ]
    if bench.reference.itself.relative > SELF_ROUNDING and recorded is not None and recorded.status == "hit":
        notes.append(
            f"outputs of {bench.reference.spec.id} are those of an earlier run, which a new one would not repeat"
        )
    return (*notes, *filter(None, [bench.unseen, accuracy.note]))
