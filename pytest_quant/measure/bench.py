"""Both engines of a check, open over the same data: how they are compared and profiled, and what that gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from pytest_quant.backends import Engine, Feeds
from pytest_quant.backends.readback import LayerTime
from pytest_quant.cache import Entry
from pytest_quant.data import Data
from pytest_quant.errors import UsageError
from pytest_quant.measure.accuracy import choose_metric, choose_output, evaluate
from pytest_quant.measure.batching import SELF_ROUNDING, OpenEngine, find_batching
from pytest_quant.measure.build import Tools, build_engine
from pytest_quant.measure.engines import TimingSubject, match_names, named_axes, open_engine, usable_backend, with_steps
from pytest_quant.measure.outputs import Chunk, read_outputs, record_outputs, run_over, side_by_side
from pytest_quant.measure.reference import prove_float
from pytest_quant.measure.resources import AddedMemory
from pytest_quant.measure.workers import Workers
from pytest_quant.metrics import ResolvedMetric
from pytest_quant.metrics.channels import with_groups
from pytest_quant.result import AccuracyResult, Coverage, Measured, Resources, SelfDifference
from pytest_quant.spec import Check


@dataclass(frozen=True, slots=True)
class Bench:
    """Both engines of a check, open over the same data; trials of other engines are compared on it too.

    Attributes
    ----------
    metric : what the score is computed by.
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
    memory: AddedMemory
    recorded: Entry | None
    unseen: str
    timed: tuple[TimingSubject, TimingSubject]
    latency_batch_size: int

    def compare(self, opened: OpenEngine, data: Data) -> AccuracyResult:
        """Compare an engine with the reference over the data of the check, or part of it."""
        if opened.engine is not self.candidate.engine:
            # Probed anew, because whether outputs depend on the batch is a matter of the scheme.
            opened = _probed(self.check, opened, data, self.tools)
        elif data is not self.data:
            opened = replace(opened, ran=())
        kept = self.recorded if data is self.data else None
        return self._compare(opened, data, run_over(self.reference, data) if kept is None else read_outputs(kept))

    def compare_again(self) -> AccuracyResult | None:
        """Evaluate both engines once more where one is nondeterministic by more than rounding, else return ``None``."""
        if not any(difference.relative > SELF_ROUNDING or difference.top1_pct for difference in self.unsteady):
            return None
        return self._compare(replace(self.candidate, ran=()), self.data, run_over(self.reference, self.data))

    @property
    def unsteady(self) -> tuple[SelfDifference, ...]:
        """How far each engine that is nondeterministic differs from itself."""
        both = (self.reference.itself, self.candidate.itself)
        return tuple(itself for itself in both if itself.relative)

    def _compare(self, opened: OpenEngine, data: Data, reference: Iterator[Chunk]) -> AccuracyResult:
        names = match_names(self.reference.engine.signature.outputs, opened.engine.signature.outputs, "output")
        with self.tools.steps.show(f"evaluating {opened.built.name} on {data.n} samples"):
            result = evaluate(
                side_by_side(reference, map(partial(Chunk.renamed, names=names), run_over(opened, data))),
                self.metric and replace(self.metric, progress=self.tools.steps.describe, kept=self._kept),
                output=self.check.output,
                channels=self.check.channels,
                margin=self.check.limits.max_drop,
                confidence=self.check.confidence or 0.95,
                n_different=data.n_different,
            )
        return replace(result, simulated=opened.engine.simulated)

    def _kept(self, key: str, compute: Callable[[], str]) -> str:
        if not key:
            return compute()
        slot = f"interval of the drop of {self.check.candidate.model.name}"
        entry = self.tools.cache.obtain("scores", slot, {"of": key}, lambda _: {"found": compute()}, shared=False)
        return str(entry.facts["found"])


def open_bench(check: Check, data: Data, tools: Tools, opened: ExitStack, workers: Workers | None = None) -> Bench:
    """Build and open both engines, prove the reference, and evaluate it unless accuracy is off.

    Parameters
    ----------
    check : with the shapes of its runs.
    data : of the check.
    opened : closing this stack closes both engines.
    workers : evaluate large sets; ``None`` where this process does.

    Raises
    ------
    QuantError : an engine cannot be built or opened, does not fit the data, or the reference is no FP32 model.
    """
    ref_built = build_engine(check.reference, usable_backend(check.reference), data, tools)
    ref_engine = open_engine(ref_built.evaluating, tools, opened)
    data = with_steps(data, ref_engine)
    own_names = {name: name for name in data.layout.axes}
    axes = named_axes(ref_engine, data.output_axes)
    # Before the reference runs: a runtime may forget what it compiled when it quantizes.
    built = build_engine(check.candidate, usable_backend(check.candidate), data, tools)
    reference = _probed(check, OpenEngine(ref_built, ref_engine, own_names, axes), data, tools)
    outputs = with_groups(reference.first(data), check.channels)
    metric = choose_metric(check, data, outputs, choose_output(check, outputs))
    del outputs
    timed_size = check.batch_size if check.latency is None else check.latency.batch_size
    size = reference.batch_size if reference.pads else timed_size
    unseen = prove_float(reference, reference.feeds(data.timed(size, check.latency_sample)[0]), tools)
    if workers is not None:
        reference = workers.taking(reference)
    recorded = None
    if not check.accuracy_off:
        with tools.steps.show(f"evaluating the reference {ref_built.name} on {data.n} samples"):
            recorded = record_outputs(reference, data, tools.cache, ref_built.backend.ingredients(check.reference))
    # Its memory goes before that of the candidate comes; few checks run it again.
    reference = replace(reference, ran=())
    ref_engine.set_aside(partial(ref_built.evaluating.open, tools.steps.watch))
    with AddedMemory(built.backend.device) as memory:
        engine = open_engine(built.evaluating, tools, opened)
        inputs = match_names(ref_engine.signature.inputs, engine.signature.inputs, "input")
        axes = named_axes(engine, data.output_axes)
        if axes:
            # Only then, because a function tells its outputs when it has run.
            names = match_names(ref_engine.signature.outputs, engine.signature.outputs, "output")
            axes = {names[name]: axis for name, axis in axes.items()}
        candidate = _probed(check, OpenEngine(built, engine, inputs, axes), data, tools)
        if "float16" in _kinds(engine) - _kinds(ref_engine):
            candidate = replace(candidate, notes=(*candidate.notes, _CAST))
    if workers is not None:
        candidate = workers.taking(candidate)
    timed_size = next((opened.batch_size for opened in (candidate, reference) if opened.pads), timed_size)
    feeds, sample = data.timed(timed_size, check.latency_sample)
    timed = (
        TimingSubject(ref_built, reference.feeds(feeds), sample=sample),
        TimingSubject(built, candidate.feeds(feeds), sample=sample),
    )
    return Bench(check, tools, data, reference, candidate, metric, memory, recorded, unseen, timed, timed_size)


_CAST = "the candidate takes or gives float16: inputs are cast to it, and its outputs are compared as float32"


def _kinds(engine: Engine) -> set[str]:
    return {tensor.dtype for tensor in (*engine.signature.inputs, *engine.signature.outputs)}


def _probed(check: Check, opened: OpenEngine, data: Data, tools: Tools) -> OpenEngine:
    """Run first batches, for which some runtimes compile or load, and return how the engine takes batches."""
    with tools.steps.show(f"running first batches on {opened.built.name}"):
        return find_batching(opened, data, batch_size=check.eval_batch_size, timed_size=check.batch_size)


_READ_BACK_RUNS = 16
"""Batches that are read back where branches and turns of loops differ from sample to sample."""


def read_back(opened: OpenEngine, data: Data, feeds: Feeds, size: int) -> Coverage:
    """Read back what an engine runs.

    Parameters
    ----------
    data : the evaluation set. Where it decides what runs, batches of evenly spaced samples are read back.
    feeds : the batch under the engine's names that is read back everywhere else.
    size : samples in a batch.
    """
    if not opened.engine.branches:
        return opened.engine.coverage(feeds)
    batches = data.some(_READ_BACK_RUNS * size).batches(size, pad=True)
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
    """

    coverage: Coverage
    resources: Resources
    cache: Mapping[str, str]
    engine: Engine
    reference: Engine
    bench: Bench

    def __repr__(self) -> str:
        """Return a short text that names the check; pytest prints it where an assertion on it fails."""
        engine = self.check.candidate
        return f"<Measurement of {engine.id} of {engine.model.name} on {self.accuracy.n} samples>"

    def close(self) -> None:
        """Release both engines."""
        self.engine.close()
        self.reference.close()


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


def profile_layers(measurement: Measurement, tools: Tools) -> LayerProfile:
    """Time the layers of both engines of a check, in the sessions and over the batch that their latency is of.

    Parameters
    ----------
    measurement : the check, measured.
    tools : the messages to the user.

    Raises
    ------
    UsageError : neither backend tells the times of layers.
    QuantError : an engine cannot be opened or run, or a device was not free in time.
    """
    check, latency = measurement.check, measurement.latency
    reference, candidate = measurement.bench.timed
    with tools.locks.exclusive(reference.device, candidate.device):
        sides = (
            _side(reference, _name(reference), None if latency is None else latency.reference_p50_ms, tools),
            _side(candidate, candidate.built.spec.id, None if latency is None else latency.candidate_p50_ms, tools),
        )
    if not any(side.layers for side in sides):
        names = " and ".join(sorted({reference.built.spec.backend, candidate.built.spec.backend}))
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


def _name(reference: TimingSubject) -> str:
    """Return the id of the engine that latency is compared with, and its precision where that is not in the id."""
    spec = reference.built.spec
    return spec.id if reference.precision in spec.id else f"{spec.id} at {reference.precision}"


def _side(subject: TimingSubject, name: str, run_ms: float | None, tools: Tools) -> SideLayers:
    with ExitStack() as opened, tools.steps.show(f"profiling {name} of {subject.built.spec.model.name}"):
        engine = subject.open(opened)
        return SideLayers(name, engine.provider, run_ms, engine.layer_times(subject.feeds))
