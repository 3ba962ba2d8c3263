"""Passes over data: the first one checks and hashes every sample, later ones yield batches of the same samples."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data.batch import Batch, Feeds, LabelKind, Sample, assemble, canonical_bytes, dtype_name, is_object
from pytest_quant.data.layout import Layout, SampleKind
from pytest_quant.data.source import DataContract, Pass, SampleBlock, check_fit, open_source
from pytest_quant.errors import DataError
from pytest_quant.spec import Dataset

_HASH_BYTES = 8


def hash_rows(block: SampleBlock, what: str, first: int) -> tuple[array[int], array[int]]:
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
    columns = [
        (f"{name}|".encode(), _rows(values, f"{what}, input '{name}': the text", first))
        for name, values in sorted(block.feeds.items())
    ]
    labels = None if block.labels is None else _rows(block.labels, f"{what}: the label", first)
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


def _rows(values: NDArray[np.generic], where: str, first: int) -> tuple[bytes, list[bytes] | list[memoryview]]:
    """Return dtype and shape of a row, and the bytes of each row, without a copy if memory is contiguous.

    Objects are encoded by their content, not by how they print; messages name one by `where` and its sample, of which
    the first row has the index `first`.
    """
    n = values.shape[0]
    kind = f"{dtype_name(values.dtype)}{values.shape[1:]}|".encode()
    if values.dtype.kind == "O":
        return kind, [canonical_bytes(row, f"{where} of sample {first + i}") for i, row in enumerate(values)]
    if n > 1 and values.strides[0] == 0:
        # A broadcast value is hashed with each sample, and copied once.
        return kind, [np.ascontiguousarray(values[0]).tobytes()] * n
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    size = len(flat) // n if n else 0
    return kind, [flat[i * size : (i + 1) * size] for i in range(n)]


def digest_of(hashes: array[int]) -> str:
    """Return the sha256 in hex over the hashes of a set's samples, in order."""
    return hashlib.sha256(hashes.tobytes()).hexdigest()


class Scan:
    """Facts about samples, gathered block by block in the first pass.

    Attributes
    ----------
    hashes : 64-bit hash of inputs and label of each sample.
    input_hashes : of the inputs alone.
    sizes : elements of all inputs of each sample; of a sequence, those of one step.
    labels : ``none``, ``int``, ``float`` when any label is one, or ``object`` when they are not numbers of one shape.
    label_range : smallest and largest number in any label, ``None`` without labels and for objects.
    kinds : number of samples of each combination of the shapes of all inputs.
    most_bytes : of all inputs of one sample.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._label_shape: tuple[int, ...] | None = None
        self._label_types: set[str] = set()
        self.hashes = array("Q")
        self.input_hashes = array("Q")
        self.sizes = array("Q")
        self.labels: LabelKind = "none"
        self.label_range: tuple[float, float] | None = None
        self.kinds: Counter[SampleKind] = Counter()
        self.most_bytes = 0

    @property
    def label_type(self) -> str:
        """Names of the Python types of object labels, for messages; empty for other kinds."""
        if self.labels != "object":
            return ""
        return " and ".join(sorted(self._label_types)) or "arrays of different shapes"

    def see(self, block: SampleBlock, stepped: frozenset[str]) -> None:
        """Add the next samples; `stepped` names inputs with a time axis, see `Layout`.

        Raises
        ------
        DataError : an input contains NaN or infinity, or only some samples have a label.
        """
        _check_finite(block, self._what, len(self.hashes))
        self._see_labels(block.labels)
        self.kinds[tuple((name, rows.shape[1:]) for name, rows in block.feeds.items())] += block.n
        self.most_bytes = max(self.most_bytes, sum(rows.nbytes for rows in block.feeds.values()) // max(block.n, 1))
        size = sum(math.prod(rows.shape[1 + (name in stepped) :]) for name, rows in block.feeds.items())
        self.sizes.extend([size] * block.n)
        of_inputs, of_all = hash_rows(block, self._what, len(self.hashes))
        self.hashes.extend(of_all)
        self.input_hashes.extend(of_inputs)

    def _see_labels(self, labels: NDArray[Any] | None) -> None:
        if self.hashes and (labels is None) != (self.labels == "none"):
            raise self._partly_labelled(len(self.hashes))
        if labels is None:
            return
        if is_object(labels):
            for index, label in enumerate(labels):
                if label is None:
                    raise self._partly_labelled(len(self.hashes) + index)
                self._label_types.add(type(label).__name__)
        elif self.labels != "object" and self._label_shape in (None, labels.shape[1:]):
            self._label_shape = labels.shape[1:]
            if self.labels != "float":
                self.labels = "float" if labels.dtype.kind == "f" else "int"
            if labels.size:
                numbers = labels.min().item(), labels.max().item(), *(self.label_range or ())
                self.label_range = min(numbers), max(numbers)
            return
        self.labels, self.label_range = "object", None

    def _partly_labelled(self, sample: int) -> DataError:
        return DataError(
            f"{self._what}: some samples have a label and some have none",
            value=f"sample {sample} is the first that is different",
            allowed="a label for every sample, or for none",
            fix="label them all, or give inputs only",
        )


def scan_samples(dataset: Dataset, contract: DataContract, *, labelled: bool) -> tuple[SampleSet, Scan]:
    """Read data once from end to end, and return the samples with the facts about them.

    Parameters
    ----------
    dataset, contract, labelled : see `open_source`.

    Raises
    ------
    DataError : the data is empty, does not fit the model, contains NaN or infinity, or is labelled in part.
    """
    blocks, arrays, all_labels = open_source(dataset, contract, labelled=labelled)
    what = dataset.name
    scan = Scan(what)
    layout = Layout({})
    for block in blocks():
        where = what if arrays is not None else f"{what}, sample {len(scan.hashes)}"
        if not scan.hashes:
            layout = contract.layout({name: array.ndim for name, array in block.feeds.items()}, what)
        check_fit(block.feeds, contract.signature, layout, where)
        scan.see(block, layout.stepped)
    if not scan.hashes:
        raise DataError(f"{what} holds no sample", allowed="at least one", fix="look at how it is loaded")
    samples = SampleSet(what, blocks, arrays, all_labels, layout, scan.hashes, scan.sizes)
    if scan.labels in ("float", "object"):
        samples = replace(samples, label_dtype=np.float64 if scan.labels == "float" else np.object_)
    return samples, scan


def _check_finite(block: SampleBlock, what: str, first: int) -> None:
    for name, values in block.feeds.items():
        if dtype_name(values.dtype).startswith(("float", "bfloat", "complex")) and not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0, 0])
            numbers = np.ravel(values[row])
            raise DataError(
                f"{what}, input '{name}': sample {first + row} holds NaN or infinity",
                value=str(numbers[~np.isfinite(numbers)][0]),
                allowed="finite numbers",
                fix="remove every such sample, or repair how they are made",
            )


def even_indices(n: int, k: int) -> list[int]:
    """Return `k` indices below `n`: ``round(i * (n - 1) / (k - 1))``, and index 0 alone for ``k == 1``.

    For ``k <= n`` they are distinct: neighbours lie at least 1 apart before rounding.
    """
    return [0] if k == 1 else [round(i * (n - 1) / (k - 1)) for i in range(k)]


def split_indices(n: int, k: int) -> tuple[list[int], list[int]]:
    """Return evenly spaced indices below `n`, `k` or half of them, and the others between them, up to four times `k`.

    Largest values of few samples lie below those of many, so that as many others as time allows are of use.
    """
    some, step = even_indices(n, min(5 * k, n)), min(5, max(2, n // k))
    return some[::step], [index for place, index in enumerate(some) if place % step]


@dataclass(frozen=True, slots=True)
class SampleSet:
    """Samples that can be read repeatedly, in order; each later pass is compared with the first.

    Attributes
    ----------
    what : name of the data in messages.
    blocks : starts a pass from the first sample.
    arrays, labels : all samples, when they are in memory; then a later pass cannot differ from the first.
    layout : the batch axis of each input of the model.
    hashes : 64-bit hash of every sample of the data in the first pass, chosen or not.
    sizes : elements of all inputs of every sample, see `Scan`.
    chosen : indices in the data of those that are in this set, in order; ``None`` for all of them.
    label_dtype : int64 or float64; object where labels are kept as given.
    """

    what: str
    blocks: Pass = field(repr=False)
    arrays: Feeds | None = field(repr=False)
    labels: NDArray[Any] | None = field(repr=False)
    layout: Layout
    hashes: array[int] = field(repr=False)
    sizes: array[int] = field(repr=False)
    chosen: NDArray[np.intp] | None = None
    label_dtype: type[np.int64 | np.float64 | np.object_] = np.int64

    def batches(self, batch_size: int, *, pad: bool) -> Iterator[Batch]:
        """Yield batches of samples of one shape, as the model takes them.

        With `pad` a batch that is not full is filled up with its last sample.

        Raises
        ------
        DataError : a sample differs from the first pass.
        """
        layout, whole = self.layout, self.layout.whole
        for batch in self._batches(batch_size, pad=pad):
            feeds = {name: rows[0, ...] if name in whole else rows for name, rows in batch.feeds.items()}
            yield replace(batch, feeds=layout.arrange(feeds))

    def _batches(self, batch_size: int, *, pad: bool) -> Iterator[Batch]:
        """Yield batches with the samples on axis 0."""
        arrays = self.arrays
        # A value that all samples of a run share may be given for each sample: then they are batched by it.
        if arrays is None or any(arrays[name].strides[0] for name in self.layout.whole if name in arrays):
            return assemble(self._samples(), batch_size, pad=pad, whole=self.layout.whole)
        return self._cuts(arrays, batch_size, pad=pad)

    def pick(self, hashes: array[int]) -> array[int]:
        """Return the chosen ones of `hashes`, which has one for each sample of the source."""
        return hashes if self.chosen is None else array("Q", np.asarray(hashes)[self.chosen].tobytes())

    def at(self, places: Sequence[int] | NDArray[np.intp] | slice) -> SampleSet:
        """Return the chosen samples at these places among them, which ascend."""
        return replace(self, chosen=(np.arange(len(self.hashes)) if self.chosen is None else self.chosen)[places])

    def load(self) -> SampleSet:
        """Return the same samples held in memory, so that no later pass reads a stream again."""
        if self.arrays is not None:
            return self
        blocks = [SampleBlock(batch.feeds, batch.labels, batch.n) for batch in self._batches(1, pad=False)]
        hashes = array("Q")
        for index, block in enumerate(blocks):
            hashes.extend(hash_rows(block, self.what, index)[1])
        return replace(self, blocks=lambda: iter(blocks), hashes=hashes, sizes=self.pick(self.sizes), chosen=None)

    def _cuts(self, arrays: Feeds, batch_size: int, *, pad: bool) -> Iterator[Batch]:
        """Yield batches of samples in memory, without a copy if all are chosen and memory is contiguous."""
        indices = self.chosen
        total = len(self.hashes) if indices is None else len(indices)
        for start in range(0, total, batch_size):
            n = min(batch_size, total - start)
            cut = slice(start, start + n)
            rows = cut if indices is None else indices[cut]
            # A view where all samples share one value (stride 0).
            feeds = {
                name: values[:n] if values.strides[0] == 0 else np.ascontiguousarray(values[rows])
                for name, values in arrays.items()
            }
            if pad and n < batch_size:
                last = np.minimum(np.arange(batch_size), n - 1)
                feeds = {name: values[last] for name, values in feeds.items()}
            labels = None if self.labels is None else self.labels[rows].astype(self.label_dtype, copy=False)
            yield Batch(feeds, labels, start, n)

    def _samples(self) -> Iterator[Sample]:
        """Yield the chosen samples of a new pass; every sample of a stream is compared with the first pass."""
        position, wanted = 0, np.ones(len(self.hashes), bool)
        if self.chosen is not None:
            wanted = np.isin(np.arange(len(wanted)), self.chosen)
        for block in self.blocks():
            if self.arrays is None:
                now = hash_rows(block, self.what, position)[1]
                if now != self.hashes[position : position + block.n]:
                    self._refuse(now, position)
            for inputs, label in block.rows(label_objects=self.label_dtype is np.object_):
                if wanted[position]:
                    yield inputs, None if label is None else label.astype(self.label_dtype, copy=False)
                position += 1
        if position < len(self.hashes):
            raise self._unstable(f"a later pass ended after {position} samples, the first had {len(self.hashes)}")

    def _refuse(self, now: array[int], position: int) -> None:
        first = self.hashes[position : position + len(now)]
        for offset, (old, new) in enumerate(zip(first, now, strict=False)):
            if old != new:
                raise self._unstable(f"sample {position + offset} differs between two passes")
        raise self._unstable(f"a later pass goes on after {len(self.hashes)} samples; the first pass ended there")

    def _unstable(self, what: str) -> DataError:
        return DataError(
            f"{self.what}: {what}",
            allowed="the same samples in the same order each time, or pairs and caches would lie",
            fix="switch shuffling and random augmentation off: DataLoader(..., shuffle=False)",
        )
