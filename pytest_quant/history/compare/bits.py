"""Which samples a record's candidate gets right, unpacked."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import HistoryError
from pytest_quant.record import Record

Bits = NDArray[Any]


def candidate_right(record: Record) -> Bits | None:
    """Return true (n,) for each sample that the candidate gets right; ``None`` when that was not kept.

    Raises
    ------
    HistoryError : what was kept is damaged, or of another number of samples.
    """
    found = record.accuracy
    return None if found is None else _bits(record, found.candidate_correct, found.n)


def reference_right(record: Record) -> Bits | None:
    """Return the same of the reference. Raises `HistoryError`."""
    found = record.accuracy
    return None if found is None else _bits(record, found.reference_correct, found.n)


def _bits(record: Record, kept: str | None, n: int) -> Bits | None:
    if kept is None:
        return None
    try:
        packed = np.frombuffer(zlib.decompress(base64.b64decode(kept, validate=True)), np.uint8)
    except (ValueError, zlib.error) as error:
        raise _damaged(record, str(error)) from error
    if len(packed) != (n + 7) // 8:
        raise _damaged(record, f"{len(packed)} bytes for {n} samples")
    return np.unpackbits(packed, count=n).astype(bool)


def _damaged(record: Record, value: str) -> HistoryError:
    return HistoryError(
        f"the answers kept of {record.nodeid} are damaged",
        value=value,
        allowed="one bit for each sample, deflated, in base64",
        fix="run the test again, or remove its run from the history",
    )
