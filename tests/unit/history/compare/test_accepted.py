"""A change whose new value was accepted is no regression, and anything worse is one still."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace as replace_entry

from pytest_quant.history.baselines.accept import accept
from pytest_quant.history.baselines.file import BaselineEntry
from pytest_quant.history.compare import Comparison, Outcome, compare, rule
from pytest_quant.record import Record
from pytest_quant.report.comparison_text import comparison_text
from pytest_quant.result import Resources, Status
from tests.unit.history.compare.launched import answered, answers, changed, launch, launches, record_of, timed

_NOW = datetime(2026, 3, 4, tzinfo=UTC)


def _record(wrong: int = 0, mb: float = 1.0, ms: float = 0.5, pct: float = 90.0) -> Record:
    record = timed(answered(record_of(latency=True), answers(range(wrong))), ms)
    assert record.coverage is not None
    return replace(record, resources=Resources(size_mb=mb), coverage=replace(record.coverage, pct=pct))


def _entry(record: Record) -> BaselineEntry:
    made = accept(launch(record, commit="c0ffee"), reason="retrained", accepted_at=_NOW)
    assert made is not None
    return made


def _compared(head: Record, entry: BaselineEntry | None) -> Comparison:
    accepted = None if entry is None else {head.series: entry}
    return compare(launches([_record()] * 5), launches([head] * 5, commit="head"), accepted=accepted)


_CHANGES = [
    ("accuracy", _record(wrong=40), _record(wrong=60)),
    ("size", _record(mb=2.0), _record(mb=2.5)),
    ("coverage", _record(pct=80.0), _record(pct=70.0)),
    ("speedup", _record(ms=0.6), _record(ms=0.65)),
]


@pytest.mark.parametrize(("quantity", "wanted", "more"), _CHANGES)
def test_an_accepted_change_is_no_regression(quantity: str, wanted: Record, more: Record) -> None:
    """The row is shown with the reason; without the entry it gates, and so does what is worse than was accepted."""
    assert (quantity, "regression") in changed(_compared(wanted, None))
    found = _compared(wanted, _entry(wanted))
    assert (quantity, "accepted") in changed(found)
    assert rule(found).code == 0
    text = comparison_text(found, rule(found), 200)
    assert "NO REGRESSION: 1 accepted change, " in text
    assert "accepted with c0ffee on 2026-03-04: retrained" in text
    assert (quantity, "regression") in changed(_compared(more, _entry(wanted)))


def test_a_value_between_the_base_and_the_accepted_one_is_accepted() -> None:
    """It lost less than was allowed for."""
    assert ("accuracy", "accepted") in changed(_compared(_record(wrong=30), _entry(_record(wrong=40))))


def test_a_score_accepted_on_other_data_excuses_nothing() -> None:
    """Nor a speed on another machine."""
    entry = replace_entry(_entry(_record(wrong=40)), data="other")
    assert ("accuracy", "regression") in changed(_compared(_record(wrong=40), entry))
    slow = _entry(_record(ms=0.6))
    (latency,) = slow.latency
    elsewhere = replace_entry(slow, latency=(replace_entry(latency, identity={"cpu": "Another"}),))
    assert ("speedup", "regression") in changed(_compared(_record(ms=0.6), elsewhere))


def test_a_test_that_fails_is_never_accepted() -> None:
    """No entry has a status, for no failed record becomes a baseline."""
    failed = replace(_record(), status=Status.FAIL)
    found = _compared(failed, _entry(_record()))
    assert [one.quantity for one in found.having(Outcome.REGRESSION)] == ["status"]
