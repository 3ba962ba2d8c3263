"""The verdict, the exit code, and what an accepted value excuses."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as replace_entry

from pytest_quant.history.baselines.acceptance import accept
from pytest_quant.history.baselines.file import BaselineEntry
from pytest_quant.history.compare import compare
from pytest_quant.history.compare.comparison import Comparison, Outcome
from pytest_quant.history.rows import StoredCheck
from pytest_quant.record import Record
from pytest_quant.report.comparison_text import comparison_json, comparison_text
from pytest_quant.report.pull_request import run_comment
from pytest_quant.result import Interval, Resources, Status
from pytest_quant.spec import SeriesKey
from tests.unit.history.compare.launched import answered, answers, changed, key, launch, launches, record_of, timed

_A, _B = "tests/test_a.py::test_a", "tests/test_b.py::test_b"
_NOW = datetime(2026, 3, 4, tzinfo=UTC)
_OTHER = replace(record_of(_B), model="other")


def _head(*names: str, wrong: int = 0) -> list[StoredCheck]:
    records = {_A: answered(record_of(_A), answers(range(wrong))), _B: _OTHER}
    return launch(*(records[name] for name in names), commit="head")


_BASE = launch(record_of(_A), _OTHER)


_TIMED = timed(record_of(_A, latency=True), 0.5)
_FLAKY = launches([record_of(_A), replace(record_of(_A), status=Status.FAIL), record_of(_A)], commit="head")


@pytest.mark.parametrize(
    ("base", "head", "code", "strict"),
    [
        (_BASE, _head(_A, _B), 0, 0),
        (_BASE, _head(_A, _B, wrong=20), 1, 1),
        (_BASE, _head(_A, _B, wrong=1), 0, 0),
        (launch(record_of(_A)), _head(_A, _B), 0, 0),
        (launches([_TIMED]), launches([_TIMED], commit="head"), 0, 3),
        (launches([_TIMED]), launches([answered(_TIMED, answers(range(20)))], commit="head"), 1, 1),
        (launch(_TIMED), launch(record_of(_A), commit="head"), 0, 3),
        (launches([record_of(_A)] * 3), _FLAKY, 0, 3),
        (_FLAKY, _FLAKY, 0, 0),
        ([], _head(_A), 0, 4),
        (launches([_TIMED], cpu="one"), launches([_TIMED], commit="head", cpu="two"), 0, 4),
        (_BASE, launch(replace(record_of(_A), digests={"data": "new"}), _OTHER, commit="head"), 0, 4),
    ],
    ids=[
        *("nothing changed", "regression", "not proven", "added test", "one launch a side"),
        *("regression beside it", "no latency at the head", "fails in some launches", "as flaky as before"),
        *("no base", "another machine", "other data"),
    ],
)
def test_the_exit_code(base: list[StoredCheck], head: list[StoredCheck], code: int, strict: int) -> None:
    """1 before 3 before 4; what cannot be told fails under strict only, and an added test never does."""
    result = compare(base, head)
    assert (result.exit_code, replace(result, strict=True).exit_code) == (code, strict)


def test_a_removed_test_is_1_for_the_whole_suite_unless_accepted() -> None:
    """A part of the suite says nothing about the rest."""
    part, whole = (compare(_BASE, _head(_A), full_suite=full_suite) for full_suite in (False, True))
    assert (part.exit_code, whole.exit_code) == (0, 1)
    assert [each.series for each in whole.missing] == [_OTHER.series]
    for nodeid, series, code in ((_B, _OTHER.series, 0), (_A, key(_A), 1)):
        entry = BaselineEntry(
            **SeriesKey.parse(key(nodeid))._asdict(), commit="c", reason="r", accepted_at=_NOW, removed=True
        )
        assert compare(_BASE, _head(_A), accepted={series: entry}, full_suite=True).exit_code == code


_RECORDS = st.builds(
    lambda nodeid, wrong, status, data, mb: replace(
        answered(record_of(nodeid), answers(range(wrong))),
        status=status, digests={"data": data}, resources=Resources(size_mb=mb),
    ),
    st.sampled_from([_A, _B]), st.sampled_from([0, 0, 0, 30]), st.sampled_from(list(Status)),
    st.sampled_from(["one", "one", "two"]), st.sampled_from([1.0, 1.0, 7.8]),
)  # fmt: skip


def _side(name: str) -> st.SearchStrategy[list[StoredCheck]]:
    runs = st.lists(st.lists(_RECORDS, max_size=2), max_size=3)
    return runs.map(
        lambda all_: [item for i, each in enumerate(all_) for item in launch(*each, run=str(i), commit=name)]
    )


_ENTRY = st.builds(
    lambda nodeid, removed, mb, score: BaselineEntry(
        **SeriesKey.parse(key(nodeid))._asdict(), commit="c", reason="r", accepted_at=_NOW,
        removed=removed, size_mb=mb, candidate_score=score,
    ),
    st.sampled_from([_A, _B]), st.booleans(), st.sampled_from([None, 7.8]), st.sampled_from([None, 10.0]),
)  # fmt: skip

_CODES = {
    "REGRESSION": {1},
    "INCONCLUSIVE": {3},
    "NO BASELINE": {0, 4},
    "NOTHING TO COMPARE": {0, 4},
    "NO REGRESSION": {0},
}


@settings(max_examples=100)
@given(_side("base"), _side("head"), st.lists(_ENTRY, max_size=2), st.booleans(), st.booleans())
def test_the_headline_agrees_with_the_exit_code(
    base: list[StoredCheck], head: list[StoredCheck], entries: list[BaselineEntry], strict: bool, full_suite: bool
) -> None:
    """In text, Markdown and JSON alike, whatever changed, was removed or was accepted."""
    accepted = {entry.series.text: entry for entry in entries}
    result = compare(base, head, accepted=accepted, strict=strict, full_suite=full_suite)
    headline = comparison_text(result, 10_000).splitlines()[1]
    assert headline in unescape(run_comment(None, [], compared=[result])).splitlines()[1]
    document = comparison_json(result)
    word = headline.partition(":")[0]
    assert result.exit_code in _CODES[word]
    assert strict or result.exit_code in (0, 1)
    said = {"NO REGRESSION": "ok"}.get(word, word.lower().replace(" ", "_"))
    assert (document["verdict"], document["exit_code"]) == (said, result.exit_code)
    bad = bool(result.select_rows(Outcome.REGRESSION)) or (
        full_suite and any(not each.accepted for each in result.removed)
    )
    assert (result.exit_code == 1) is bad


def _record(wrong: int = 0, mb: float = 1.0, ms: float = 0.5, pct: float = 90.0) -> Record:
    record = timed(answered(record_of(latency=True), answers(range(wrong))), ms)
    assert record.coverage is not None
    return replace(record, resources=Resources(size_mb=mb), coverage=replace(record.coverage, pct=pct))


def _entry(record: Record) -> BaselineEntry:
    entry = accept(launch(record, commit="c0ffee"), reason="retrained", accepted_at=_NOW)
    assert entry is not None
    return entry


def _compared(head: Record, entry: BaselineEntry | None) -> Comparison:
    accepted = None if entry is None else {head.series: entry}
    return compare(launches([_record()] * 5), launches([head] * 5, commit="head"), accepted=accepted)


def _unpaired(drop: float) -> Record:
    """A record that keeps no answers, so that drops are compared."""
    record = _record()
    accuracy = record.accuracy and replace(
        record.accuracy,
        reference_correct=None,
        candidate_correct=None,
        candidate=record.accuracy.candidate and record.accuracy.candidate - drop,
        drop=drop,
        drop_ci=Interval(drop - 0.1, drop + 0.1),
    )
    return replace(record, accuracy=accuracy)


_CHANGES = [
    ("drop", _unpaired(20.0), _unpaired(25.0)),
    ("accuracy", _record(wrong=40), _record(wrong=60)),
    ("size", _record(mb=2.0), _record(mb=2.5)),
    ("coverage", _record(pct=80.0), _record(pct=70.0)),
    ("speedup", _record(ms=0.6), _record(ms=0.65)),
]


@pytest.mark.parametrize(("quantity", "wanted", "more"), _CHANGES)
def test_an_accepted_change_is_no_regression(quantity: str, wanted: Record, more: Record) -> None:
    """The row is shown with the reason; without the entry it gates, and so does what is worse than was accepted."""
    assert (quantity, "regression") in changed(_compared(wanted, None))
    result = _compared(wanted, _entry(wanted))
    assert (quantity, "accepted") in changed(result)
    assert result.exit_code == 0
    text = comparison_text(result, 200)
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
    result = _compared(failed, _entry(_record()))
    assert [each.quantity for each in result.select_rows(Outcome.REGRESSION)] == ["status"]
