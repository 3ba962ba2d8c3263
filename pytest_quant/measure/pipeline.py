"""The measurement of a check: build, run over the data, compare, read back what ran, time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_quant.backends import Engine, Feeds, get_backend, get_exporter
from pytest_quant.backends.feeds import match_inputs, match_names
from pytest_quant.cache import Entry
from pytest_quant.clocks import REAL
from pytest_quant.data import Data
from pytest_quant.measure.batching import SELF_ROUNDING, OpenEngine, find_batching
from pytest_quant.measure.build import Tools, build_engine, export_spec
from pytest_quant.measure.choices import Head, choose_heads, choose_metric, choose_output, find_parts
from pytest_quant.measure.engines import (
    TimingSubject,
    add_inputs,
    open_engine,
    prove_float,
    read_data,
    shape_check,
    timed_reference,
    usable_backend,
    use_single_steps,
)
from pytest_quant.measure.evaluation import evaluate
from pytest_quant.measure.model_kinds import note_halves, refuse_other_floats, refuse_quantized
from pytest_quant.measure.outputs import Chunk, pair_outputs, read_outputs, record_outputs, run_over
from pytest_quant.measure.resources import AddedMemory, Energy, find_resources, measure_energy
from pytest_quant.metrics import ResolvedMetric
from pytest_quant.metrics.channels import add_groups
from pytest_quant.result import AccuracyResult, Cost, Coverage, Measured, Resources, SelfDifference
from pytest_quant.spec import Check, Model
from pytest_quant.verdict import Judge

if TYPE_CHECKING:
    from pytest_quant.measure.workers import Workers


@dataclass(frozen=True, slots=True)
class EnginePair:
    """Both engines of a check, open over the same data; trials of other engines are compared on it too.

    Attributes
    ----------
    metric : what the score is computed by.
    heads : outputs that have a metric each.
    memory : that opening the candidate added.
    recorded : where outputs of the reference over all of the data are kept; ``None`` where accuracy is off.
    unseen : what is not proven of the reference because it cannot be seen into; empty where everything can.
    timed : reference and candidate as their latency is measured.
    latency_batch_size : samples in one timed run: those that the check asks for, unless a graph fixes its batch size.
    """

    check: Check
    tools: Tools
    data: Data
    reference: OpenEngine
    candidate: OpenEngine
    metric: ResolvedMetric | None
    heads: tuple[Head, ...]
    memory: AddedMemory
    recorded: Entry | None
    unseen: str
    timed: tuple[TimingSubject, TimingSubject]
    latency_batch_size: int

    def compare(self, opened: OpenEngine, data: Data) -> AccuracyResult:
        """Compare an engine with the reference over the data of the check, or part of it."""
        if opened.engine is not self.candidate.engine:
            # Probed anew, because whether outputs depend on the batch is a matter of the scheme.
            opened = _probe(self.check, opened, data, self.tools)
        elif data is not self.data:
            opened = replace(opened, ran=())
        kept = self.recorded if data is self.data else None
        return self._compare(opened, data, run_over(self.reference, data) if kept is None else read_outputs(kept))

    def compare_again(self) -> AccuracyResult | None:
        """Evaluate both engines once more if either is nondeterministic by more than rounding, else return ``None``."""
        if not any(difference.relative > SELF_ROUNDING or difference.top1_pct for difference in self.unsteady):
            return None
        return self._compare(replace(self.candidate, ran=()), self.data, run_over(self.reference, self.data))

    @property
    def unsteady(self) -> tuple[SelfDifference, ...]:
        """How far each engine that is nondeterministic differs from itself."""
        return tuple(each.itself for each in (self.reference, self.candidate) if each.itself.relative)

    def _compare(self, opened: OpenEngine, data: Data, reference: Iterator[Chunk]) -> AccuracyResult:
        names = match_names(self.reference.engine.signature.outputs, opened.engine.signature.outputs, "output")
        with self.tools.steps.show(f"evaluating {opened.built.name} on {data.n} samples"):
            result = evaluate(
                pair_outputs(reference, map(partial(Chunk.renamed, names=names), run_over(opened, data))),
                self.metric and self._with_tools(self.metric),
                output=self.check.output,
                channels=self.check.channels,
                margin=self.check.limits.margin,
                confidence=self.check.confidence or 0.95,
                n_different=data.n_different,
                parts=find_parts(self.check, data),
                heads=[replace(head, metric=self._with_tools(head.metric)) for head in self.heads],
            )
        return replace(result, simulated=opened.engine.simulated)

    def _with_tools(self, metric: ResolvedMetric) -> ResolvedMetric:
        return replace(metric, progress=self.tools.steps.describe, kept=self._kept)

    def _kept(self, key: str, compute: Callable[[], str]) -> str:
        if not key:
            return compute()
        slot = f"interval of the drop of {self.check.candidate.model.name}"
        entry = self.tools.cache.obtain("scores", slot, {"of": key}, lambda _: {"found": compute()}, shared=False)
        return str(entry.facts["found"])


def open_bench(check: Check, data: Data, tools: Tools, opened: ExitStack, workers: Workers | None = None) -> EnginePair:
    """Build and open both engines, prove the reference, and evaluate it unless accuracy is off.

    Parameters
    ----------
    check : with the shapes of its runs.
    opened : closing this stack closes both engines.
    workers : evaluate large sets; ``None`` where this process does.

    Raises
    ------
    QuantError : an engine cannot be built or opened, does not fit the data, or the reference is no FP32 model.
    """
    ref_built = build_engine(check.reference, get_backend(check.reference.backend), data, tools)
    ref_engine = open_engine(ref_built.evaluation_engine, tools, opened)
    data = use_single_steps(data, ref_engine)
    own_names = {name: name for name in data.layout.axes}
    # Before the reference runs: a runtime may forget what it compiled when it quantizes.
    built = build_engine(check.candidate, get_backend(check.candidate.backend), data, tools)
    reference = _probe(check, OpenEngine(ref_built, ref_engine, own_names, data.output_axes), data, tools)
    outputs = add_groups(reference.first(data), check.channels)
    metric = choose_metric(check, data, outputs, choose_output(check, outputs))
    heads = choose_heads(check, data, outputs)
    del outputs
    timed_size = check.batch_size if check.latency is None else check.latency.batch_size
    size = reference.batch_size if reference.pads else timed_size
    unseen = prove_float(reference, reference.feeds(data.timed(size, check.latency_sample)[0]), tools)
    if workers is not None:
        reference = workers.take_engine(reference)
    recorded = None
    if not check.accuracy_off:
        with tools.steps.show(f"evaluating the reference {ref_built.name} on {data.n} samples"):
            recorded = record_outputs(reference, data, tools.cache, ref_built.ingredients)
    # Its memory goes before that of the candidate comes; few checks run it again.
    reference = replace(reference, ran=())
    ref_engine.set_aside(partial(ref_built.evaluation_engine.open, tools.steps.watch))
    with AddedMemory(built.backend.device) as memory:
        engine = open_engine(built.evaluation_engine, tools, opened)
        inputs = match_inputs(ref_engine.signature.inputs, engine.signature.inputs, data.layout.axes)
        axes = data.output_axes
        if axes:
            # Only then, because a function tells its outputs when it has run.
            names = match_names(ref_engine.signature.outputs, engine.signature.outputs, "output")
            axes = {names[name]: axis for name, axis in axes.items()}
        candidate = _probe(check, OpenEngine(built, engine, inputs, axes), data, tools)
        if "float16" in _kinds(engine) - _kinds(ref_engine):
            cast = "inputs are cast to it, and its outputs are compared as float32"
            candidate = replace(candidate, notes=(*candidate.notes, f"the candidate takes or gives float16: {cast}"))
    if workers is not None:
        candidate = workers.take_engine(candidate)
    timed_size = next((opened.batch_size for opened in (candidate, reference) if opened.pads), timed_size)
    feeds, sample = data.timed(timed_size, check.latency_sample)
    timed = (
        TimingSubject(ref_built, reference.feeds(feeds), sample=sample),
        TimingSubject(built, candidate.feeds(feeds), sample=sample),
    )
    return EnginePair(
        check, tools, data, reference, candidate, metric, heads, memory, recorded, unseen, timed, timed_size
    )


def _kinds(engine: Engine) -> set[str]:
    return {tensor.dtype for tensor in (*engine.signature.inputs, *engine.signature.outputs)}


def _probe(check: Check, opened: OpenEngine, data: Data, tools: Tools) -> OpenEngine:
    """Run first batches, for which some runtimes compile or load, and return how the engine takes batches."""
    with tools.steps.show(f"running first batches on {opened.built.name}"):
        return find_batching(opened, data, batch_size=check.eval_batch_size, timed_size=check.batch_size)


def read_back(opened: OpenEngine, data: Data, feeds: Feeds, size: int) -> Coverage:
    """Read back what an engine runs.

    Parameters
    ----------
    data : the evaluation set. Where branches and turns of loops differ from sample to sample, 16 batches of evenly
        spaced samples are read back.
    feeds : the batch under the engine's names that is read back everywhere else.
    size : samples in a batch.
    """
    if not opened.engine.branches:
        return opened.engine.coverage(feeds)
    batches = data.some(16 * size).batches(size, pad=True)
    return opened.engine.coverage(*(opened.feeds(batch.feeds) for batch in batches))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measurement(Measured):
    """The value of the fixture `quant`: all figures of a check, and both engines open for assertions of the test.

    Attributes
    ----------
    coverage, resources, cache : as in `Measured`, never ``None`` here.
    engine, reference : candidate and reference; `run(feeds)` runs one batch. Where they are closed to leave
        their memory to others, or were evaluated with other threads than are timed, the first run opens them anew.
    bench : for trials of other engines when a limit is broken.
    original : the torch module that the reference is an export of; ``None`` of a file or a function.
    """

    coverage: Coverage
    resources: Resources
    cache: Mapping[str, str]
    engine: Engine
    reference: Engine
    bench: EnginePair
    original: Model | None = None

    def __repr__(self) -> str:
        """Return a short text that names the check; pytest prints it if an assertion on it fails."""
        engine = self.check.candidate
        return f"<Measurement of {engine.id} of {engine.model.name} on {self.accuracy.n} samples>"

    def close(self) -> None:
        """Release both engines."""
        self.engine.close()
        self.reference.close()


def measure_check(check: Check, tools: Tools, judge: Judge) -> Measurement:
    """Build and measure everything that `check` asks for; engines that are closed meanwhile open again when they run.

    Parameters
    ----------
    check : model, data, engines and limits.
    judge : of the check's limits; a latency that breaks one is measured once more.

    Raises
    ------
    QuantError : a backend cannot run here, or the model, the data or an engine does not meet its requirements.
    """
    began_s = REAL.perf_counter()
    with tools.steps.show(f"loading {check.candidate.backend}"):
        candidate, reference = usable_backend(check.candidate), usable_backend(check.reference)
    opaque = candidate.offer.is_opaque
    models = given, _ = check.reference.model, check.candidate.quantized
    modules = [model for model in models if model is not None and model.module is not None]
    refuse_quantized(check.reference, check.candidate.quantized)
    check = check.map_engines(partial(export_spec, tools=tools))
    check = check.map_engines(partial(add_inputs, dataset=check.dataset, known={}))
    refuse_quantized(check.reference, check.candidate.quantized)
    refuse_other_floats(check.candidate)
    with ExitStack() as opened:
        with tools.locks.shared(candidate.device, reference.device, waits=check.latency is not None):
            data = read_data(check.dataset, check.reference, tools)
            check = shape_check(check, data)
            kept = [SelfDifference(each.name, keeps_state=True) for each in modules if get_exporter().keeps_state(each)]
            with ExitStack() as evaluation:
                workers = None
                if tools.workers:
                    # Here, because few runs have workers.
                    from pytest_quant.measure.workers import Workers

                    workers = evaluation.enter_context(Workers(tools.workers, tools.steps))
                bench = open_bench(check, data, tools, opened, workers)
                if check.accuracy_off:
                    accuracy, again = AccuracyResult(0, bench.metric.name if bench.metric else None), None
                else:
                    accuracy, again = bench.compare(bench.candidate, bench.data), bench.compare_again()
            with tools.steps.show(f"reading back what {bench.candidate.built.name} runs"):
                coverage = read_back(bench.candidate, bench.data, bench.timed[1].feeds, bench.latency_batch_size)
            why_not = _explain_untimed(bench)
            times = check.latency is not None and not why_not
            if times:
                deployed = timed_reference(check, bench.reference, bench.timed[0], bench.data, tools)
                bench = replace(bench, timed=(deployed, bench.timed[1]))
        evaluated_s = REAL.perf_counter()
        latency = energy = None
        for each in (bench.reference, bench.candidate):
            # Timing opens three engines; in the memory of a GPU there may be no room for more. And whoever runs an
            # engine later has the one that is timed, not the one that was evaluated on all cores.
            if times or each.built.evaluation_engine.spec != each.built.spec:
                each.engine.set_aside(partial(each.built.open, tools.steps.watch))
                each.engine.spec, each.engine.threads = each.spec, each.engine.threads and each.built.threads
        if times and check.latency is not None:
            plan = replace(check.latency, batch_size=bench.latency_batch_size)
            # Here, because a check without latency needs none of the timing.
            from pytest_quant.measure.timing import time_check

            with tools.cache.quiet():
                latency = time_check(check, plan, *bench.timed, tools, judge)
                energy = None if opaque else _energy(check, bench.timed[1], tools)
        opened.pop_all()
    built = bench.candidate.built
    unsteady = (*bench.unsteady, *kept)
    sample = bench.timed[1].sample if times else None
    of_one_size = () if sample is None or not sample.warning else (sample.warning,)
    mixed = () if bench.reference.mixed or not bench.candidate.mixed else (bench.candidate.mixed,)
    stateful = (each.words for each in unsteady if each.keeps_state)
    entries = {"engine": built} | ({} if bench.recorded is None else {"reference outputs": bench.recorded})
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
        builds={what: each.reason for what, each in entries.items() if each.status == "built" and each.reason},
        digests={
            **built.models,
            "engine": built.key,
            "reference_engine": bench.reference.built.key,
            "data": bench.data.digest,
            "calibration_data": bench.data.calibration_digest,
        },
        calibration_samples=None if built.calibration_s is None else bench.data.calibrating(built.spec.calibration),
        threads=bench.candidate.engine.threads,
        notes=(*_notes(bench, accuracy, unsteady), *of_one_size, *(() if workers is None else workers.notes)),
        warnings=(*stateful, *mixed, *of_one_size),
        accuracy_again=again,
        unsteady=unsteady,
        cost=Cost(build_s, max(0.0, evaluated_s - began_s - build_s), REAL.perf_counter() - evaluated_s),
        bench=bench,
        original=None if given.module is None else given,
    )


def _explain_untimed(bench: EnginePair) -> str:
    """Return why latency is not measured; empty if it is, or if nobody says why."""
    if bench.check.latency is None:
        return bench.check.latency_off
    for opened in (bench.reference, bench.candidate):
        if opened.engine.simulated:
            return f"{opened.spec.id} is a float simulation, and its speed says nothing about the device"
    return ""


def _energy(check: Check, candidate: TimingSubject, tools: Tools) -> Energy | None:
    """Return the energy of one timed run, ``None`` if nothing counts energy."""
    # Here, because only what is timed has an energy.
    from pytest_quant.environment.device_state import energy_counter

    device, limit_mj = candidate.device, check.limits.max_energy_mj
    with tools.locks.exclusive(device), energy_counter(device) as counter, ExitStack() as stack:
        if counter is None:
            return None
        lasts = "" if limit_mj is None else " for 15 to 30 s"
        with tools.steps.show(f"measuring the energy of {candidate.built.spec.id}{lasts}"):
            return measure_energy(candidate.open(stack).prepare(candidate.feeds), counter, limit_mj)


def _notes(bench: EnginePair, accuracy: AccuracyResult, unsteady: tuple[SelfDifference, ...]) -> tuple[str, ...]:
    recorded, check, size = bench.recorded, bench.check, bench.latency_batch_size
    notes = [*note_halves(check.reference.model), *bench.data.notes, *bench.candidate.engine.notes]
    notes += [note for opened in (bench.reference, bench.candidate) for note in opened.notes]
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
