"""The word and the exit code of a comparison."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.history.baselines.file import BaselineEntry, series_of
from pytest_quant.history.compare import Outcome, compare, rule
from pytest_quant.history.rows import StoredCheck
from pytest_quant.report.comparison import ComparedRuns, comparison_json
from pytest_quant.report.comparison_text import comparison_text
from pytest_quant.report.pull_request import comparison_comment
from pytest_quant.result import Resources, Status
from tests.unit.history.compare.launched import answered, answers, key, launch, launches, record_of, timed

_A, _B = "tests/test_a.py::test_a", "tests/test_b.py::test_b"
_NOW = datetime(2026, 1, 2, tzinfo=UTC)
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
    found = compare(base, head)
    assert (rule(found).code, rule(found, strict=True).code) == (code, strict)


def test_a_removed_test_is_1_for_the_whole_suite_unless_accepted() -> None:
    """A part of the suite says nothing about the rest."""
    found = compare(_BASE, _head(_A))
    assert rule(found).code == 0
    assert rule(found, full_suite=True).code == 1
    assert [one.series for one in rule(found, full_suite=True).missing] == [_OTHER.series]
    for nodeid, series, code in ((_B, _OTHER.series, 0), (_A, key(_A), 1)):
        entry = BaselineEntry(
            **series_of(key(nodeid))._asdict(), commit="c", reason="r", accepted_at=_NOW, removed=True
        )
        assert rule(compare(_BASE, _head(_A), accepted={series: entry}), full_suite=True).code == code


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
    return runs.map(lambda all_: [one for i, each in enumerate(all_) for one in launch(*each, run=str(i), commit=name)])


_ENTRY = st.builds(
    lambda nodeid, removed, mb, score: BaselineEntry(
        **series_of(key(nodeid))._asdict(), commit="c", reason="r", accepted_at=_NOW,
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
    found = compare(base, head, accepted={entry.series.key: entry for entry in entries})
    ruling = rule(found, strict=strict, full_suite=full_suite)
    headline = comparison_text(found, ruling, 10_000).splitlines()[1]
    assert f"**{headline}**" in unescape(comparison_comment(ComparedRuns(found, ruling)))
    document = comparison_json(found, ruling)
    word = headline.partition(":")[0]
    assert ruling.code in _CODES[word]
    assert strict or ruling.code in (0, 1)
    said = {"NO REGRESSION": "ok"}.get(word, word.lower().replace(" ", "_"))
    assert (document["verdict"], document["exit_code"]) == (said, ruling.code)
    bad = bool(found.having(Outcome.REGRESSION)) or (full_suite and any(not one.accepted for one in found.removed))
    assert (ruling.code == 1) is bad
