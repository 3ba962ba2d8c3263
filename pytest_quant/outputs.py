"""Outputs of an engine over the evaluation set: streamed in chunks, and kept for the reference.

A chunk holds a few thousand samples, so that comparing outputs costs little beside making them, and never
the whole set, so that memory does not grow with the data.
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

from pytest_quant.backends import Engine, Outputs
from pytest_quant.cache import Cache
from pytest_quant.data import Data

_CHUNK_SAMPLES = 4096
"""With ten classes the comparison of shorter chunks costs several times more, and that of longer ones no less."""

_CHUNK_BYTES = 4 << 20
_INDEX = "chunks.jsonl"
_ARRAYS = "arrays.bin"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Outputs of `n` consecutive samples from index `start`; each array leads with a sample axis."""

    outputs: Outputs
    labels: NDArray[Any] | None
    start: int
    n: int

    def part(self, first: int, last: int) -> Chunk:
        """The samples from index `first` up to, not including, `last`."""
        rows = slice(first - self.start, last - self.start)
        outputs = {name: array[rows] for name, array in self.outputs.items()}
        return Chunk(outputs, None if self.labels is None else self.labels[rows], first, last - first)


def run_over(
    engine: Engine, data: Data, batch_size: int, input_names: Mapping[str, str] | None = None
) -> Iterator[Chunk]:
    """Run `engine` over the evaluation set and yield its outputs, padding of the last batch dropped.

    `input_names` maps the data's input names to the engine's where they differ.
    """
    pad = engine.signature.fixed_batch_size is not None
    waiting: list[Chunk] = []
    samples = size = 0
    for batch in data.batches(batch_size, pad=pad):
        feeds = batch.feeds if input_names is None else {input_names[k]: v for k, v in batch.feeds.items()}
        outputs = engine.run(feeds)
        if pad and batch.n < batch_size:
            outputs = {name: array[: batch.n] for name, array in outputs.items()}
        if waiting and not _alike(waiting[-1].outputs, outputs):
            yield _merge(waiting)
            waiting, samples, size = [], 0, 0
        waiting.append(Chunk(outputs, batch.labels, batch.start, batch.n))
        samples += batch.n
        size += sum(array.nbytes for array in outputs.values())
        if samples >= _CHUNK_SAMPLES or size >= _CHUNK_BYTES:
            yield _merge(waiting)
            waiting, samples, size = [], 0, 0
    if waiting:
        yield _merge(waiting)


def _alike(one: Outputs, other: Outputs) -> bool:
    """Whether arrays of the same name can be joined along the sample axis."""
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
    """The reference's outputs in a folder of the cache; `status` is ``built`` or ``hit``."""

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


def record_outputs(
    engine: Engine, data: Data, batch_size: int, cache: Cache, ingredients: Mapping[str, str]
) -> RecordedOutputs:
    """Return the outputs of `engine` over the evaluation set, from the cache when nothing changed.

    `ingredients` are those of the engine; the data and the batch size are added to them here.
    """

    def build(folder: Path) -> dict[str, float]:
        started = time.perf_counter()
        with (folder / _ARRAYS).open("wb") as arrays, (folder / _INDEX).open("w", encoding="utf-8") as index:
            for chunk in run_over(engine, data, batch_size):
                kinds = {name: _append(array, arrays) for name, array in chunk.outputs.items()}
                index.write(json.dumps({"start": chunk.start, "n": chunk.n, "outputs": kinds}) + "\n")
        return {"evaluate_s": time.perf_counter() - started}

    named = {**ingredients, "evaluation data": data.digest, "evaluation batch size": str(batch_size)}
    slot = f"{engine.spec.id} of {engine.spec.model.name}"
    entry = cache.obtain("reference", slot, named, build)
    return RecordedOutputs(entry.folder, entry.status, entry.reason, float(entry.facts["evaluate_s"] or 0.0))


def _append(array: NDArray[Any], file: BinaryIO) -> tuple[str, tuple[int, ...]]:
    """Write the values, and return dtype and shape; runtimes give text as Python objects, which have no bytes."""
    stored = array.astype(str) if array.dtype.kind == "O" else array
    file.write(stored.tobytes())
    return stored.dtype.str, stored.shape


def _read(file: BinaryIO, dtype: str, shape: list[int]) -> NDArray[Any]:
    """Read the next array. The index tells what it is, since a header for each costs more than its values."""
    found = np.fromfile(file, dtype, math.prod(shape)).reshape(shape)
    return found.astype(object) if found.dtype.kind == "U" else found


def side_by_side(reference: Iterator[Chunk], candidate: Iterator[Chunk]) -> Iterator[tuple[Chunk, Chunk]]:
    """Yield both sides cut at the same samples; their own chunks may end at different ones."""
    left, right = next(reference, None), next(candidate, None)
    while left is not None and right is not None:
        last = min(left.start + left.n, right.start + right.n)
        yield left.part(left.start, last), right.part(right.start, last)
        left = left.part(last, left.start + left.n) if last < left.start + left.n else next(reference, None)
        right = right.part(last, right.start + right.n) if last < right.start + right.n else next(candidate, None)
