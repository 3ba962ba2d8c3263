"""From what a fixture returned to data that has been read once and is known to fit the model."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from pytest_quant.data.batch import Batch, Feeds
from pytest_quant.data.layout import Layout, SampleShapes
from pytest_quant.data.part import Part, calibration_count, count_overlap, evenly_spaced, overlap_note
from pytest_quant.data.scan import LABEL_DTYPES, LabelKind, digest_of, scan_source
from pytest_quant.data.source import Wanted, open_source
from pytest_quant.errors import DataError, UsageError, nearest
from pytest_quant.spec import Dataset, Model, Signature


@dataclass(frozen=True, slots=True)
class Data:
    """An evaluation set and its calibration set, apart from each other; see `open_data`.

    Attributes
    ----------
    name : what messages call it.
    n, n_calibration : samples to evaluate, and samples to calibrate with (0: none).
    digest : sha256 in hex over inputs and labels of the evaluation set, in order: names, dtypes, shapes, bytes.
    calibration_digest : the same over the inputs of the calibration set; empty without one.
    labels : ``none``, ``int``, ``float``, or ``object`` for any but numbers of one shape.
    label_type : what objects are, as a message names it; empty for the other kinds.
    label_range : smallest and largest number in any label, ``None`` without labels and for objects.
    shapes : of the samples of both sets, by input.
    overlap : calibration samples whose inputs equal those of an evaluation sample.
    notes : what the user should know, in sentences.
    calibration_indices : samples of the data that calibrate and are therefore not evaluated; empty when
        there is no calibration set, or one of its own.
    layout : where the samples lie in the inputs of the model.
    output_axes : axes of outputs that count samples, where the user names them.
    steps : takes batches of sequences apart into what the model takes in each step; ``None`` without a state.
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
    overlap: int
    notes: tuple[str, ...]
    calibration_indices: tuple[int, ...] = field(repr=False)
    evaluation_part: Part = field(repr=False)
    calibration_part: Part | None = field(repr=False)
    layout: Layout
    output_axes: Mapping[str, int | None] = field(default_factory=dict)
    steps: Callable[[Iterator[Feeds]], Iterator[Feeds]] | None = field(default=None, repr=False)

    @property
    def fixed_batch_size(self) -> int | None:
        """The number of samples in one run where the model fixes it: 1 when no input has an axis for them."""
        return self.layout.fixed_batch_size if any(axis is not None for axis in self.layout.axes.values()) else 1

    @property
    def sample_hashes(self) -> array[int]:
        """The 64-bit hash of each evaluated sample, inputs and label, in order."""
        return self.evaluation_part.pick(self.evaluation_part.hashes)

    def batches(self, batch_size: int, pad: bool = False) -> Iterator[Batch]:
        """Start a pass over the evaluation set.

        Samples of equal shape make a batch, though they need not follow each other. With `pad` the inputs of a batch
        that is not full are filled up with its last sample; labels are not.

        Raises
        ------
        DataError : while iterating, when a stream is not what it was in the first pass.
        """
        _check_batch_size(batch_size)
        return self.evaluation_part.batches(batch_size, pad=pad)

    def calibration(self, batch_size: int, samples: int | None = None) -> Iterator[Feeds]:
        """Start a pass over the calibration set, or over `samples` evenly spaced ones of it.

        Samples of another shape begin another batch. Where the model fixes its batch size, that one is used
        and the last batch is filled up with its last sample.

        Raises
        ------
        DataError : there are no calibration samples; while iterating, when a stream is not what it was.
        """
        _check_batch_size(batch_size)
        if self.calibration_part is None:
            raise DataError(
                f"{self.name} has no calibration samples",
                allowed="a count, a share, or data of the same form without labels",
                fix="write Dataset.from_arrays(inputs, labels, calibration=100)",
            )
        part = self.calibration_part if samples is None else self.calibration_part.spaced(samples)
        pad = self.fixed_batch_size is not None
        batches = (batch.feeds for batch in part.batches(self.fixed_batch_size or batch_size, pad=pad))
        return batches if self.steps is None else self.steps(batches)

    def some(self, samples: int) -> Data:
        """The same data with at most so many evenly spaced samples to evaluate, which are kept in memory."""
        if samples >= self.n:
            return self
        return replace(self, n=samples, evaluation_part=self.evaluation_part.spaced(samples).held())

    def first(self, batch_size: int) -> Feeds:
        """The first evaluation samples as one full batch; the last is repeated when there are fewer of its shape."""
        return next(self.batches(batch_size, pad=True)).feeds


def _check_batch_size(batch_size: int) -> None:
    if batch_size < 1:
        raise UsageError("a batch holds at least one sample", value=f"batch_size={batch_size}", fix="batch_size=1")


def open_data(dataset: Dataset, signature: Signature, model: Model | None = None) -> Data:
    """Read `dataset` once, check it against the model's inputs, and set calibration samples apart.

    Arrays are sliced later, iterables and loaders iterated again: nothing is held but eight bytes for each
    sample (sixteen while reading labelled data that calibrates), against which later passes are compared.

    Parameters
    ----------
    model : tells which axes count samples, and which outputs are fed back, where it says so.

    Raises
    ------
    DataError : empty, one-shot, not finite, labelled in part, or not what the model takes; more than 10 % of
        the calibration samples are evaluated too; or nothing is left to evaluate.
    """
    what = dataset.name
    wanted = Wanted(
        signature,
        batch_axes=dict(() if model is None else model.batch_axes),
        in_arrays=dict(dataset.batch_axes),
        states=frozenset(() if model is None else dict(model.state).values()),
    )
    _check_axes(wanted, what)
    source = open_source(dataset.kind, dataset.inputs, dataset.labels, wanted, what, labelled=True)
    asked = dataset.calibration
    scan = scan_source(source, wanted, keep_input_hashes=asked is not None)
    evaluation = Part(source, scan.layout, scan.hashes, None, LABEL_DTYPES[scan.labels])
    calibration: Part | None = None
    taken: list[int] = []
    evaluated, calibrated = scan.input_hashes, array("Q")
    if isinstance(asked, (int, float)):
        taken = evenly_spaced(scan.n, calibration_count(asked, scan.n, what))
        calibration, evaluation = _split(evaluation, taken)
        evaluated, calibrated = evaluation.pick(scan.input_hashes), calibration.pick(scan.input_hashes)
    elif asked is not None:
        own = open_source(dataset.kind, asked, None, wanted, f"{what}, calibration", labelled=False)
        of_calibration = scan_source(own, wanted, keep_input_hashes=False)
        scan.shapes.add(of_calibration.shapes)
        calibrated = of_calibration.hashes
        calibration = Part(own, of_calibration.layout, calibrated, None)
    overlap = count_overlap(calibrated, evaluated)
    return Data(
        name=what,
        n=scan.n - len(taken),
        n_calibration=len(calibrated),
        digest=digest_of(evaluation.pick(scan.hashes)),
        calibration_digest=digest_of(calibrated) if calibration else "",
        labels=scan.labels,
        label_type=scan.label_type,
        label_range=scan.label_range,
        shapes=scan.shapes.found(),
        overlap=overlap,
        notes=overlap_note(overlap, len(calibrated), what),
        calibration_indices=tuple(taken),
        evaluation_part=evaluation,
        calibration_part=calibration,
        layout=scan.layout,
        output_axes=wanted.of_outputs,
    )


def _check_axes(wanted: Wanted, what: str) -> None:
    """Raise `DataError` when `batch_axes` names something that the model does not have."""
    names = [tensor.name for tensor in (*wanted.signature.inputs, *wanted.signature.outputs)]
    for name in (*wanted.batch_axes, *wanted.in_arrays):
        if name not in names:
            raise DataError(
                f"{what}: batch_axes names an input or output that the model does not have",
                value=repr(name),
                allowed=nearest(name, names),
            )


def _split(whole: Part, taken: list[int]) -> tuple[Part, Part]:
    """The samples at the indices `taken`, and all others."""
    chosen = np.zeros(len(whole.hashes), bool)
    chosen[taken] = True
    return replace(whole, chosen=chosen), replace(whole, chosen=~chosen)
