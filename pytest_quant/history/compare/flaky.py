"""Tests whose launches of the head disagree where those of the base agreed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pytest_quant.history.compare.comparison import Flaky
from pytest_quant.history.compare.pairing import Pair
from pytest_quant.history.compare.status import BROKEN
from pytest_quant.history.rows import StoredCheck, version_of
from pytest_quant.result import Better, Status

SAME_SCORE = 1e-6
"""Relative difference of two scores that counts as none: threads add floats in another order each time."""


def newly_flaky(pair: Pair) -> Iterator[Flaky]:
    """Yield what of a series differs between launches of the head, and did not between those of the base.

    A status differs where the test is FAIL or ERROR in some launches and neither in others; INCONCLUSIVE is noise of
    a machine, and UNAVAILABLE tells nothing. Scores are those on one machine and of one version of the data.
    """
    yield from _status(pair)
    yield from _score(pair)


def _status(pair: Pair) -> Iterator[Flaky]:
    base, head = (
        [one for one in side if one.record.status is not Status.UNAVAILABLE] for side in (pair.base, pair.head)
    )
    broken = [{one.record.status in BROKEN for one in side} for side in (base, head)]
    if len(broken[0]) == 1 and len(broken[1]) == 2:
        told = [_counted(one.record.status.value for one in side) for side in (base, head)]
        yield _flaky(pair, "status", told, worse=broken[0] == {False})


def _score(pair: Pair) -> Iterator[Flaky]:
    base, head = _scores(pair.base), _scores(pair.head)
    varying = [key for key, scores in head.items() if _vary(scores)]
    if not base or not varying or any(map(_vary, base.values())):
        return
    accuracy = pair.head[-1].record.accuracy
    for key in varying:
        was = base.get(key) or [score for scores in base.values() for score in scores]
        comparable = key in base or any(version == key[1] for _, version in base)
        unit = f" {accuracy.unit}" if accuracy and accuracy.unit else ""
        told = [_counted(f"{score:.6g}{unit}" for score in scores) for scores in (was, head[key])]
        worse = not comparable or _loses(was, head[key], accuracy.better if accuracy else None)
        yield _flaky(pair, "accuracy", told, worse=worse)


_Scores = dict[tuple[tuple[tuple[str, str], ...], str], list[float]]


def _scores(launches: Iterable[StoredCheck]) -> _Scores:
    """Return the candidate's scores of all launches by machine and version of the data."""
    found: _Scores = {}
    for one in launches:
        accuracy = one.record.accuracy
        if accuracy is not None and accuracy.candidate is not None:
            machine = tuple(sorted(one.run.environment.identity.items()))
            found.setdefault((machine, version_of(one.record)), []).append(accuracy.candidate)
    return found


def _vary(scores: Sequence[float]) -> bool:
    return not math.isclose(min(scores), max(scores), rel_tol=SAME_SCORE, abs_tol=1e-12)


def _loses(base: Sequence[float], head: Sequence[float], better: Better | None) -> bool:
    """Whether a launch of the head is worse than every launch of the base."""
    if better == "lower":
        return max(head) > max(base) and _vary([max(head), max(base)])
    return min(head) < min(base) and _vary([min(head), min(base)])


def _counted(values: Iterable[str]) -> str:
    """Return ``PASS in 2, FAIL in 1 of 3 launches``, the commonest first."""
    counts = Counter(values)
    told = ", ".join(f"{value} in {number}" for value, number in counts.most_common())
    return f"{told} of {counts.total()} launch{'' if counts.total() == 1 else 'es'}"


def _flaky(pair: Pair, quantity: str, told: Sequence[str], *, worse: bool) -> Flaky:
    record = pair.head[-1].record
    return Flaky(
        pair.series, record.nodeid, record.model, record.engine_id,
        "status" if quantity == "status" else "accuracy", told[0], told[1], worse,
    )  # fmt: skip
