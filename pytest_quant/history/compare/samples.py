"""The samples that each engine gets right, and the score of each sample."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import HistoryError
from pytest_quant.record import Record
from pytest_quant.result import AccuracyResult

Bits = NDArray[Any]
Scores = NDArray[np.float64]


def candidate_right(record: Record) -> Bits | None:
    """Return a mask (n,) of the samples that the candidate gets right, ``None`` when the record does not have it.

    Raises
    ------
    HistoryError : the stored mask is damaged, or has another number of samples.
    """
    return None if record.accuracy is None else answers_of(record.accuracy, record.nodeid)[1]


def answers_of(result: AccuracyResult, nodeid: str) -> tuple[Bits | None, Bits | None]:
    """Return the masks of reference and candidate, see `candidate_right`; `nodeid` names the test in errors."""
    return _bits(result.reference_correct, result.n, nodeid), _bits(result.candidate_correct, result.n, nodeid)


def scores_of(record: Record) -> Scores | None:
    """Return the candidate's score of each sample (n,) in the metric's unit, ``None`` when the record has none.

    Raises
    ------
    HistoryError : the stored scores are damaged, or of another number of samples.
    """
    accuracy = record.accuracy
    if accuracy is None or accuracy.candidate_scores is None:
        return None
    raw = _inflated(accuracy.candidate_scores, record.nodeid)
    scores = np.frombuffer(raw, "<f4").astype(np.float64) if len(raw) == _SCORE_BYTES * accuracy.n else None
    if scores is None or not np.isfinite(scores).all():
        raise _damaged(record.nodeid, f"{len(raw)} bytes for {accuracy.n} samples")
    return scores


_SCORE_BYTES = 4


def _bits(text: str | None, n: int, nodeid: str) -> Bits | None:
    if text is None:
        return None
    packed = np.frombuffer(_inflated(text, nodeid), np.uint8)
    if len(packed) != (n + 7) // 8:
        raise _damaged(nodeid, f"{len(packed)} bytes for {n} samples")
    return np.unpackbits(packed, count=n).astype(bool)


def _inflated(text: str, nodeid: str) -> bytes:
    try:
        return zlib.decompress(base64.b64decode(text, validate=True))
    except (ValueError, zlib.error) as error:
        raise _damaged(nodeid, str(error)) from error


def _damaged(nodeid: str, value: str) -> HistoryError:
    return HistoryError(
        f"the answers kept of {nodeid} are damaged",
        value=value,
        allowed="one bit for each sample, or a score of four bytes, deflated, in base64",
        fix="run the test again, or remove its run from the history",
    )
