"""From what a fixture returned to data that is known to fit."""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np

from pytest_quant.data.data import Data
from pytest_quant.data.hashing import digest_of
from pytest_quant.data.labels import LABEL_DTYPES
from pytest_quant.data.part import Part
from pytest_quant.data.scan import scan_source
from pytest_quant.data.source import Wanted, open_source
from pytest_quant.data.split import calibration_count, count_overlap, evenly_spaced, overlap_note
from pytest_quant.errors import DataError, nearest
from pytest_quant.spec import Dataset, Model, Signature


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
