"""Data of a test, read once and checked against the model's inputs."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data.batch import Batch, Feeds, LabelKind, groups_of
from pytest_quant.data.layout import Layout, SampleShapes, find_shapes
from pytest_quant.data.scan import SampleSet, digest_of, even_indices, scan_samples, split_indices
from pytest_quant.data.source import DataContract
from pytest_quant.errors import DataError, nearest
from pytest_quant.result import TimedSample
from pytest_quant.spec import Calibration, Dataset, Model, Signature

EVAL_BATCH_SIZE = 32
"""Most samples in a batch of the evaluation, where its size is ours to choose."""

_BATCH_BYTES = 32_000_000
"""Most bytes of inputs, outputs and the largest tensor of one batch, where its size is ours to choose.

Larger batches of samples of a megabyte leave the processor's caches and run slower. A bound that followed the free
memory would give other batches, and so other outputs, on each machine.
"""


@dataclass(frozen=True, slots=True)
class Data:
    """A disjoint evaluation set and calibration set; see `open_data`.

    Attributes
    ----------
    name : of the data in messages.
    n, n_calibration : number of evaluation samples, and of calibration samples (0: none).
    digest : sha256 in hex over inputs and labels of the evaluation set, in order: names, dtypes, shapes, bytes.
    calibration_digest : the same over the inputs of the calibration set; empty without one.
    labels : ``none``, ``int``, ``float``, or ``object`` for any but numbers of one shape.
    label_type : names of the Python types of object labels, for messages; empty for the other kinds.
    label_range : smallest and largest number in any label, ``None`` without labels and for objects.
    shapes : of the samples of both sets, by input name.
    sample_bytes : of all inputs of the largest sample.
    tensor_bytes : of the largest tensor inside the model for that sample; 0 where nothing tells.
    notes : remarks for the user, each a sentence.
    layout : the batch axis of each input of the model.
    output_axes : batch axes of outputs that the user names, by output name.
    input_hashes : of the inputs of each evaluation sample, in order.
    free : inputs that the model leaves a size but that of the batch to the data.
    groups : of each evaluation sample, as text (n,); ``None`` without groups.
    steps : splits batches of sequences into the feeds of each step; ``None`` for a model without a state.
    """

    name: str
    n: int
    n_calibration: int
    digest: str
    calibration_digest: str
    labels: LabelKind
    label_type: str
    label_range: tuple[float, float] | None
    shapes: Mapping[str, SampleShapes]
    notes: tuple[str, ...]
    evaluation_part: SampleSet = field(repr=False)
    calibration_part: SampleSet | None = field(repr=False)
    layout: Layout
    sample_bytes: int = 0
    tensor_bytes: int = 0
    input_hashes: array[int] = field(default_factory=lambda: array("Q"), repr=False)
    output_axes: Mapping[str, int | None] = field(default_factory=dict)
    free: frozenset[str] = frozenset()
    groups: NDArray[np.str_] | None = field(default=None, repr=False)
    steps: Callable[[Iterator[Feeds]], Iterator[Feeds]] | None = field(default=None, repr=False)

    @property
    def n_different(self) -> int:
        """Number of evaluation samples with other inputs than all before them."""
        return len(set(self.input_hashes))

    @property
    def fixed_batch_size(self) -> int | None:
        """The number of samples in one run if the model fixes it: 1 when no input has an axis for them."""
        return self.layout.fixed_batch_size if any(axis is not None for axis in self.layout.axes.values()) else 1

    def fit_batch_size(self, batch_size: int = EVAL_BATCH_SIZE, output_bytes: int = 0) -> int:
        """Return how many samples to run at once: `batch_size`, or as many fewer, at least 1, as memory is to hold.

        That follows from the bytes of one sample alone: of its inputs, of the largest tensor, and of its outputs.
        """
        return max(1, min(batch_size, _BATCH_BYTES // max(1, self.sample_bytes + self.tensor_bytes + output_bytes)))

    def find_evaluation_size(self, timed_size: int, output_bytes: int = 0) -> int:
        """Return how many samples to evaluate at once: as many as memory and the set allow, see `fitting`.

        Not fewer than are timed together, for which there must be memory.
        """
        most = min(EVAL_BATCH_SIZE, self.n)
        return max(self.fit_batch_size(most, output_bytes), min(timed_size, most))

    def batches(self, batch_size: int, pad: bool = False) -> Iterator[Batch]:
        """Start a pass over the evaluation set.

        A batch holds samples of equal shape, which need not be consecutive. With `pad` the inputs of a batch that is
        not full are filled up with its last sample; labels are not.

        Raises
        ------
        DataError : while iterating, when a sample differs from the first pass.
        """
        return self.evaluation_part.batches(batch_size, pad=pad)

    def calibration(self, batch_size: int, samples: int | None = None) -> Iterator[Feeds]:
        """Start a pass over the calibration set, if there is one, or over `samples` evenly spaced samples of it.

        Samples of different shapes are in different batches. Where the model fixes its batch size, that size replaces
        `batch_size`, and a batch that is not full is filled up with its last sample; else a batch is not larger than
        `fitting` says.

        Raises
        ------
        DataError : while iterating, when a sample differs from the first pass.
        """
        part = self.calibration_part
        if part is None:
            return iter(())
        if samples is not None and samples < self.n_calibration:
            part = part.at(even_indices(self.n_calibration, samples))
        pad = self.fixed_batch_size is not None
        batches = (
            batch.feeds for batch in part.batches(self.fixed_batch_size or self.fit_batch_size(batch_size), pad=pad)
        )
        return batches if self.steps is None else self.steps(batches)

    def calibrating(self, plan: Calibration) -> int:
        """Return how many of the calibration samples a plan uses."""
        return min(plan.samples or self.n_calibration, self.n_calibration)

    def some(self, samples: int) -> Data:
        """Return the data with at most `samples` evenly spaced evaluation samples, held in memory."""
        if samples >= self.n:
            return self
        indices = even_indices(self.n, samples)
        return _pick(self, indices, self.evaluation_part.at(indices).load())

    def split(self, samples: int) -> tuple[Data, Data]:
        """Return some evaluation samples, held in memory, and others between them, see `split_indices`."""
        both = self.some(5 * samples)
        ours, others = split_indices(both.n, samples)
        part = both.evaluation_part
        return _pick(both, ours, part.at(ours)), _pick(both, others, part.at(others))

    def first(self, batch_size: int) -> Feeds:
        """Return the first evaluation samples as one full batch, its last sample repeated if there are too few."""
        return next(self.batches(batch_size, pad=True)).feeds

    def timed(self, batch_size: int, index: int | None = None) -> tuple[Feeds, TimedSample]:
        """Return the full batch that is timed: a sample and the next samples of its shapes, the last sample repeated.

        Parameters
        ----------
        index : of the sample in the evaluation set; ``None`` for the one of median size, which is the first where all
            samples have one size.

        Raises
        ------
        DataError : the evaluation set has no such sample.
        """
        part = self.evaluation_part
        sizes = part.pick(part.sizes)
        index = sizes.index(statistics.median_low(sizes)) if index is None else index
        if index >= len(sizes):
            raise DataError(
                f"{self.name}: latency_sample names a sample that the evaluation set does not have",
                value=f"{index} of {len(sizes)} samples",
                allowed=f"0 to {len(sizes) - 1}: samples that are taken for calibration do not count",
                fix="leave latency_sample out: the sample of median size is then timed",
            )
        batches = part.at(slice(index, None)).batches(batch_size, pad=True)
        feeds = next(batch.feeds for batch in batches if batch.start == 0)
        shapes = {name: array.shape for name, array in feeds.items() if name in self.free}
        return feeds, TimedSample(index, shapes, (min(sizes), max(sizes)))


def _pick(data: Data, indices: list[int], part: SampleSet) -> Data:
    """Return the data with the samples of these indices, which `part` has."""
    hashes = array("Q", (data.input_hashes[index] for index in indices))
    groups = None if data.groups is None else data.groups[indices]
    return replace(data, n=len(indices), evaluation_part=part, input_hashes=hashes, groups=groups)


def open_data(dataset: Dataset, signature: Signature, model: Model | None = None) -> Data:
    """Read `dataset` once, check it against the model's inputs, and separate the calibration samples.

    Arrays are sliced later, iterables and loaders iterated again: only two hashes of eight bytes are held for each
    sample, one of the inputs and one with the label, against which later passes are compared.

    Parameters
    ----------
    dataset : the user's samples.
    signature : inputs and outputs of the model.
    model : source of the batch axes and the fed back outputs that the user names; ``None`` for none.

    Raises
    ------
    DataError : the data is empty, can be iterated only once, contains NaN or infinity, is labelled in part, or does
        not fit the model; more than 10 % of the calibration samples are evaluated too; or no sample is left to
        evaluate.
    """
    what = dataset.name
    contract = DataContract(
        signature,
        axes=dict((*(() if model is None else model.batch_axes), *dataset.batch_axes)),
        in_arrays=dict(dataset.batch_axes),
        states=frozenset(() if model is None else dict(model.state).values()),
    )
    _check_axes(contract, what)
    calibrating = dataset.calibration
    evaluation, scan = scan_samples(dataset, contract, labelled=True)
    n, kinds, most_bytes = len(scan.hashes), scan.kinds, scan.most_bytes
    groups = None if dataset.groups is None else groups_of(dataset.groups, n, what)
    calibration: SampleSet | None = None
    taken: list[int] = []
    evaluated, calibrated = scan.input_hashes, array("Q")
    if isinstance(calibrating, (int, float)):
        taken = even_indices(n, calibration_count(calibrating, n, what))
        evaluation, calibration = evaluation.at(np.delete(np.arange(n), taken)), evaluation.at(taken)
        evaluated, calibrated = evaluation.pick(scan.input_hashes), calibration.pick(scan.input_hashes)
    elif calibrating is not None:
        apart = replace(dataset, inputs=calibrating, labels=None, calibration=None, name=f"{what}, calibration")
        calibration, own = scan_samples(apart, contract, labelled=False)
        kinds, most_bytes, calibrated = kinds + own.kinds, max(most_bytes, own.most_bytes), own.hashes
    different = len(set(evaluated))
    repeats = [f"{what}: {len(evaluated)} samples, {different} of them different"] if different < len(evaluated) else []
    return Data(
        name=what,
        n=n - len(taken),
        n_calibration=len(calibrated),
        digest=digest_of(evaluation.pick(scan.hashes)),
        calibration_digest=digest_of(calibrated) if calibration else "",
        labels=scan.labels,
        label_type=scan.label_type,
        label_range=scan.label_range,
        shapes=find_shapes(kinds),
        sample_bytes=most_bytes,
        notes=(*note_overlap(calibrated, evaluated, what), *repeats),
        input_hashes=evaluated,
        groups=groups if groups is None or evaluation.chosen is None else groups[evaluation.chosen],
        evaluation_part=evaluation,
        calibration_part=calibration,
        layout=evaluation.layout,
        output_axes={each.name: contract.axes[each.name] for each in signature.outputs if each.name in contract.axes},
        free=frozenset(
            tensor.name
            for tensor in signature.inputs
            if tensor.shape is None or {*tensor.free_axes} - {evaluation.layout.axes.get(tensor.name)}
        ),
    )


def _check_axes(contract: DataContract, what: str) -> None:
    """Raise `DataError` when `batch_axes` names something that the model does not have."""
    names = [tensor.name for tensor in (*contract.signature.inputs, *contract.signature.outputs)]
    for name in contract.axes:
        if name not in names:
            raise DataError(
                f"{what}: batch_axes names an input or output that the model does not have",
                value=repr(name),
                allowed=nearest(name, names),
            )


def calibration_count(calibration: float, n: int, what: str) -> int:
    """Return the number of calibration samples to take out of the data.

    Parameters
    ----------
    calibration : an int is the count itself; a float is a share of `n`, 0 < share < 1, and gives
        ``max(1, round(share * n))``.
    n : samples in the data.
    what : name of the data in messages.

    Raises
    ------
    DataError : no sample would be left to evaluate.
    """
    k = calibration if isinstance(calibration, int) else max(1, round(calibration * n))
    if k >= n:
        raise DataError(
            f"{what}: no sample is left to evaluate",
            value=f"calibration={calibration!r} takes {k} of {n} samples",
            allowed=f"fewer than {n}",
            fix="take fewer, or give calibration samples of their own: calibration=inputs",
        )
    return k


def note_overlap(calibrated: array[int], evaluated: array[int], what: str) -> tuple[str, ...]:
    """Return a note about the calibration samples that are evaluated too; empty when there are none.

    Parameters
    ----------
    calibrated, evaluated : hashes of the inputs of both sets.
    what : name of the data in messages.

    Raises
    ------
    DataError : they are more than 10 % of the calibration samples.
    """
    shared = set(calibrated).intersection(evaluated)
    overlap = sum(value in shared for value in calibrated)
    if not overlap:
        return ()
    text = (
        f"{overlap} of {len(calibrated)} calibration samples have the contents of evaluation samples "
        f"({100 * overlap / len(calibrated):.1f} %)"
    )
    if overlap > 0.1 * len(calibrated):
        raise DataError(
            f"{what}: {text}: the accuracy would be measured on what was calibrated with",
            allowed="at most 10 % of the calibration samples",
            fix="split by sample, calibration=100 does, and remove duplicates",
        )
    return (f"{what}: {text}",)
