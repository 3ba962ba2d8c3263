"""What every row begins with."""

from __future__ import annotations

from pytest_quant.history.compare.comparison import Outcome, Row
from pytest_quant.history.compare.pairing import Pair
from pytest_quant.record import Record


def row_of(pair: Pair, record: Record, quantity: str) -> Row:
    """Return an unchanged row without values; `record` is the head's."""
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
    """Return the outcome of a change, which gates when it is `proven`."""
    if worse:
        return Outcome.REGRESSION if proven else Outcome.WORSE
    return Outcome.IMPROVEMENT if proven else Outcome.BETTER
