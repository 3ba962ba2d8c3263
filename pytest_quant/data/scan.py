"""The first pass: everything that must be known before anything is measured."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data.convert import dtype_name
from pytest_quant.data.fit import check_fit
from pytest_quant.data.hashing import hash_rows
from pytest_quant.data.labels import LabelKind, LabelScan
from pytest_quant.data.layout import Layout
from pytest_quant.data.shapes import ShapeScan
from pytest_quant.data.source import Block, Source, Wanted
from pytest_quant.errors import DataError

_FLOATS = ("float", "bfloat", "complex")


@dataclass(frozen=True, slots=True)
class Scan:
    """What one pass over a source has shown.

    Attributes
    ----------
    n : samples.
    hashes : of inputs and label, one for each sample.
    input_hashes : of the inputs alone; the same object when there are no labels, and empty when not asked for.
    labels, label_type, label_range : kind, type, smallest and largest; see `LabelScan`.
    shapes : of the samples.
    layout : where the samples lie in the inputs of the model.
    """

    n: int
    hashes: array[int]
    input_hashes: array[int]
    labels: LabelKind
    label_type: str
    label_range: tuple[float, float] | None
    shapes: ShapeScan
    layout: Layout


def scan_source(source: Source, wanted: Wanted, *, keep_input_hashes: bool) -> Scan:
    """Read the source once from end to end.

    Raises
    ------
    DataError : it is empty, does not fit the model, holds NaN or infinity, or is labelled in part.
    """
    hashes, input_hashes = array("Q"), array("Q")
    labels, shapes = LabelScan(source.what), ShapeScan()
    layout = Layout({})
    for block in source.blocks():
        where = source.what if source.arrays is not None else f"{source.what}, sample {len(hashes)}"
        if not hashes:
            layout = wanted.layout({name: array.ndim for name, array in block.feeds.items()}, source.what)
        check_fit(block.feeds, wanted.signature, layout, where)
        _check_finite(block, source.what, len(hashes))
        labels.see(block)
        shapes.see(block.feeds, block.n)
        of_inputs, of_all = hash_rows(block, source.what, len(hashes))
        hashes.extend(of_all)
        if keep_input_hashes and labels.kind != "none":
            input_hashes.extend(of_inputs)
    if not hashes:
        raise DataError(f"{source.what} holds no sample", allowed="at least one", fix="look at how it is loaded")
    if keep_input_hashes and labels.kind == "none":
        input_hashes = hashes
    return Scan(len(hashes), hashes, input_hashes, labels.kind, labels.type_name, labels.range, shapes, layout)


def _check_finite(block: Block, what: str, first: int) -> None:
    for name, values in block.feeds.items():
        if dtype_name(values.dtype).startswith(_FLOATS) and not np.isfinite(values).all():
            row = int(np.flatnonzero(~_finite_rows(values))[0])
            numbers = np.ravel(values[row])
            raise DataError(
                f"{what}, input '{name}': sample {first + row} holds NaN or infinity",
                value=str(numbers[~np.isfinite(numbers)][0]),
                allowed="finite numbers",
                fix="remove the sample or repair how it is made",
            )


def _finite_rows(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    """One truth for each sample."""
    finite: NDArray[np.bool_] = np.isfinite(values).reshape(values.shape[0], -1).all(axis=1)
    return finite
