"""The verdict of each test at base and head."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from pytest_quant.history.compare.comparison import Outcome, Row
from pytest_quant.history.compare.pairing import Pair
from pytest_quant.history.compare.start import row_of
from pytest_quant.history.rows import StoredCheck
from pytest_quant.result import Status

_BROKEN = (Status.ERROR, Status.FAIL)


def compare_statuses(pair: Pair) -> Row:
    """Return the row of the status that most launches of each side have, the worst of equally many."""
    base, head = _usual(pair.base), _usual(pair.head)
    notes = (*_flaky("base", pair.base, base), *_flaky("head", pair.head, head))
    row = replace(row_of(pair, pair.head[-1].record, "status"), base=base.value, head=head.value, notes=notes)
    return replace(row, outcome=_outcome(base, head))


def _outcome(base: Status, head: Status) -> Outcome:
    if base is head:
        return Outcome.UNCHANGED
    if head is Status.UNAVAILABLE:
        return Outcome.INCONCLUSIVE
    if base is Status.UNAVAILABLE:
        return Outcome.NO_BASELINE
    if (base in _BROKEN) == (head in _BROKEN):
        return Outcome.CHANGED
    return Outcome.REGRESSION if head in _BROKEN else Outcome.IMPROVEMENT


def _usual(launches: tuple[StoredCheck, ...]) -> Status:
    counts = Counter(one.record.status for one in launches)
    # `Status` lists its words worst first, and `max` takes the first of equals.
    return max((status for status in Status if counts[status]), key=lambda status: counts[status])


def _flaky(name: str, launches: tuple[StoredCheck, ...], usual: Status) -> tuple[str, ...]:
    others = Counter(one.record.status.value for one in launches if one.record.status is not usual)
    if not others:
        return ()
    told = ", ".join(f"{status} in {number}" for status, number in sorted(others.items()))
    return (f"{told} of {len(launches)} launches of the {name}",)
