"""What a record keeps of each sample, packed: which of them are answered rightly, or the candidate's score."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_quant.files import inflate
from pytest_quant.result import AccuracyResult

Array = NDArray[Any]

_MOST_BYTES = 64_000_000
"""As many as a whole record may have."""


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
        packed = (_unpacked(text, "u1", (n + 7) // 8) for text in texts)
        reference, candidate = (None if bits is None else np.unpackbits(bits, count=n).astype(bool) for bits in packed)
        scores = _unpacked(result.candidate_scores, "<f4", n)
        return Answers(reference, candidate, None if scores is None else scores.astype(np.float64))
    except ValueError as error:
        return Answers(damage=f"the answers of single samples are damaged: {error}")


def _unpacked(text: str | None, kind: str, count: int) -> Array | None:
    """Return `count` finite values of a kind of numpy."""
    if text is None:
        return None
    most_bytes = min(max(count, 0) * np.dtype(kind).itemsize, _MOST_BYTES)
    values = np.frombuffer(inflate(base64.b64decode(text, validate=True), most_bytes), kind)
    if len(values) != count or not np.isfinite(values).all():
        raise ValueError(f"{len(values)} values, where there must be {count} finite ones")
    return values
