"""Which samples each engine gets right, and which samples two records of different data share."""

from __future__ import annotations

import base64
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import HistoryError
from pytest_quant.history.rows import StoredCheck
from pytest_quant.record import Record
from pytest_quant.record.samples import unpack_samples
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


LEAST_SHARE = 0.5
"""Of the smaller set: where fewer are in both, what they tell speaks for neither."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Places of the same samples in two sets of `n_base` and `n_head`: sample ``base[i]`` is sample ``head[i]``."""

    base: tuple[int, ...]
    head: tuple[int, ...]
    n_base: int
    n_head: int

    def __str__(self) -> str:
        """How many there are, and how many there could have been."""
        return f"compared on the {len(self.base)} samples that both have, of {self.n_base} and {self.n_head}"


def overlap(base: StoredCheck, head: StoredCheck) -> Overlap | None:
    """Return the samples that both records have by their digests, in the base's order.

    A sample that a set holds several times is paired as often as both hold it. ``None`` where one of them kept no
    digests, or where less than `LEAST_SHARE` of the smaller set is in both.

    Raises
    ------
    HistoryError : what was kept is damaged.
    """
    return overlap_of(*(unpack_samples(one.run, one.record) for one in (base, head)))


def overlap_of(was: NDArray[Any] | None, now: NDArray[Any] | None) -> Overlap | None:
    """Return the same of two sets of digests (n,) and (m,)."""
    if was is None or now is None:
        return None
    places = {sample: index for index, sample in enumerate(_counted(now))}
    both = [(index, places[sample]) for index, sample in enumerate(_counted(was)) if sample in places]
    if not both or len(both) < LEAST_SHARE * min(len(was), len(now)):
        return None
    return Overlap(tuple(one for one, _ in both), tuple(one for _, one in both), len(was), len(now))


def _counted(samples: NDArray[Any]) -> list[tuple[int, int]]:
    """Each digest with how many equal ones come before it."""
    seen: Counter[int] = Counter()
    found = []
    for sample in samples.tolist():
        found.append((sample, seen[sample]))
        seen[sample] += 1
    return found
