"""Passes over data: the first one checks and hashes every sample, later ones yield batches of the same samples."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data.batch import Batch, Feeds, Sample, assemble, dtype_name
from pytest_quant.data.labels import LabelKind, LabelScan, canonical_bytes, is_object
from pytest_quant.data.layout import Layout, ShapeScan
from pytest_quant.data.source import DataContract, SampleBlock, Source, check_fit
from pytest_quant.errors import DataError

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


def scan_source(source: Source, contract: DataContract, *, keep_input_hashes: bool) -> Scan:
    """Read a source once from end to end.

    Parameters
    ----------
    source : the data.
    contract : requirements of the model that every sample must meet.
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
            layout = contract.layout({name: array.ndim for name, array in block.feeds.items()}, source.what)
        check_fit(block.feeds, contract.signature, layout, where)
        _check_finite(block, source.what, len(hashes))
        labels.see(block.labels, block.n)
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


def _check_finite(block: SampleBlock, what: str, first: int) -> None:
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


def evenly_spaced(n: int, k: int) -> list[int]:
    """Return `k` indices below `n`: ``round(i * (n - 1) / (k - 1))``, and index 0 alone for ``k == 1``.

    For ``k <= n`` they are distinct: neighbours lie at least 1 apart before rounding.
    """
    return [0] if k == 1 else [round(i * (n - 1) / (k - 1)) for i in range(k)]


@dataclass(frozen=True, slots=True)
class Part:
    """The samples of `source` that the mask `chosen` selects, in order.

    Attributes
    ----------
    layout : the batch axis of each input of the model.
    hashes : 64-bit hash of every sample of the source in the first pass, chosen or not.
    chosen : mask (samples of the source,); ``None`` for all of them.
    label_dtype : int64 or float64; object where labels are kept as given.
    """

    source: Source
    layout: Layout
    hashes: array[int] = field(repr=False)
    chosen: NDArray[np.bool_] | None
    label_dtype: type[np.int64 | np.float64 | np.object_] = np.int64

    def batches(self, batch_size: int, *, pad: bool) -> Iterator[Batch]:
        """Yield batches of samples of one shape, as the model takes them.

        With `pad` a batch that is not full is filled up with its last sample.

        Raises
        ------
        DataError : a sample differs from the first pass.
        """
        batches = self._batches(batch_size, pad=pad)
        return batches if self.layout.leads else self._arranged(batches)

    def _arranged(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Move the samples to the model's batch axes."""
        layout, whole = self.layout, self.layout.whole
        for batch in batches:
            feeds = {name: rows[0, ...] if name in whole else rows for name, rows in batch.feeds.items()}
            yield replace(batch, feeds=layout.arranged(feeds))

    def _batches(self, batch_size: int, *, pad: bool) -> Iterator[Batch]:
        """Yield batches with the samples on axis 0."""
        arrays = self.source.arrays
        if arrays is None or self._by_sample:
            return assemble(self._samples(), batch_size, pad=pad, whole=self.layout.whole)
        return self._cuts(arrays, batch_size, pad=pad)

    @property
    def _by_sample(self) -> bool:
        """Whether a value that all samples of a run share is given for each sample, so that they are batched by it."""
        arrays = self.source.arrays or {}
        return any(arrays[name].strides[0] for name in self.layout.whole if name in arrays)

    def pick(self, hashes: array[int]) -> array[int]:
        """Return the chosen ones of `hashes`, which has one for each sample of the source."""
        return hashes if self.chosen is None else array("Q", np.asarray(hashes)[self.chosen].tobytes())

    def spaced(self, k: int) -> Part:
        """Return at most `k` of the chosen samples, evenly spaced."""
        chosen = np.ones(len(self.hashes), bool) if self.chosen is None else self.chosen
        indices = np.flatnonzero(chosen)
        if k >= len(indices):
            return self
        fewer = np.zeros_like(chosen)
        fewer[indices[evenly_spaced(len(indices), k)]] = True
        return replace(self, chosen=fewer)

    def in_memory(self) -> Part:
        """Return the same samples held in memory, so that no later pass reads a stream again."""
        if self.source.arrays is not None:
            return self
        blocks = [SampleBlock(batch.feeds, batch.labels, batch.n) for batch in self._batches(1, pad=False)]
        what, hashes = self.source.what, array("Q")
        for index, block in enumerate(blocks):
            hashes.extend(hash_rows(block, what, index)[1])
        return replace(self, source=Source(what, lambda: iter(blocks)), hashes=hashes, chosen=None)

    def _cuts(self, arrays: Feeds, batch_size: int, *, pad: bool) -> Iterator[Batch]:
        """Yield batches of samples in memory, without a copy where all are chosen and memory is contiguous."""
        indices = None if self.chosen is None else np.flatnonzero(self.chosen)
        total = len(self.hashes) if indices is None else len(indices)
        for start in range(0, total, batch_size):
            n = min(batch_size, total - start)
            cut = slice(start, start + n)
            rows = cut if indices is None else indices[cut]
            feeds = {name: _taken(values, rows, n) for name, values in arrays.items()}
            if pad and n < batch_size:
                feeds = _padded(feeds, batch_size)
            yield Batch(feeds, self._labels(rows), start, n)

    def _labels(self, rows: slice | NDArray[np.intp]) -> NDArray[Any] | None:
        labels = self.source.labels
        return None if labels is None else labels[rows].astype(self.label_dtype, copy=False)

    def _samples(self) -> Iterator[Sample]:
        """Yield the chosen samples of a new pass; every sample of a stream is compared with the first pass."""
        position = 0
        for block in self.source.blocks():
            if self.source.arrays is None:
                now = hash_rows(block, self.source.what, position)[1]
                if now != self.hashes[position : position + block.n]:
                    self._refuse(now, position)
            for inputs, label in block.rows(label_objects=self.label_dtype is np.object_):
                if self.chosen is None or self.chosen[position]:
                    yield inputs, None if label is None else label.astype(self.label_dtype, copy=False)
                position += 1
        if position < len(self.hashes):
            raise self._unstable(f"a later pass ended after {position} samples, the first had {len(self.hashes)}")

    def _refuse(self, now: array[int], position: int) -> None:
        first = self.hashes[position : position + len(now)]
        for offset, (old, new) in enumerate(zip(first, now, strict=False)):
            if old != new:
                raise self._unstable(f"sample {position + offset} differs between two passes")
        raise self._unstable(f"a later pass goes on after {len(self.hashes)} samples, where the first ended")

    def _unstable(self, what: str) -> DataError:
        return DataError(
            f"{self.source.what}: {what}",
            allowed="the same samples in the same order each time, or pairs and caches would lie",
            fix="switch shuffling and random augmentation off: DataLoader(..., shuffle=False)",
        )


def _taken(values: NDArray[Any], rows: slice | NDArray[np.intp], n: int) -> NDArray[Any]:
    """Return `n` rows as a contiguous array, or a view where all samples share one value (stride 0)."""
    return values[:n] if values.strides[0] == 0 else np.ascontiguousarray(values[rows])


def _padded(feeds: Feeds, batch_size: int) -> Feeds:
    """Repeat the last row until there are `batch_size`."""
    return {
        name: np.concatenate([rows, np.repeat(rows[-1:], batch_size - len(rows), axis=0)])
        for name, rows in feeds.items()
    }
