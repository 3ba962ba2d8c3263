"""An open engine and how it takes batches: the axis of samples, and whether outputs depend on the batch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends import Engine, Feeds, Outputs
from pytest_quant.backends.feeds import FLOATS
from pytest_quant.data import Batch, Data, fixed_batch_size
from pytest_quant.errors import ModelError, QuantError, UsageError
from pytest_quant.measure.build import BuiltEngine
from pytest_quant.result import SelfDifference
from pytest_quant.spec import EngineSpec

_PROBED = 8
"""Number of samples that are run together and one by one."""

SELF_ROUNDING = 1e-6
"""Largest relative difference of two runs of one engine that the order of float32 sums explains: some eight ulps."""

_KEPT_BYTES = 32 << 20
"""Of outputs that are kept until the evaluation takes them: larger ones are computed again."""


RANGE_SAMPLES = 256
"""Samples of a range, whole batches. A message to a worker costs some 10 ms, and small ranges leave no worker idle."""


class RangeRunner(Protocol):
    """Runs ranges of batches in other processes."""

    def run(self, opened: OpenEngine, ranges: Iterator[list[Batch]]) -> Iterator[tuple[list[Batch], list[Outputs]]]:
        """Yield each range with the outputs of its batches, in order."""


@dataclass(frozen=True, slots=True)
class OpenEngine:
    """A built engine, open: it takes batches of the data and returns its outputs with the samples on axis 0.

    Attributes
    ----------
    inputs : the engine's input name for each input of the data.
    output_axes : batch axis of each output; ``None`` where one run gives one sample's output.
    batch_size : samples in one run of the evaluation.
    pads : the graph fixes that size, so that smaller batches are padded.
    notes : remarks for the user, each a sentence.
    itself : how far two runs over the same batch lie apart.
    mixed : how outputs of a sample depend on the others of its batch; empty where they do not.
    ran : outputs of the first batches of the evaluation set where they were run to look at them, at most `_KEPT_BYTES`.
    output_bytes : of the outputs of one sample, the first that was run.
    workers : run it over large sets; ``None`` where this process does.
    """

    built: BuiltEngine
    engine: Engine
    inputs: Mapping[str, str]
    output_axes: Mapping[str, int | None]
    batch_size: int = 1
    pads: bool = False
    notes: tuple[str, ...] = ()
    itself: SelfDifference = field(default_factory=SelfDifference)
    mixed: str = ""
    ran: tuple[Outputs, ...] = ()
    output_bytes: int = 0
    workers: RangeRunner | None = None

    @property
    def spec(self) -> EngineSpec:
        """The engine's specification."""
        return self.built.spec

    def feeds(self, feeds: Feeds) -> Feeds:
        """Return one batch of the data under the engine's names, floats in the engine's type of them."""
        named = {self.inputs[name]: array for name, array in feeds.items()}
        for tensor in self.engine.signature.inputs:
            if tensor.dtype in FLOATS and tensor.name in named and named[tensor.name].dtype.kind == "f":
                named[tensor.name] = named[tensor.name].astype(tensor.dtype, copy=False)
        return named

    def run(self, feeds: Feeds, n: int) -> Outputs:
        """Run one batch of the data, of `n` samples, and return its outputs as `put_samples_first` does."""
        return self.put_samples_first(self.engine.run(self.feeds(feeds)), n)

    def first(self, data: Data) -> Outputs:
        """Return the outputs of the first samples of the evaluation set, as `put_samples_first` does."""
        if self.ran:
            return self.put_samples_first(self.ran[0], self.batch_size)
        size = self.batch_size if self.pads else 1
        return self.run(data.first(size), size)

    def put_samples_first(self, outputs: Outputs, n: int) -> Outputs:
        """Put the sample axis of the engine's outputs first.

        Returns
        -------
        Outputs : arrays (n, ...) by the engine's names, padding included; float16 as float32, in which no sum over them
            overflows.

        Raises
        ------
        ModelError : an output does not hold `n` samples, the size of the batch, on its axis.
        """
        return {
            name: _move_sample_axis(name, array, self.output_axes.get(name, 0), n) for name, array in outputs.items()
        }


def run_batch(engine: Engine, feeds: Feeds, batch: Batch) -> Outputs:
    """Run one batch, given under the engine's names; the error of a run that fails names the samples."""
    try:
        return engine.run(feeds)
    except QuantError as error:
        last = batch.start + batch.n - 1
        samples = f"{batch.start} to {last}" if batch.positions is None else ", ".join(map(str, batch.positions))
        error.what += f", on sample {batch.start}" if batch.n == 1 else f", on samples {samples}"
        raise


def run_batches(engine: Engine, batches: list[Batch], ran: Iterable[Outputs] = ()) -> list[Outputs]:
    """Run batches, each with its inputs under the engine's names; errors are as those of `run_batch`.

    The first of them are not run again where `ran` gives their outputs.
    """
    given = itertools.chain(ran, itertools.repeat(None))
    return [known or run_batch(engine, batch.feeds, batch) for batch, known in zip(batches, given, strict=False)]


def _move_sample_axis(name: str, array: NDArray[Any], axis: int | None, n: int) -> NDArray[Any]:
    array = array.astype(np.float32) if array.dtype == np.float16 else array
    if axis is None:
        # The output of one sample, or, where the user says so, the same for all samples of the run.
        return np.broadcast_to(array, (n, *np.shape(array)))
    if axis >= np.ndim(array) or array.shape[axis] != n:
        raise ModelError(
            f"output '{name}' does not hold one value for each sample",
            value=f"shape {np.shape(array)} for a batch of {n}",
            allowed=f"{n} on axis {axis}",
            fix=f"name the axis that counts samples, batch_axes={{'{name}': 0}}, or None when no axis does",
        )
    return np.moveaxis(array, axis, 0) if axis else array


def find_batching(opened: OpenEngine, data: Data, *, batch_size: int | None, timed_size: int) -> OpenEngine:
    """Probe an engine with batches of several sizes, and return it with how to evaluate it.

    A sample runs by itself first: what its outputs take decides how many run together.

    Parameters
    ----------
    opened : the engine; its `output_axes` are those that the user names.
    data : the evaluation set, whose first samples are run.
    batch_size : samples in one run of the evaluation, where the user says so; ``None`` for as many as memory and the
        set allow, see `Data.find_evaluation_size`.
    timed_size : samples in one timed run; an engine whose outputs depend on the batch is evaluated with that size.

    Raises
    ------
    UsageError : the graph fixes another batch size than the user names.
    ModelError : an output has no batch axis where the graph fixes a batch of several samples, or not the one named.
    QuantError : the engine does not run on one sample.
    """
    axes, asked_axes = {opened.inputs[name]: axis for name, axis in data.layout.axes.items()}, opened.output_axes
    takes_samples = any(axis is not None for axis in axes.values())
    fixed = fixed_batch_size(opened.engine.signature, axes) if takes_samples else 1
    if fixed is not None and batch_size not in (None, fixed):
        raise UsageError(
            f"{opened.built.name} takes no batches of {batch_size}: the model fixes its batch size",
            value=f"eval_batch_size={batch_size}",
            allowed=f"{fixed}",
            fix="leave eval_batch_size out, or export the model with a free batch axis",
        )
    single = OpenEngine(opened.built, opened.engine, opened.inputs, {}, pads=fixed == 1)
    if fixed == 1:
        why = "its batch size is fixed" if takes_samples else "no input has an axis for samples"
        return _run_one_by_one(single, data, asked_axes, why)
    if fixed is not None:
        return _run_together(replace(single, batch_size=fixed, pads=True), data, asked_axes)
    return _free(single, data, asked_axes, batch_size, timed_size)


def _free(
    single: OpenEngine, data: Data, asked_axes: Mapping[str, int | None], asked_size: int | None, timed_size: int
) -> OpenEngine:
    """Return an engine that takes any batch: the first axis that grows with it is an output's batch axis."""
    batch_size = asked_size or _find_fitting_size(single, data, timed_size)
    if batch_size == 1:
        return _run_one_by_one(single, data, asked_axes, "")
    first = next(data.batches(batch_size, pad=True))
    whole = part = first.feeds
    fewer = batch_size
    try:
        large = small = single.engine.run(single.feeds(whole))
        # A part would take as long and be the same run, with copies behind it; there axis 0 counts samples.
        if not single.engine.fills:
            fewer = min(_PROBED, batch_size - 1)
            part = data.layout.samples(whole, range(fewer))
            small = single.engine.run(single.feeds(part))
    except QuantError as error:
        lines = [line.strip() for line in (error.value or error.what).splitlines() if line.strip()]
        return _run_one_by_one(single, data, asked_axes, f"a run of {batch_size} samples fails, {lines[-1][:200]}")
    output_axes: dict[str, int | None] = {}
    for name, array in large.items():
        shape, of_fewer = np.shape(array), np.shape(small.get(name, 0))
        sizes = list(zip(shape, of_fewer, strict=False))
        fits = [axis for axis, pair in enumerate(sizes) if pair == (batch_size, fewer)]
        output_axes[name] = asked_axes.get(name, next(iter(fits), None))
        if output_axes[name] not in (None, *fits):
            raise ModelError(
                f"batch_axes says that axis {output_axes[name]} of output '{name}' counts samples, and it does not",
                value=f"shape {shape} for a batch of {batch_size}, {of_fewer} for {fewer}",
                allowed=" or ".join(f"axis {axis}" for axis in fits) or "None: no axis counts samples",
            )
    batched = replace(single, output_axes=output_axes, ran=_keep_outputs(large) if first.n == batch_size else ())
    lost = [name for name, axis in output_axes.items() if axis is None]
    if lost:
        shape = np.shape(large[lost[0]])
        why = f"output '{lost[0]}' has shape {shape} for {batch_size} samples, and no axis counts them"
        return _run_one_by_one(batched, data, asked_axes, why)
    together = batched.put_samples_first(small, fewer)
    other = data.layout.samples(whole, range(batch_size - 1, batch_size - fewer - 1, -1))
    batched = replace(_compare_with_itself(batched, together, part, other), batch_size=batch_size)
    return _use_timed_size(batched, data, part, together, timed_size)


def _find_fitting_size(single: OpenEngine, data: Data, timed_size: int) -> int:
    """Return how many samples fit, by the bytes of the outputs of one; larger samples are taken to have larger outputs.

    The first sample runs where the signature does not tell them: a runtime may compile for each number of samples.
    """
    told = [(np.dtype(each.dtype).itemsize, *(each.shape or (1, None))[1:]) for each in single.engine.signature.outputs]
    if all(None not in sizes for sizes in told):
        return data.find_evaluation_size(timed_size, sum(math.prod(size or 1 for size in sizes) for sizes in told))
    feeds = data.first(1)
    try:
        ran = single.engine.run(single.feeds(feeds))
    except QuantError:
        return data.find_evaluation_size(timed_size)  # It may run on several samples only.
    given, returned = (sum(np.asarray(array).nbytes for array in arrays.values()) for arrays in (feeds, ran))
    return data.find_evaluation_size(timed_size, returned * data.sample_bytes // max(1, given))


def _use_timed_size(batched: OpenEngine, data: Data, part: Feeds, together: Outputs, timed_size: int) -> OpenEngine:
    """Set the timed batch size on an engine whose outputs for a sample depend on the other samples of the batch.

    A dynamic scheme always counts as such: its ranges are those of a batch, whether a few samples show it or not.
    """
    name = batched.spec.id
    if timed_size == batched.batch_size:
        return batched
    if batched.spec.scheme == "dynamic":
        note = f"{name} finds its ranges in each run; it is evaluated in batches of {timed_size}, as it is timed"
        return replace(batched, batch_size=timed_size, notes=(*batched.notes, note), ran=())
    fewer = len(next(iter(together.values())))
    # What one sample finds in its neighbours, one of two does not find in itself.
    rows = sorted({0, fewer - 1}) if batched.engine.fills else [*range(fewer)]
    try:
        alone = [batched.run(data.layout.samples(part, [row]), 1) for row in rows]
    except QuantError:
        return batched  # It does not run on single samples, so that there is nothing to compare with.
    of_rows = {output: [run[output] for run in alone] for output in together}
    joined = {name: np.concatenate(of) if len({row.shape for row in of}) == 1 else None for name, of in of_rows.items()}
    difference, how = _difference({name: array[rows] for name, array in together.items()}, joined, rows)
    # Kernels for other batch sizes explain as much; other ranges differ by more.
    if batched.itself.keeps_state or difference <= max(2.0**-10, batched.itself.relative):
        return batched
    apart = "one by one" if len(rows) == fewer else f"{len(rows)} of them one by one"
    note = (
        f"outputs of {name} depend on the batch: for {fewer} samples together and {apart} {how}; "
        f"it is evaluated in batches of {timed_size}, as it is timed"
    )
    return replace(batched, batch_size=timed_size, notes=(*batched.notes, note), mixed=note, ran=())


def _run_one_by_one(single: OpenEngine, data: Data, asked_axes: Mapping[str, int | None], why: str) -> OpenEngine:
    """Return an engine that runs sample by sample.

    The batch axis of an output is the first whose size is 1 in the outputs of the first samples: axis 0, or, of a model
    that takes batches, one that the graph leaves free.
    """
    batches = list(itertools.islice(data.batches(1, pad=single.pads), _PROBED))
    runs = (run_batch(single.engine, single.feeds(batch.feeds), batch) for batch in batches)
    first = next(runs)
    # Of the others no outputs are held, which may be large.
    shapes = [{name: np.shape(each) for name, each in run.items()} for run in itertools.chain([first], runs)]
    output_axes = dict(single.output_axes)
    free = {tensor.name: () if single.pads else tensor.free_axes for tensor in single.engine.signature.outputs}
    for name in first:
        sizes = enumerate(zip(*(each[name] for each in shapes), strict=False))
        fits = (axis for axis, seen in sizes if {*seen} == {1} and axis in (0, *free.get(name, ())))
        output_axes.setdefault(name, asked_axes.get(name, next(fits, None)))
    notes = (f"{single.spec.id} runs sample by sample: {why}",) if why else ()
    opened = replace(single, output_axes=output_axes, notes=notes, ran=_keep_outputs(first))
    return _compare_with_itself(opened, opened.put_samples_first(first, 1), batches[0].feeds, batches[-1].feeds)


def _run_together(fixed: OpenEngine, data: Data, asked_axes: Mapping[str, int | None]) -> OpenEngine:
    """Return an engine of a graph with a fixed batch size: the first axis of that size is an output's batch axis."""
    feeds, n = data.first(fixed.batch_size), fixed.batch_size
    first = fixed.engine.run(fixed.feeds(feeds))
    output_axes: dict[str, int | None] = {}
    for name, array in first.items():
        fits: list[int | None] = [axis for axis, size in enumerate(np.shape(array)) if size == n]
        if name in asked_axes:
            fits.append(None)
        output_axes[name] = asked_axes.get(name, next(iter(fits), None))
        if output_axes[name] not in fits:
            raise ModelError(
                f"no axis of output '{name}' counts samples",
                value=f"shape {np.shape(array)} for a batch of {n}",
                allowed=f"an axis of {n}",
                fix="export the model with a free batch axis, or with batches of 1; "
                f"where the output is the same for all samples of a run, say so: batch_axes={{'{name}': None}}",
            )
    *_, other = itertools.islice(data.batches(n, pad=True), 2)
    opened = replace(fixed, output_axes=output_axes, ran=_keep_outputs(first))
    return _compare_with_itself(opened, opened.put_samples_first(first, n), feeds, other.feeds)


def _compare_with_itself(opened: OpenEngine, first: Outputs, feeds: Feeds, other: Feeds) -> OpenEngine:
    """Run the same batch once more, and return the engine with how far both runs lie apart.

    Where they do, the batch is run after an `other` one and after itself, all of that again and again: only what keeps
    state gives the same each time.
    """
    n = len(next(iter(first.values())))
    opened = replace(opened, output_bytes=sum(array.nbytes for array in first.values()) // n)
    again = opened.run(feeds, n)
    relative, how = _difference(first, again)
    if not relative:
        return opened
    keeps_state = False
    if SELF_ROUNDING < relative < math.inf:
        _, (_, *once), (_, *twice) = ([opened.run(each, n) for each in (other, feeds, feeds)] for _ in range(3))
        repeated = max(_difference(left, right)[0] for left, right in zip(once, twice, strict=True))
        # Runs of the same order count as equal where they differ by a tenth of what two runs do.
        keeps_state = repeated < 0.1 * _difference(once[0], once[1])[0]
    changed = [_changed_pct(array, again.get(name)) for name, array in first.items()]
    top1_pct = max((share for share in changed if share is not None), default=None)
    return replace(opened, itself=SelfDifference(opened.spec.id, n, relative, top1_pct, how, keeps_state))


def _keep_outputs(run: Outputs) -> tuple[Outputs, ...]:
    """Return the outputs of a run if they may be kept, else none."""
    return (run,) if sum(np.asarray(array).nbytes for array in run.values()) <= _KEPT_BYTES else ()


def _changed_pct(first: NDArray[Any], second: Any) -> float | None:
    """Return the percentage of samples whose largest value is in another place; ``None`` for no scores of classes."""
    if first.ndim != 2 or first.shape[1] < 2 or first.dtype.kind != "f" or first.shape != np.shape(second):
        return None
    return 100.0 * float(np.mean(np.argmax(first, axis=1) != np.argmax(second, axis=1)))


def _difference(
    first: Mapping[str, NDArray[Any]], second: Mapping[str, NDArray[Any] | None], samples: Sequence[int] = ()
) -> tuple[float, str]:
    """Return the largest ||one - other|| / ||one|| over the outputs, and how they differ, in words.

    `samples` are the numbers of the rows where those are not their places. The difference is infinite where shapes,
    integers, texts or what is finite differ.
    """
    worst = 0.0
    for name, left in first.items():
        right = second.get(name)
        if right is None or left.shape != right.shape:
            return math.inf, f"shapes of output '{name}' differ"
        if np.array_equal(left, right):
            continue
        is_float = left.dtype.kind == "f"
        alike = np.isfinite(left) == np.isfinite(right) if is_float else left == right
        if not np.all(alike):
            what = "is finite in only one run" if is_float else "differs"
            row = int(np.argwhere(np.logical_not(alike))[0][0])
            return math.inf, f"sample {samples[row] if samples else row} of output '{name}' {what}"
        if is_float:
            r, c = (np.where(np.isfinite(side), side, 0).astype(np.float64) for side in (left, right))
            if distance := float(np.sqrt(np.sum((r - c) ** 2))):
                norm = float(np.sqrt(np.sum(r * r)))
                if not norm:
                    return math.inf, f"output '{name}' is 0 everywhere, then not"
                worst = max(worst, distance / norm)
    return worst, f"they differ by {100 * worst:.2g} %"
