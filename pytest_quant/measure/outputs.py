"""Outputs of an engine over the evaluation set: streamed in chunks, and kept for the reference.

A chunk has a few thousand samples, so that the comparison costs little next to the runs, and never the whole set, so
that memory does not grow with the data.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends import Outputs
from pytest_quant.cache import Cache, Entry
from pytest_quant.data import Batch, Data
from pytest_quant.measure.batching import RANGE_SAMPLES, OpenEngine, run_batches
from pytest_quant.measure.evaluation import OutputPair

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

    def renamed(self, names: Mapping[str, str]) -> Chunk:
        """Return the outputs under other names, given by the new ones; a missing output stays missing."""
        outputs = {new: self.outputs[old] for new, old in names.items() if old in self.outputs}
        return Chunk(outputs, self.labels, self.start, self.n)


@dataclass(frozen=True, slots=True)
class Replay:
    """Gives the outputs of runs that were made before, in their order."""

    runs: Iterable[Outputs]

    def run(self, _: OpenEngine, ranges: Iterator[list[Batch]]) -> Iterator[tuple[list[Batch], list[Outputs]]]:
        """Yield each range with the outputs of its batches."""
        runs = iter(self.runs)
        for batches in ranges:
            yield batches, [next(runs) for _ in batches]


def run_over(opened: OpenEngine, data: Data, most: int = 4096) -> Iterator[Chunk]:
    """Run an engine over the evaluation set and yield its outputs in the order of the set, without padding.

    Parameters
    ----------
    opened : the engine.
    data : the evaluation set.
    most : samples after which a chunk ends; whole batches are run. With ten classes, comparing shorter chunks costs
        several times more per sample, and longer ones no less.
    """
    chunks = _restore_order(_runs(opened, data, most))
    for alike in _group_parts(chunks, most, lambda chunk: chunk.outputs, _can_be_joined):
        yield _merge(alike)
        alike.clear()


def _runs(opened: OpenEngine, data: Data, most: int) -> Iterator[tuple[Chunk, tuple[int, ...] | None]]:
    """Yield the outputs of each run, and the indices of its samples in the set if they are not consecutive.

    The inputs of a whole chunk are made before its first run. A run evicts Python's code and objects from the CPU's
    caches, so that work between two runs takes ten times as long as the same work before or after many runs.
    """
    size, pads, workers = opened.batch_size, opened.pads, opened.workers
    at_once = most if workers is None else min(most, RANGE_SAMPLES)
    at_once = min(at_once, _CHUNK_BYTES // max(1, opened.output_bytes))
    groups = _group_parts(data.batches(size, pad=pads), at_once, lambda batch: batch.feeds)
    ranges = ([replace(batch, feeds=opened.feeds(batch.feeds)) for batch in batches] for batches in groups)
    ran = iter(opened.ran)
    runs = ((batches, run_batches(opened.engine, batches, ran)) for batches in ranges)
    for batches, returned in runs if workers is None else workers.run(opened, ranges):
        for batch in batches:
            outputs = opened.put_samples_first(returned.pop(0), size if pads else batch.n)
            if pads and batch.n < size:
                outputs = {name: array[: batch.n] for name, array in outputs.items()}
            yield Chunk(outputs, batch.labels, batch.start, batch.n), batch.positions
            del outputs


Part = TypeVar("Part", Batch, Chunk)


def _group_parts(
    parts: Iterator[Part],
    most: int,
    arrays: Callable[[Part], Mapping[str, NDArray[Any]]],
    fit: Callable[[Part, Part], bool] = lambda _one, _next: True,
) -> Iterator[list[Part]]:
    """Yield lists of parts that follow each other and fit, each with as many samples or bytes as fill a chunk.

    Nothing of a list is held when the next is made.
    """
    waiting: list[Part] = []
    samples = size = 0
    for part in parts:
        if waiting and not fit(waiting[-1], part):
            yield waiting
            waiting, samples, size = [], 0, 0
        waiting.append(part)
        samples += part.n
        size += sum(array.nbytes for array in arrays(part).values())
        del part
        if samples >= most or size >= _CHUNK_BYTES:
            yield waiting
            waiting, samples, size = [], 0, 0
    if waiting:
        yield waiting


def _restore_order(runs: Iterator[tuple[Chunk, tuple[int, ...] | None]]) -> Iterator[Chunk]:
    """Restore the order of the set for samples that were batched by shape; chunks in order pass unchanged."""
    following = 0
    early: dict[int, Chunk] = {}
    for chunk, positions in runs:
        if positions is None and chunk.start == following:
            following += chunk.n
            yield chunk
            del chunk
        else:
            places = positions or range(chunk.start, chunk.start + chunk.n)
            for row, place in enumerate(places):
                sample = chunk.part(chunk.start + row, chunk.start + row + 1)
                early[place] = Chunk(sample.outputs, sample.labels, place, 1)
        while following in early:
            yield early.pop(following)
            following += 1


def _can_be_joined(first: Chunk, second: Chunk) -> bool:
    """Whether the outputs of two chunks can be concatenated along the sample axis."""
    return first.outputs.keys() == second.outputs.keys() and all(
        array.ndim > 0
        and (array.shape[1:], array.dtype) == (second.outputs[name].shape[1:], second.outputs[name].dtype)
        for name, array in first.outputs.items()
    )


def _merge(chunks: list[Chunk]) -> Chunk:
    first = chunks[0]
    if len(chunks) == 1:
        return first
    outputs = {name: np.concatenate([chunk.outputs[name] for chunk in chunks]) for name in first.outputs}
    labels = [chunk.labels for chunk in chunks if chunk.labels is not None]
    return Chunk(outputs, np.concatenate(labels) if labels else None, first.start, sum(chunk.n for chunk in chunks))


def record_outputs(opened: OpenEngine, data: Data, cache: Cache, ingredients: Mapping[str, str]) -> Entry:
    """Return where the outputs of an engine over the evaluation set are kept: computed anew when something changed.

    Parameters
    ----------
    opened : the reference.
    data : the evaluation set.
    cache : of outputs.
    ingredients : of the engine, the digest of the data, the batch size and the axes are added here; where there are
        none, nothing tells its outputs from those of another one, and they are kept as long as the entry itself.
    """

    def build(folder: Path) -> dict[str, str]:
        with (folder / _ARRAYS).open("wb") as arrays, (folder / _INDEX).open("w", encoding="utf-8") as index:
            for chunk in run_over(opened, data):
                kinds = {name: _append(array, arrays) for name, array in chunk.outputs.items()}
                index.write(json.dumps({"start": chunk.start, "n": chunk.n, "outputs": kinds}) + "\n")
        return {}

    if not ingredients:
        folder = Path(tempfile.mkdtemp(prefix="pytest-quant-outputs-"))
        entry = Entry("", folder, "built", f"{opened.built.name} has no version, so nothing of it is kept", {})
        weakref.finalize(entry, shutil.rmtree, folder, ignore_errors=True)
        build(folder)
        return entry
    # Kernels choose the blocks of their sums by the part of a product that a thread gets.
    threads = opened.built.threads if opened.workers else opened.engine.threads
    named = {**ingredients, "evaluation data": data.digest, "evaluation batch size": str(opened.batch_size)}
    named |= {} if threads is None else {"evaluation threads": str(threads)}
    axes = {**data.layout.axes, **opened.output_axes}
    if any(axis != 0 for axis in axes.values()) or data.layout.stepped:
        named["axes of samples"] = json.dumps([sorted(axes.items()), sorted(data.layout.stepped)])
    # A function has a name and a version, which others may have given to another one.
    shared = not opened.built.backend.offer.is_opaque
    return cache.obtain("reference", opened.built.name, named, build, shared=shared)


def read_outputs(recorded: Entry) -> Iterator[Chunk]:
    """Read the chunks that `record_outputs` keeps back in order, one at a time."""
    folder = recorded.folder
    with (folder / _ARRAYS).open("rb") as arrays, (folder / _INDEX).open(encoding="utf-8") as index:
        for line in index:
            row = json.loads(line)
            outputs = {name: _read(arrays, dtype, shape) for name, (dtype, shape) in row["outputs"].items()}
            yield Chunk(outputs, None, row["start"], row["n"])
            del outputs


def _append(array: NDArray[Any], file: BinaryIO) -> tuple[str, tuple[int, ...]]:
    """Write the values, and return dtype and shape; text in Python objects is written as fixed-width text."""
    stored = array.astype(str) if array.dtype.kind == "O" else array
    file.write(np.ascontiguousarray(stored).reshape(-1).view(np.uint8).data)
    return stored.dtype.str, stored.shape


def _read(file: BinaryIO, dtype: str, shape: list[int]) -> NDArray[Any]:
    """Read the next array; dtype and shape are in the index, since a header for each costs more than its values."""
    array = np.fromfile(file, dtype, math.prod(shape)).reshape(shape)
    return array.astype(object) if array.dtype.kind == "U" else array


def pair_outputs(reference: Iterator[Chunk], candidate: Iterator[Chunk]) -> Iterator[OutputPair]:
    """Yield the outputs of both engines for the same samples; their own chunks may end at different ones."""
    left, right = next(reference, None), next(candidate, None)
    while left is not None and right is not None:
        last = min(left.start + left.n, right.start + right.n)
        ours, theirs = left.part(left.start, last), right.part(left.start, last)
        yield OutputPair(ours.outputs, theirs.outputs, theirs.labels, theirs.start, theirs.n)
        del ours, theirs
        left = left.part(last, left.start + left.n) if last < left.start + left.n else None
        right = right.part(last, right.start + right.n) if last < right.start + right.n else None
        # Those before are gone by then.
        left, right = left or next(reference, None), right or next(candidate, None)
