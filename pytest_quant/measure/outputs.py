"""Outputs of an engine over the evaluation set: streamed in chunks, and kept for the reference.

A chunk has a few thousand samples, so that the comparison costs little next to the runs, and never the whole set, so
that memory does not grow with the data.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends import Outputs
from pytest_quant.cache import Cache
from pytest_quant.data import Batch, Data
from pytest_quant.measure.batching import Batched

CHUNK_SAMPLES = 4096
"""With ten classes, comparing shorter chunks costs several times more per sample, and longer ones no less."""

_CHUNK_BYTES = 4 << 20
_INDEX = "chunks.jsonl"
_ARRAYS = "arrays.bin"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Outputs of `n` consecutive samples from index `start`; axis 0 of each array is the sample."""

    outputs: Outputs
    labels: NDArray[Any] | None
    start: int
    n: int

    def part(self, first: int, last: int) -> Chunk:
        """Return the samples from index `first` up to, not including, `last`."""
        rows = slice(first - self.start, last - self.start)
        outputs = {name: array[rows] for name, array in self.outputs.items()}
        return Chunk(outputs, None if self.labels is None else self.labels[rows], first, last - first)


def run_over(engine: Batched, data: Data, most: int = CHUNK_SAMPLES) -> Iterator[Chunk]:
    """Run `engine` over the evaluation set and yield its outputs in the order of the set, without padding.

    Parameters
    ----------
    engine : open engine.
    data : the evaluation set.
    most : samples after which a chunk ends; whole batches are run.
    """
    waiting: list[Chunk] = []
    samples = size = 0
    for chunk in _in_order(_runs(engine, data, most)):
        if waiting and not _alike(waiting[-1].outputs, chunk.outputs):
            yield _merge(waiting)
            waiting, samples, size = [], 0, 0
        waiting.append(chunk)
        samples += chunk.n
        size += sum(array.nbytes for array in chunk.outputs.values())
        if samples >= most or size >= _CHUNK_BYTES:
            yield _merge(waiting)
            waiting, samples, size = [], 0, 0
    if waiting:
        yield _merge(waiting)


def _runs(engine: Batched, data: Data, most: int) -> Iterator[tuple[Chunk, tuple[int, ...] | None]]:
    """Yield the outputs of each run, and the indices of its samples in the set where they are not consecutive."""
    for batches in _prepared(data.batches(engine.batch_size, pad=engine.pads), most):
        feeds = [engine.feeds(batch.feeds) for batch in batches]
        returned = [engine.engine.run(feed) for feed in feeds]
        for batch, given in zip(batches, returned, strict=True):
            outputs = engine.by_sample(given, engine.batch_size if engine.pads else batch.n)
            if engine.pads and batch.n < engine.batch_size:
                outputs = {name: array[: batch.n] for name, array in outputs.items()}
            yield Chunk(outputs, batch.labels, batch.start, batch.n), batch.positions


def _prepared(batches: Iterator[Batch], most: int) -> Iterator[list[Batch]]:
    """Yield lists of batches, each as many as fit into a chunk.

    A run of the engine evicts Python's code and objects from the CPU's caches, so that work between two runs takes ten
    times as long as the same work before or after many runs.
    """
    waiting: list[Batch] = []
    samples = size = 0
    for batch in batches:
        waiting.append(batch)
        samples += batch.n
        size += sum(array.nbytes for array in batch.feeds.values())
        if samples >= most or size >= _CHUNK_BYTES:
            yield waiting
            waiting, samples, size = [], 0, 0
    if waiting:
        yield waiting


def _in_order(runs: Iterator[tuple[Chunk, tuple[int, ...] | None]]) -> Iterator[Chunk]:
    """Restore the order of the set for samples that were batched by shape; chunks in order pass unchanged."""
    following = 0
    early: dict[int, Chunk] = {}
    for chunk, positions in runs:
        if positions is None and chunk.start == following:
            yield chunk
            following += chunk.n
        else:
            places = positions or range(chunk.start, chunk.start + chunk.n)
            for row, place in enumerate(places):
                one = chunk.part(chunk.start + row, chunk.start + row + 1)
                early[place] = Chunk(one.outputs, one.labels, place, 1)
        while following in early:
            yield early.pop(following)
            following += 1


def _alike(one: Outputs, other: Outputs) -> bool:
    """Whether the outputs of two chunks can be concatenated along the sample axis."""
    return one.keys() == other.keys() and all(
        array.ndim > 0 and array.shape[1:] == other[name].shape[1:] and array.dtype == other[name].dtype
        for name, array in one.items()
    )


def _merge(chunks: list[Chunk]) -> Chunk:
    first = chunks[0]
    if len(chunks) == 1:
        return first
    outputs = {name: np.concatenate([chunk.outputs[name] for chunk in chunks]) for name in first.outputs}
    labels = [chunk.labels for chunk in chunks if chunk.labels is not None]
    return Chunk(outputs, np.concatenate(labels) if labels else None, first.start, sum(chunk.n for chunk in chunks))


@dataclass(frozen=True, slots=True)
class RecordedOutputs:
    """The reference's outputs in a folder of the cache.

    Attributes
    ----------
    status, reason : ``built`` or ``hit``, and why they were built; see `Entry`.
    evaluate_s : seconds that the run that built them took.
    """

    folder: Path
    status: str
    reason: str
    evaluate_s: float

    def chunks(self) -> Iterator[Chunk]:
        """Read the chunks back in order, one at a time."""
        with (self.folder / _ARRAYS).open("rb") as arrays, (self.folder / _INDEX).open(encoding="utf-8") as index:
            for line in index:
                row = json.loads(line)
                outputs = {name: _read(arrays, dtype, shape) for name, (dtype, shape) in row["outputs"].items()}
                yield Chunk(outputs, None, row["start"], row["n"])


def record_outputs(engine: Batched, data: Data, cache: Cache, ingredients: Mapping[str, str]) -> RecordedOutputs:
    """Return the outputs of an engine over the evaluation set, from the cache when nothing changed.

    Parameters
    ----------
    engine : the reference.
    data : the evaluation set.
    cache : of outputs.
    ingredients : of the engine; the digest of the data, the batch size and the axes are added here.
    """

    def build(folder: Path) -> dict[str, float]:
        started = time.perf_counter()
        with (folder / _ARRAYS).open("wb") as arrays, (folder / _INDEX).open("w", encoding="utf-8") as index:
            for chunk in run_over(engine, data):
                kinds = {name: _append(array, arrays) for name, array in chunk.outputs.items()}
                index.write(json.dumps({"start": chunk.start, "n": chunk.n, "outputs": kinds}) + "\n")
        return {"evaluate_s": time.perf_counter() - started}

    named = {**ingredients, "evaluation data": data.digest, "evaluation batch size": str(engine.batch_size)}
    axes = {**data.layout.axes, **engine.output_axes}
    if any(axis != 0 for axis in axes.values()) or data.layout.stepped:
        named["axes of samples"] = json.dumps([sorted(axes.items()), sorted(data.layout.stepped)])
    spec = engine.engine.spec
    slot = f"{spec.id} of {spec.model.name}"
    entry = cache.obtain("reference", slot, named, build)
    return RecordedOutputs(entry.folder, entry.status, entry.reason, float(entry.facts["evaluate_s"] or 0.0))


def _append(array: NDArray[Any], file: BinaryIO) -> tuple[str, tuple[int, ...]]:
    """Write the values, and return dtype and shape; text in Python objects is written as fixed-width text."""
    stored = array.astype(str) if array.dtype.kind == "O" else array
    file.write(stored.tobytes())
    return stored.dtype.str, stored.shape


def _read(file: BinaryIO, dtype: str, shape: list[int]) -> NDArray[Any]:
    """Read the next array; dtype and shape are in the index, since a header for each costs more than its values."""
    array = np.fromfile(file, dtype, math.prod(shape)).reshape(shape)
    return array.astype(object) if array.dtype.kind == "U" else array


def side_by_side(reference: Iterator[Chunk], candidate: Iterator[Chunk]) -> Iterator[tuple[Chunk, Chunk]]:
    """Yield chunks of the same samples from both engines, whose own chunks may end at different samples."""
    left, right = next(reference, None), next(candidate, None)
    while left is not None and right is not None:
        last = min(left.start + left.n, right.start + right.n)
        yield left.part(left.start, last), right.part(right.start, last)
        left = left.part(last, left.start + left.n) if last < left.start + left.n else next(reference, None)
        right = right.part(last, right.start + right.n) if last < right.start + right.n else next(candidate, None)
