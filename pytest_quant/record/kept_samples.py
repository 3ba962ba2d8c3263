"""The samples that a check was evaluated on, as a run keeps them.

A run keeps its samples once for each evaluation data, however many of its checks share it: the first 32 bits of each
sample's hash, in the order of its right and wrong answers. Two different samples of two sets of n and m are taken for
one with a probability of n m / 2^32: 1 in 5000 for sets of 900.
"""

from __future__ import annotations

import base64
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import HistoryError
from pytest_quant.record.record import Record
from pytest_quant.record.run import Run

MOST_SAMPLES = 10_000
"""Of larger sets none are kept, since they would take more than 53 kB of every run."""

_HASH_BITS = 64
_KEPT_BITS = 32


def pack_samples(hashes: array[int]) -> str | None:
    """Return 64-bit hashes as a record keeps them; ``None`` when there are more than `MOST_SAMPLES`."""
    if len(hashes) > MOST_SAMPLES:
        return None
    upper = (np.asarray(hashes, np.uint64) >> np.uint64(_HASH_BITS - _KEPT_BITS)).astype("<u4")
    return base64.b64encode(upper.tobytes()).decode("ascii")


def unpack_samples(run: Run, record: Record) -> NDArray[Any] | None:
    """Return the kept digests (n,) of the samples of `record`, uint32; ``None`` when none were kept.

    Raises
    ------
    HistoryError : what was kept is damaged, or of another number of samples.
    """
    text = run.samples.get(record.digests.get("data", ""))
    return None if record.accuracy is None else unpack_digests(text, record.accuracy.n, record.nodeid)


def unpack_digests(text: str | None, n: int, nodeid: str) -> NDArray[Any] | None:
    """Return the digests of samples, uint32 (n,).

    Parameters
    ----------
    text : as a record keeps them, in base64; ``None`` when it keeps none, for which ``None`` is returned.
    n : number of samples.
    nodeid : of the test, for the message.

    Raises
    ------
    HistoryError : the text is damaged, or not of `n` samples.
    """
    if text is None:
        return None
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise _damaged(nodeid, str(error)) from error
    if len(raw) != _KEPT_BITS // 8 * n:
        raise _damaged(nodeid, f"{len(raw)} bytes for {n} samples")
    return np.frombuffer(raw, "<u4")


def _damaged(nodeid: str, value: str) -> HistoryError:
    return HistoryError(
        f"the digests kept of the samples of {nodeid} are damaged",
        value=value,
        allowed="four bytes for each sample, in base64",
        fix="run the test again, or remove its run from the history",
    )
