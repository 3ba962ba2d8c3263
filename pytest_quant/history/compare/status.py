"""The verdict of each test at base and head."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from pytest_quant.history.compare.comparison import Outcome, Quantity, Row
from pytest_quant.history.compare.pairing import Pair
from pytest_quant.history.rows import StoredCheck
from pytest_quant.record import Record
from pytest_quant.result import Status


def row_of(pair: Pair, record: Record, quantity: Quantity) -> Row:
    """Return an unchanged row without values.

    Parameters
    ----------
    pair : launches of the series.
    record : of the head.
    quantity : what the row compares.
    """
    return Row(
        series=pair.series,
        nodeid=record.nodeid,
        model=record.model,
        engine_id=record.engine_id,
        quantity=quantity,
        outcome=Outcome.UNCHANGED,
        base=None,
        head=None,
        base_launches=len(pair.base),
        head_launches=len(pair.head),
    )


def worse_or_better(worse: bool, *, proven: bool) -> Outcome:
    """Return the outcome of a change, which fails a comparison only when it is worse and `proven`."""
    if worse:
        return Outcome.REGRESSION if proven else Outcome.WORSE
    return Outcome.IMPROVEMENT if proven else Outcome.BETTER


BROKEN = (Status.ERROR, Status.FAIL)


def compare_statuses(pair: Pair) -> Row:
    """Return the row of the commonest status of the launches at base and at head, the worst of equally common ones.

    The same status at both is INCONCLUSIVE where some launches of the head fail and none of the base.
    """
    base, head = _usual(pair.base), _usual(pair.head)
    notes = (*_others("base", pair.base, base), *_others("head", pair.head, head))
    row = replace(row_of(pair, pair.head[-1].record, "status"), base=base.value, head=head.value, notes=notes)
    outcome = _outcome(base, head)
    if outcome is Outcome.UNCHANGED and _fails(pair.head) and not _fails(pair.base):
        outcome = Outcome.INCONCLUSIVE
    return replace(row, outcome=outcome)


def _fails(launches: tuple[StoredCheck, ...]) -> bool:
    return any(check.record.status in BROKEN for check in launches)


def _outcome(base: Status, head: Status) -> Outcome:
    if base is head:
        return Outcome.UNCHANGED
    if head is Status.UNAVAILABLE:
        return Outcome.INCONCLUSIVE
    if base is Status.UNAVAILABLE:
        return Outcome.NO_BASELINE
    if (base in BROKEN) == (head in BROKEN):
        return Outcome.CHANGED
    return Outcome.REGRESSION if head in BROKEN else Outcome.IMPROVEMENT


def _usual(launches: tuple[StoredCheck, ...]) -> Status:
    counts = Counter(one.record.status for one in launches)
    # `Status` lists its words worst first, and `max` takes the first of equals.
    return max((status for status in Status if counts[status]), key=lambda status: counts[status])


def _others(name: str, launches: tuple[StoredCheck, ...], usual: Status) -> tuple[str, ...]:
    """Return a note that counts the launches with another status, if there are any."""
    others = Counter(one.record.status.value for one in launches if one.record.status is not usual)
    if not others:
        return ()
    counts = ", ".join(f"{status} in {number}" for status, number in sorted(others.items()))
    return (f"{counts} of {len(launches)} launches of the {name}",)
