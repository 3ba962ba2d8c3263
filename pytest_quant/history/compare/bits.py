"""Which samples reference and candidate get right, unpacked."""

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


def candidate_right(record: Record) -> Bits | None:
    """Return true (n,) for each sample that the candidate gets right; ``None`` when that was not kept.

    Raises
    ------
    HistoryError : what was kept is damaged, or of another number of samples.
    """
    return None if record.accuracy is None else answers_of(record.accuracy, record.nodeid)[1]


def answers_of(found: AccuracyResult, nodeid: str) -> tuple[Bits | None, Bits | None]:
    """Return the same of reference and candidate. Raises `HistoryError`, in which `nodeid` names the test."""
    return _bits(found.reference_correct, found.n, nodeid), _bits(found.candidate_correct, found.n, nodeid)


def _bits(kept: str | None, n: int, nodeid: str) -> Bits | None:
    if kept is None:
        return None
    try:
        packed = np.frombuffer(zlib.decompress(base64.b64decode(kept, validate=True)), np.uint8)
    except (ValueError, zlib.error) as error:
        raise _damaged(nodeid, str(error)) from error
    if len(packed) != (n + 7) // 8:
        raise _damaged(nodeid, f"{len(packed)} bytes for {n} samples")
    return np.unpackbits(packed, count=n).astype(bool)


def _damaged(nodeid: str, value: str) -> HistoryError:
    return HistoryError(
        f"the answers kept of {nodeid} are damaged",
        value=value,
        allowed="one bit for each sample, deflated, in base64",
        fix="run the test again, or remove its run from the history",
    )
