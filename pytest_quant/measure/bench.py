"""Both engines of a check, open over the same data, how they are compared, and what measuring them gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pytest_quant.backends import Engine
from pytest_quant.data import Data
from pytest_quant.measure.accuracy import OutputPair, choose_metric, choose_output, evaluate
from pytest_quant.measure.batching import Batched, find_batching
from pytest_quant.measure.build import Tools, build_engine
from pytest_quant.measure.engines import (
    OpenEngine,
    match_names,
    named_axes,
    open_engine,
    renamed,
    usable_backend,
    with_steps,
)
from pytest_quant.measure.outputs import Chunk, RecordedOutputs, record_outputs, run_over, side_by_side
from pytest_quant.measure.reference import prove_float
from pytest_quant.measure.resources import AddedMemory
from pytest_quant.measure.sessions import TimingSubject
from pytest_quant.metrics import ResolvedMetric
from pytest_quant.metrics.channels import with_groups
from pytest_quant.result import AccuracyResult, Measured, SelfDifference
from pytest_quant.spec import Check

EVAL_BATCH_SIZE = 32

SELF_ROUNDING = 1e-6
"""Largest relative difference of two runs of one engine that the order of float32 sums explains: some eight ulps."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Both engines of a check, open over the same data; trials of other engines are compared on it too.

    Attributes
    ----------
    output, metric : what the score is computed of, and by.
    memory : that opening the candidate added.
    recorded : outputs of the reference over all of the data.
    unseen : what is not proven of the reference because it cannot be seen into; empty where everything can.
    timed : reference and candidate as their latency is measured.
    """

    check: Check
    tools: Tools
    data: Data
    reference: OpenEngine
    candidate: OpenEngine
    output: str
    metric: ResolvedMetric | None
    memory: AddedMemory
    recorded: RecordedOutputs
    unseen: str
    timed: tuple[TimingSubject, TimingSubject]

    def compare(self, opened: OpenEngine, data: Data) -> AccuracyResult:
        """Compare an engine with the reference over the data of the check, or part of it."""
        if opened.engine is not self.candidate.engine:
            # Probed anew, because whether outputs depend on the batch is a matter of the scheme.
            ours = self.candidate.batched
            batched = _batched(self.check, opened.engine, data, ours.inputs, ours.output_axes, self.tools)
            opened = replace(opened, batched=batched)
        whole = data is self.data
        return self._compare(opened, data, self.recorded.chunks() if whole else run_over(self.reference.batched, data))

    def compare_again(self) -> AccuracyResult | None:
        """Evaluate both engines once more where one is nondeterministic by more than rounding, else return ``None``."""
        if not any(difference.relative > SELF_ROUNDING or difference.top1_pct for difference in self.unsteady):
            return None
        return self._compare(self.candidate, self.data, run_over(self.reference.batched, self.data))

    @property
    def unsteady(self) -> tuple[SelfDifference, ...]:
        """How far each engine that is nondeterministic differs from itself."""
        both = (opened.batched.itself for opened in (self.reference, self.candidate))
        return tuple(each for each in both if each.relative)

    @property
    def latency_batch_size(self) -> int:
        """Samples in one timed run: those that the check asks for, unless a graph fixes its batch size."""
        return latency_batch_size(self.check, self.candidate, self.reference)

    def reopened(self) -> Bench:
        """Return the bench with both of its engines opened anew. Raises `BuildError` where one cannot be loaded."""
        with ExitStack() as opened:
            reference, candidate = (
                one.like(one.built, open_engine(one.built, self.tools, opened))
                for one in (self.reference, self.candidate)
            )
            opened.pop_all()
        return replace(self, reference=reference, candidate=candidate)

    def _compare(self, opened: OpenEngine, data: Data, reference: Iterator[Chunk]) -> AccuracyResult:
        with self.tools.steps.show(f"evaluating {opened.built.name} on {data.n} samples"):
            chunks = renamed(run_over(opened.batched, data), self.reference.engine.signature, opened.engine.signature)
            pairs = (
                OutputPair(theirs.outputs, ours.outputs, ours.labels, ours.start, ours.n)
                for theirs, ours in side_by_side(reference, chunks)
            )
            result = evaluate(
                pairs,
                self.metric,
                output=self.output,
                channels=self.check.channels,
                margin=self.check.limits.max_drop,
                confidence=self.check.confidence or 0.95,
            )
        return replace(result, simulated=opened.engine.simulated)


def latency_batch_size(check: Check, *engines: OpenEngine) -> int:
    """Return the samples in one timed run: those that the check asks for, unless a graph fixes its batch size."""
    fixed = (opened.batched.batch_size for opened in engines if opened.batched.pads)
    return next(fixed, check.batch_size if check.latency is None else check.latency.batch_size)


def open_bench(check: Check, data: Data, tools: Tools, opened: ExitStack) -> Bench:
    """Build and open both engines, prove the reference, and evaluate it.

    Parameters
    ----------
    check : with the shapes of its runs.
    data : of the check.
    opened : closing this stack closes both engines.

    Raises
    ------
    QuantError : an engine cannot be built or opened, does not fit the data, or the reference is no FP32 model.
    """
    ref_built = build_engine(check.reference, usable_backend(check.reference), data, tools)
    ref_engine = open_engine(ref_built, tools, opened)
    data = with_steps(data, ref_engine)
    own_names = {name: name for name in data.layout.axes}
    batched = _batched(check, ref_engine, data, own_names, named_axes(ref_engine, data.output_axes), tools)
    reference = OpenEngine(ref_built, batched)
    outputs = with_groups(batched.run(data.first(batched.batch_size), batched.batch_size), check.channels)
    output = choose_output(check, outputs)
    metric = choose_metric(check, data, outputs, output)
    built = build_engine(check.candidate, usable_backend(check.candidate), data, tools)
    with AddedMemory(built.backend.device) as memory:
        engine = open_engine(built, tools, opened)
        inputs = match_names(ref_engine.signature.inputs, engine.signature.inputs, "input")
        names = match_names(ref_engine.signature.outputs, engine.signature.outputs, "output")
        axes = {names[name]: axis for name, axis in named_axes(engine, data.output_axes).items()}
        candidate = OpenEngine(built, _batched(check, engine, data, inputs, axes, tools))
    feeds = data.first(latency_batch_size(check, candidate, reference))
    unseen = prove_float(reference, reference.feeds(feeds), tools)
    with tools.steps.show(f"evaluating the reference {ref_built.name} on {data.n} samples"):
        ingredients = ref_built.backend.ingredients(check.reference)
        recorded = record_outputs(batched, data, tools.cache, ingredients)
    timed = (
        TimingSubject(ref_built, reference.feeds(feeds)),
        TimingSubject(built, candidate.feeds(feeds)),
    )
    return Bench(check, tools, data, reference, candidate, output, metric, memory, recorded, unseen, timed)


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
    with tools.steps.show(f"running first batches on {spec.id} of {spec.model.name}"):
        return find_batching(
            engine,
            data,
            inputs,
            output_axes,
            batch_size=check.eval_batch_size or EVAL_BATCH_SIZE,
            timed_size=check.batch_size,
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measurement(Measured):
    """The value of the fixture `quant`: all figures of a check, and both engines open for assertions of the test.

    Attributes
    ----------
    engine, reference : candidate and reference; `run(feeds)` runs one batch. They are closed while others are timed,
        see `reopened`.
    bench : for trials of other engines when a limit is broken.
    """

    engine: Engine
    reference: Engine
    bench: Bench | None = None

    def __repr__(self) -> str:
        """Return a short text that names the check; pytest prints it where an assertion on it fails."""
        engine = self.check.candidate
        return f"<Measurement of {engine.id} of {engine.model.name} on {self.accuracy.n} samples>"

    def close(self) -> None:
        """Release both engines."""
        self.engine.close()
        self.reference.close()


def reopened(measurement: Measurement) -> Measurement:
    """Return a measurement with both engines open, which `measure_check` closed to leave their memory to timed ones.

    Raises
    ------
    BuildError : the runtime cannot load an engine again.
    """
    if measurement.bench is None or measurement.latency is None:
        return measurement
    bench = measurement.bench.reopened()
    return replace(measurement, engine=bench.candidate.engine, reference=bench.reference.engine, bench=bench)
