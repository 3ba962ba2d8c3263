"""The drop against the own reference on some of the samples, where scores are 0 or 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_quant.history.compare.bits import Bits, answers_of
from pytest_quant.result import AccuracyResult


def score_of_one(found: AccuracyResult, right: Bits) -> float | None:
    """Return what one sample of `right` (n,), the candidate's, adds to its score times n: 100 for percent."""
    share = float(np.mean(right)) if found.better != "lower" else 1.0 - float(np.mean(right))
    return found.candidate / share if found.candidate is not None and share > 0.0 else None


def drop_on(found: AccuracyResult, nodeid: str, places: Sequence[int]) -> float | None:
    """Return the drop on the samples at `places`, in the metric's unit; ``None`` where answers are not kept.

    Raises
    ------
    HistoryError : what was kept is damaged; `nodeid` names the test.
    """
    reference, candidate = answers_of(found, nodeid)
    if reference is None or candidate is None or not places:
        return None
    one = score_of_one(found, candidate)
    if one is None:
        return None
    at = list(places)
    return one * (int(np.count_nonzero(reference[at])) - int(np.count_nonzero(candidate[at]))) / len(at)
