"""The measurement of a check: build, run over the data, compare, read back what ran, time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pytest_quant.backends import Backend, Engine, Feeds, threads_of
from pytest_quant.data import Data
from pytest_quant.environment.energy_counter import energy_counter
from pytest_quant.measure.accuracy import OutputPair, choose_metric, choose_output, evaluate
from pytest_quant.measure.batching import Batched, find_batching
from pytest_quant.measure.build import export_check
from pytest_quant.measure.deployed import timed_reference
from pytest_quant.measure.energy import ROUGH, Energy, EnergyPlan, measure_energy
from pytest_quant.measure.engines import (
    Side,
    Tools,
    build_side,
    match_names,
    named_axes,
    open_side,
    read_data,
    renamed,
    shape_check,
    usable_backend,
    with_steps,
)
from pytest_quant.measure.float_reference import prove_float, refuse_quantized
from pytest_quant.measure.measurement import Compare, Measurement, TrialInputs
from pytest_quant.measure.outputs import Chunk, RecordedOutputs, record_outputs, run_over, side_by_side
from pytest_quant.measure.peak_memory import AddedMemory, MemoryAdded
from pytest_quant.measure.resources import find_resources
from pytest_quant.measure.sessions import Subject
from pytest_quant.measure.timing import Breaks, time_check
from pytest_quant.metrics import ResolvedMetric
from pytest_quant.metrics.channels import with_groups
from pytest_quant.result import AccuracyResult, LatencyResult, SelfDifference
from pytest_quant.spec import Check, LatencyPlan

EVAL_BATCH_SIZE = 32


@dataclass(frozen=True, slots=True)
class _Bench:
    """Both engines open over the same data, and the output and metric to read."""

    data: Data
    reference: Side
    candidate: Side
    output: str
    metric: ResolvedMetric | None
    memory: MemoryAdded


def measure_check(check: Check, tools: Tools, breaks: Breaks) -> Measurement:
    """Build and measure everything that `check` asks for; where latency was measured, both engines are closed.

    Parameters
    ----------
    check : model, data, engines and limits.
    tools : the cache, and the messages to the user.
    breaks : whether a latency breaks a limit of the check, so that it is measured once more.

    Raises
    ------
    QuantError : a backend cannot run here, or the model, the data or an engine does not meet its requirements.
    """
    with tools.step(f"loading {check.candidate.backend}"):
        candidate, reference = usable_backend(check.candidate), usable_backend(check.reference)
    refuse_quantized(check.reference)
    check = export_check(check, tools.cache, tools.bounded_step)
    refuse_quantized(check.reference)
    with ExitStack() as opened:
        with tools.locks.shared(candidate.device, reference.device, waits=check.latency is not None):
            data = read_data(check.dataset, check.reference, tools)
            check = shape_check(check, data, EVAL_BATCH_SIZE)
            bench = _set_up(check, candidate, reference, data, tools, opened)
            latency_feeds = bench.data.first(_latency_batch_size(check, bench))
            unseen = prove_float(bench.reference, bench.reference.feeds(latency_feeds), tools)
            recorded = _reference_outputs(bench, tools)
            compare = _comparer(check, bench, recorded, tools)
            accuracy = compare(bench.candidate, bench.data)
            again = _compare_again(check, bench, tools)
            with tools.step(f"reading back what {check.candidate.id} of {check.candidate.model.name} runs"):
                coverage = bench.candidate.engine.coverage(bench.candidate.feeds(latency_feeds))
            why_not = _why_not_timed(check, bench)
            timed = None
            if check.latency is not None and not why_not:
                timed = timed_reference(check, bench.reference, bench.data, latency_feeds, tools)
        candidate_timed = _subject(bench.candidate, latency_feeds)
        latency = energy = None
        if timed is not None:
            # Timing opens three engines; in the memory of a GPU there may be no room for more.
            opened.close()
            latency = _latency(check, bench, timed, tools, breaks)
            energy = _energy(check, candidate_timed, tools)
        resources = find_resources(bench.candidate, bench.reference, bench.memory, energy)
        opened.pop_all()

    def trial_inputs(bench: _Bench) -> TrialInputs:
        return TrialInputs(
            bench.candidate,
            bench.reference,
            bench.data,
            _comparer(check, bench, recorded, tools),
            (timed or _subject(bench.reference, latency_feeds), candidate_timed),
            lambda: trial_inputs(_with_engines(bench, tools)),
        )

    return Measurement(
        check=check if not why_not else replace(check, latency_off=why_not),
        engine=bench.candidate.engine,
        reference=bench.reference.engine,
        accuracy=accuracy,
        latency=latency,
        coverage=coverage,
        resources=resources,
        cache={"engine": bench.candidate.built.status, "reference": recorded.status},
        digests=_digests(bench),
        sample_hashes=bench.data.sample_hashes,
        calibration_samples=_calibration_samples(bench),
        threads=threads_of(bench.candidate.engine),
        notes=(*_notes(check, bench, recorded, accuracy), *filter(None, [unseen])),
        accuracy_again=again,
        unsteady=_unsteady(bench),
        bench=trial_inputs(bench),
    )


def _with_engines(bench: _Bench, tools: Tools) -> _Bench:
    """Return the bench with both of its engines opened anew."""
    with ExitStack() as opened:
        sides = []
        for side in (bench.reference, bench.candidate):
            engine = open_side(side.spec, side.backend, side.built, tools, opened)
            sides.append(replace(side, engine=engine, batched=replace(side.batched, engine=engine)))
        opened.pop_all()
    return replace(bench, reference=sides[0], candidate=sides[1])


def _set_up(
    check: Check, backend: Backend, ref_backend: Backend, data: Data, tools: Tools, opened: ExitStack
) -> _Bench:
    ref_built = build_side(check.reference, ref_backend, data, tools)
    reference = open_side(check.reference, ref_backend, ref_built, tools, opened)
    data = with_steps(data, reference)
    own_names = {name: name for name in data.layout.axes}
    batched = _batched(check, reference, data, own_names, named_axes(reference, data.output_axes), tools)
    whole = batched.run(data.first(batched.batch_size), batched.batch_size)
    first_outputs = with_groups(whole, check.channels)
    output = choose_output(check, first_outputs)
    metric = choose_metric(check, data, first_outputs, output)
    built = build_side(check.candidate, backend, data, tools)
    with AddedMemory(backend.device) as memory:
        engine = open_side(check.candidate, backend, built, tools, opened)
        inputs = match_names(reference.signature.inputs, engine.signature.inputs, "input")
        outputs = match_names(reference.signature.outputs, engine.signature.outputs, "output")
        asked = {outputs[name]: axis for name, axis in named_axes(engine, data.output_axes).items()}
        candidate = Side(check.candidate, backend, built, engine, _batched(check, engine, data, inputs, asked, tools))
    ref_side = Side(check.reference, ref_backend, ref_built, reference, batched)
    return _Bench(data, ref_side, candidate, output, metric, memory.added)


def _batched(
    check: Check,
    engine: Engine,
    data: Data,
    inputs: Mapping[str, str],
    output_axes: Mapping[str, int | None],
    tools: Tools,
) -> Batched:
    """Run first batches, for which some runtimes compile or load, and return how the engine takes batches."""
    spec = engine.spec
    with tools.step(f"running first batches on {spec.id} of {spec.model.name}"):
        return find_batching(
            engine,
            data,
            inputs,
            output_axes,
            batch_size=check.eval_batch_size or EVAL_BATCH_SIZE,
            timed_size=check.batch_size,
        )


def _reference_outputs(bench: _Bench, tools: Tools) -> RecordedOutputs:
    side = bench.reference
    text = f"evaluating the reference {side.spec.id} of {side.spec.model.name} on {bench.data.n} samples"
    with tools.step(text):
        return record_outputs(side.batched, bench.data, tools.cache, side.backend.ingredients(side.spec))


def _compare(check: Check, bench: _Bench, reference: Iterator[Chunk], tools: Tools) -> AccuracyResult:
    side = bench.candidate
    with tools.step(f"evaluating {side.spec.id} of {side.spec.model.name} on {bench.data.n} samples"):
        chunks = run_over(side.batched, bench.data)
        named = renamed(chunks, bench.reference.engine.signature, side.engine.signature)
        pairs = (
            OutputPair(theirs.outputs, ours.outputs, ours.labels, ours.start, ours.n)
            for theirs, ours in side_by_side(reference, named)
        )
        result = evaluate(
            pairs,
            bench.metric,
            output=bench.output,
            channels=check.channels,
            margin=check.limits.max_drop,
            confidence=check.confidence or 0.95,
        )
    return replace(result, simulated=side.engine.simulated)


def _comparer(check: Check, bench: _Bench, recorded: RecordedOutputs, tools: Tools) -> Compare:
    """Return a function that compares an engine with the reference over the data of the check, or part of it."""

    def compare(side: Side, data: Data) -> AccuracyResult:
        ours = bench.candidate.batched
        if side.engine is not ours.engine:
            # Probed anew, because whether outputs depend on the batch is a matter of the scheme.
            side = replace(side, batched=_batched(check, side.engine, data, ours.inputs, ours.output_axes, tools))
        of_side = replace(bench, candidate=side, data=data)
        if data is not bench.data:
            return _compare(check, of_side, run_over(bench.reference.batched, data), tools)
        return _compare(check, of_side, recorded.chunks(), tools)

    return compare


def _latency_batch_size(check: Check, bench: _Bench) -> int:
    asked = check.batch_size if check.latency is None else check.latency.batch_size
    for side in (bench.candidate, bench.reference):
        if side.batched.pads:
            return side.batched.batch_size
    return asked


def _why_not_timed(check: Check, bench: _Bench) -> str:
    """Return why latency is not measured; empty where it is, or nobody says why."""
    if check.latency is None:
        return check.latency_off
    for side in (bench.reference, bench.candidate):
        if side.engine.simulated:
            return f"{side.spec.id} is a float simulation, and its speed says nothing about the device"
    return ""


def _latency(check: Check, bench: _Bench, reference: Subject, tools: Tools, breaks: Breaks) -> LatencyResult:
    size = _latency_batch_size(check, bench)
    plan = replace(check.latency or LatencyPlan(), batch_size=size)
    candidate = _subject(bench.candidate, bench.data.first(size))
    return time_check(check, plan, reference, candidate, tools, breaks)


def _subject(side: Side, feeds: Feeds) -> Subject:
    return Subject(side.spec, side.backend, side.built, side.feeds(feeds))


def _energy(check: Check, candidate: Subject, tools: Tools) -> Energy | None:
    """Return the energy of one timed run, ``None`` where nothing counts energy."""
    device, limit_mj = candidate.backend.device, check.limits.max_energy_mj
    plan = ROUGH if limit_mj is None else EnergyPlan(limit_mj=limit_mj)
    with tools.locks.exclusive(device), energy_counter(device) as counter, ExitStack() as stack:
        if counter is None:
            return None
        with tools.step(f"measuring the energy of {candidate.spec.id}{plan.shown_s}"):
            return measure_energy(candidate.open(stack).prepare(candidate.feeds), counter, plan)


_SELF_ROUNDING = 1e-6
"""Largest relative difference of two runs of one engine that the order of float32 sums explains: some eight ulps."""


def _unsteady(bench: _Bench) -> tuple[SelfDifference, ...]:
    both = (side.batched.itself for side in (bench.reference, bench.candidate))
    return tuple(one for one in both if one.relative)


def _compare_again(check: Check, bench: _Bench, tools: Tools) -> AccuracyResult | None:
    """Evaluate both engines once more where one is nondeterministic by more than rounding, else return ``None``."""
    if not any(one.relative > _SELF_ROUNDING or one.top1_pct for one in _unsteady(bench)):
        return None
    return _compare(check, bench, run_over(bench.reference.batched, bench.data), tools)


def _digests(bench: _Bench) -> dict[str, str]:
    return {
        **bench.candidate.built.models,
        "engine": bench.candidate.built.key,
        "reference_engine": bench.reference.built.key,
        "data": bench.data.digest,
        "calibration_data": bench.data.calibration_digest,
    }


def _calibration_samples(bench: _Bench) -> int | None:
    spec = bench.candidate.spec
    if bench.candidate.backend.calibration_ingredients(spec) is None:
        return None
    return min(spec.calibration.samples or bench.data.n_calibration, bench.data.n_calibration)


def _notes(check: Check, bench: _Bench, recorded: RecordedOutputs, accuracy: AccuracyResult) -> tuple[str, ...]:
    notes = [*bench.data.notes, *bench.candidate.engine.notes]
    notes += [note for side in (bench.reference, bench.candidate) for note in side.batched.notes]
    engine = bench.candidate.built
    built = [("engine", engine.status, engine.reason), ("reference outputs", recorded.status, recorded.reason)]
    notes += [f"{what} built: {reason}" for what, status, reason in built if status == "built"]
    size = _latency_batch_size(check, bench)
    if check.latency is not None and size != check.latency.batch_size:
        notes.append(f"latency is for batches of {size}: the model's batch size is fixed")
    notes += [_told(one) for one in _unsteady(bench)]
    notes += [
        f"an offset is most of output '{one.name}': SQNR {one.sqnr_db:.4g} dB, {one.centred_sqnr_db:.4g} dB without it"
        for one in accuracy.by_output
        if one.sqnr_db is not None and one.centred_sqnr_db is not None
    ]
    if bench.reference.batched.self_difference > _SELF_ROUNDING and recorded.status == "hit":
        notes.append(
            f"outputs of {bench.reference.spec.id} are those of an earlier run, which a new one would not repeat"
        )
    return tuple(notes)


def _told(one: SelfDifference) -> str:
    top1 = "" if one.top1_pct is None else f", and in the top-1 class of {one.top1_pct:.3g} % of {one.n} samples"
    far = f"by {100 * one.relative:.2g} %, by at most {one.max_abs:.2g} in one value{top1}"
    return f"{one.engine} is nondeterministic: two runs of the same batch differ {far}"
