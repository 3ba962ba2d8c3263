"""The answers and scores of single samples that a record keeps, packed."""

from __future__ import annotations

import base64
import zlib
from typing import NamedTuple

import numpy as np

from pytest_quant.files import inflate
from pytest_quant.metrics.metric import Array
from pytest_quant.result import AccuracyResult

MOST_SCORES = 10_000
"""Of larger sets no scores of single samples are kept, since they would take more than 53 kB of every record."""


def pack_scores(scores: Array) -> str | None:
    """Return scores (n,) as a record keeps them; ``None`` for too many, or if float32 has no such numbers."""
    with np.errstate(over="ignore"):
        rounded = scores.astype("<f4")
    return pack(rounded) if len(scores) <= MOST_SCORES and np.isfinite(rounded).all() else None


def pack(values: Array) -> str:
    """Return the bytes of `values`, deflated, as base64."""
    return base64.b64encode(zlib.compress(values.tobytes())).decode("ascii")


class Answers(NamedTuple):
    """The answers of a record.

    Attributes
    ----------
    reference, candidate : masks (n,) of the samples that each gets right; ``None`` where the record has none.
    scores : of the candidate, for each sample (n,) in the metric's unit; ``None`` where the record has none.
    damage : why none of them can be read, as a sentence; else empty.
    """

    reference: Array | None = None
    candidate: Array | None = None
    scores: Array | None = None
    damage: str = ""


def answers_of(result: AccuracyResult) -> Answers:
    """Return the answers that a record keeps, of any content, within the bounds of a record."""
    try:
        texts, n = (result.reference_correct, result.candidate_correct), result.n
        packed = (_unpack(text, "u1", (n + 7) // 8) for text in texts)
        reference, candidate = (None if bits is None else np.unpackbits(bits, count=n).astype(bool) for bits in packed)
        scores = _unpack(result.candidate_scores, "<f4", n)
        return Answers(reference, candidate, None if scores is None else scores.astype(np.float64))
    except ValueError as error:
        return Answers(damage=f"the answers of single samples are damaged: {error}")


def _unpack(text: str | None, kind: str, count: int) -> Array | None:
    """Return `count` finite values of a kind of numpy."""
    if text is None:
        return None
    # A whole record has no more bytes.
    most_bytes = min(max(count, 0) * np.dtype(kind).itemsize, 64_000_000)
    values = np.frombuffer(inflate(base64.b64decode(text, validate=True), most_bytes), kind)
    if len(values) != count or not np.isfinite(values).all():
        raise ValueError(f"{len(values)} values, where there must be {count} finite ones")
    return values
