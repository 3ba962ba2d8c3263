"""The first pass over data: hashes, kinds of labels, shapes, and whether every sample fits the model."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data.batch import canonical_bytes, dtype_name
from pytest_quant.data.label_forms import is_object
from pytest_quant.data.layout import Layout, ShapeScan
from pytest_quant.data.source import Block, Source, Wanted, check_fit
from pytest_quant.errors import DataError

LabelKind = Literal["none", "int", "float", "object"]

LABEL_DTYPES: dict[LabelKind, type[np.int64 | np.float64 | np.object_]] = {
    "none": np.int64,
    "int": np.int64,
    "float": np.float64,
    "object": np.object_,
}
"""The dtype of each kind of labels in a batch."""


class LabelScan:
    """Finds kind and range of the labels from every block of one pass.

    Attributes
    ----------
    kind : ``none``, ``int``, ``float`` when any label is one, or ``object`` when they are not numbers of one shape.
    range : smallest and largest number in any label, ``None`` without labels and for objects.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._shape: tuple[int, ...] | None = None
        self._seen = 0
        self._types: set[str] = set()
        self.kind: LabelKind = "none"
        self.range: tuple[float, float] | None = None

    @property
    def type_name(self) -> str:
        """Names of the Python types of object labels, for messages; empty for other kinds."""
        if self.kind != "object":
            return ""
        return " and ".join(sorted(self._types)) or "arrays of different shapes"

    def see(self, block: Block) -> None:
        """Add the labels of the next block.

        Raises
        ------
        DataError : only some samples have a label.
        """
        labels = block.labels
        if self._seen and (labels is None) != (self.kind == "none"):
            raise self._partly(self._seen)
        if labels is not None:
            if is_object(labels):
                self._see_objects(labels)
            else:
                self._see_numbers(labels)
        self._seen += block.n

    def _see_objects(self, labels: NDArray[Any]) -> None:
        for index, label in enumerate(labels):
            if label is None:
                raise self._partly(self._seen + index)
            self._types.add(type(label).__name__)
        self.kind, self.range = "object", None

    def _see_numbers(self, labels: NDArray[Any]) -> None:
        if self.kind == "object" or self._shape not in (None, labels.shape[1:]):
            self.kind, self.range = "object", None
            return
        self._shape = labels.shape[1:]
        if self.kind != "float":
            self.kind = "float" if labels.dtype.kind == "f" else "int"
        numbers = [labels.min().item(), labels.max().item(), *(self.range or ())] if labels.size else self.range
        self.range = (min(numbers), max(numbers)) if numbers else None

    def _partly(self, sample: int) -> DataError:
        return DataError(
            f"{self._what}: some samples have a label and some have none",
            value=f"sample {sample} is the first that is different",
            allowed="a label for every sample, or for none",
            fix="label them all, or give inputs only",
        )


_HASH_BYTES = 8


def hash_rows(block: Block, what: str, first: int) -> tuple[array[int], array[int]]:
    """Hash every sample of a block.

    A hash is the first eight bytes of a sha256 over name, dtype, shape and bytes of every input; two unequal samples
    have equal hashes with probability 2^-64.

    Parameters
    ----------
    block : consecutive samples.
    what : name of the data in messages.
    first : index of the block's first sample in the data, for messages.

    Returns
    -------
    Two arrays with one 64-bit hash for each sample: of its inputs alone, and of its inputs and label.

    Raises
    ------
    DataError : a label contains a type that `canonical_bytes` cannot encode.
    """
    columns = [(f"{name}|".encode(), _rows(values)) for name, values in sorted(block.feeds.items())]
    labels = None if block.labels is None else _label_rows(block.labels, what, first)
    of_inputs, of_all = array("Q"), array("Q")
    for i in range(block.n):
        state = hashlib.sha256()
        for name, (prefix, rows) in columns:
            state.update(name + prefix)
            state.update(rows[i])
        of_inputs.frombytes(state.digest()[:_HASH_BYTES])
        if labels is not None:
            state.update(b"label|" + labels[0])
            state.update(labels[1][i])
            of_all.frombytes(state.digest()[:_HASH_BYTES])
    return of_inputs, of_all if labels is not None else of_inputs


def _label_rows(labels: NDArray[np.generic], what: str, first: int) -> tuple[bytes, list[bytes] | list[memoryview]]:
    """Return the same as `_rows` for labels; objects are encoded by their content, not by how they print."""
    if not is_object(labels):
        return _rows(labels)
    return b"object|", [
        canonical_bytes(label, f"{what}: the label of sample {first + i}") for i, label in enumerate(labels)
    ]


def _rows(values: NDArray[np.generic]) -> tuple[bytes, list[bytes] | list[memoryview]]:
    """Return dtype and shape of a row, and the bytes of each row, without a copy where memory is contiguous."""
    n = values.shape[0]
    kind = f"{dtype_name(values.dtype)}{values.shape[1:]}|".encode()
    if n > 1 and values.strides[0] == 0 and values.dtype.kind != "O":
        # A broadcast value is hashed with each sample, and copied once.
        return kind, [np.ascontiguousarray(values[0]).tobytes()] * n
    if values.dtype.kind == "O":
        return f"text{values.shape[1:]}|".encode(), [repr(row).encode() for row in values.tolist()]
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    size = len(flat) // n if n else 0
    return kind, [flat[i * size : (i + 1) * size] for i in range(n)]


def digest_of(hashes: array[int]) -> str:
    """Return the sha256 in hex over the hashes of a set's samples, in order."""
    return hashlib.sha256(hashes.tobytes()).hexdigest()


_FLOATS = ("float", "bfloat", "complex")


@dataclass(frozen=True, slots=True)
class Scan:
    """Facts about a source from one pass over it.

    Attributes
    ----------
    n : number of samples.
    hashes : 64-bit hash of inputs and label of each sample.
    input_hashes : of the inputs alone; the same object when there are no labels, and empty when not asked for.
    labels, label_type, label_range : kind, type names, and smallest and largest number; see `LabelScan`.
    shapes : of the samples.
    layout : the batch axis of each input of the model.
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
    """Read a source once from end to end.

    Parameters
    ----------
    source : the data.
    wanted : requirements of the model that every sample must meet.
    keep_input_hashes : return hashes of the inputs alone too, eight bytes for each sample.

    Raises
    ------
    DataError : the source is empty, does not fit the model, contains NaN or infinity, or is labelled in part.
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
    """Return a mask (n,) of the samples without NaN and infinity."""
    finite: NDArray[np.bool_] = np.isfinite(values).reshape(values.shape[0], -1).all(axis=1)
    return finite
