"""The samples that calibrate and the samples that are evaluated, as batches."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data.batch import Batch, Feeds, Sample, assemble
from pytest_quant.data.layout import Layout
from pytest_quant.data.scan import hash_rows
from pytest_quant.data.source import Block, Source
from pytest_quant.errors import DataError

_MAX_OVERLAP = 0.1


def evenly_spaced(n: int, k: int) -> list[int]:
    """Return `k` indices below `n`: ``round(i * (n - 1) / (k - 1))``, and index 0 alone for ``k == 1``.

    For ``k <= n`` they are distinct: neighbours lie at least 1 apart before rounding.
    """
    return [0] if k == 1 else [round(i * (n - 1) / (k - 1)) for i in range(k)]


def calibration_count(asked: float, n: int, what: str) -> int:
    """Return the number of calibration samples to take out of the data.

    Parameters
    ----------
    asked : an int is the count itself; a float is a share of `n`, 0 < share < 1, and gives
        ``max(1, round(share * n))``.
    n : samples in the data.
    what : name of the data in messages.

    Raises
    ------
    DataError : no sample would be left to evaluate.
    """
    k = asked if isinstance(asked, int) else max(1, round(asked * n))
    if k >= n:
        raise DataError(
            f"{what}: no sample is left to evaluate",
            value=f"calibration={asked!r} takes {k} of {n} samples",
            allowed=f"fewer than {n}",
            fix="take fewer, or give calibration samples of their own: calibration=inputs",
        )
    return k


def count_overlap(calibration: array[int], evaluation: array[int]) -> int:
    """Count the calibration samples whose input hash is that of an evaluation sample."""
    calibrating = set(calibration)
    shared = {value for value in evaluation if value in calibrating}
    return sum(value in shared for value in calibration)


def overlap_note(overlap: int, n_calibration: int, what: str) -> tuple[str, ...]:
    """Return a note about the calibration samples that are evaluated too; empty when there are none.

    Parameters
    ----------
    overlap : calibration samples with the contents of an evaluation sample.
    n_calibration : calibration samples.
    what : name of the data in messages.

    Raises
    ------
    DataError : they are more than 10 % of the calibration samples.
    """
    if not overlap:
        return ()
    text = (
        f"{overlap} of {n_calibration} calibration samples have the contents of evaluation samples "
        f"({100 * overlap / n_calibration:.1f} %)"
    )
    if overlap > _MAX_OVERLAP * n_calibration:
        raise DataError(
            f"{what}: {text}: the accuracy would be measured on what was calibrated with",
            allowed="at most 10 % of the calibration samples",
            fix="split by sample, calibration=100 does, and remove duplicates",
        )
    return (f"{what}: {text}",)


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
        if self.chosen is None:
            return self._slices(arrays, batch_size, pad=pad)
        return self._takes(arrays, np.flatnonzero(self.chosen), batch_size, pad=pad)

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

    def held(self) -> Part:
        """Return the same samples held in memory, so that no later pass reads a stream again."""
        if self.source.arrays is not None:
            return self
        blocks = [Block(one.feeds, one.labels, one.n) for one in self._batches(1, pad=False)]
        what, hashes = self.source.what, array("Q")
        for index, block in enumerate(blocks):
            hashes.extend(hash_rows(block, what, index)[1])
        return replace(self, source=Source(what, lambda: iter(blocks)), hashes=hashes, chosen=None)

    def _slices(self, arrays: Feeds, batch_size: int, *, pad: bool) -> Iterator[Batch]:
        """Yield batches of all samples, without a copy where memory is contiguous."""
        total = len(self.hashes)
        for start in range(0, total, batch_size):
            n = min(batch_size, total - start)
            cut = slice(start, start + n)
            feeds = {name: _contiguous(values[cut]) for name, values in arrays.items()}
            if pad and n < batch_size:
                feeds = _padded(feeds, batch_size)
            yield Batch(feeds, self._labels(cut), start, n)

    def _takes(self, arrays: Feeds, indices: NDArray[np.intp], batch_size: int, *, pad: bool) -> Iterator[Batch]:
        """Yield batches of the chosen samples, copied batch by batch."""
        for start in range(0, len(indices), batch_size):
            rows = indices[start : start + batch_size]
            feeds = {name: _taken(values, rows) for name, values in arrays.items()}
            if pad and len(rows) < batch_size:
                feeds = _padded(feeds, batch_size)
            yield Batch(feeds, self._labels(rows), start, len(rows))

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


def _contiguous(rows: NDArray[Any]) -> NDArray[Any]:
    """Return a contiguous array, or a view as it is where all samples share one value (stride 0)."""
    return rows if rows.strides[0] == 0 else np.ascontiguousarray(rows)


def _taken(values: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
    return values[: len(rows)] if values.strides[0] == 0 else np.take(values, rows, axis=0)


def _padded(feeds: Feeds, batch_size: int) -> Feeds:
    """Repeat the last row until there are `batch_size`."""
    return {
        name: np.concatenate([rows, np.repeat(rows[-1:], batch_size - len(rows), axis=0)])
        for name, rows in feeds.items()
    }
