"""The table of a run on its page: the terminal's columns and digits, and what is named at the top."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.history import StoredCheck
from pytest_quant.record import Record
from pytest_quant.report.columns import COLUMNS, default_columns, pick_columns, rows_of
from pytest_quant.report.page.content import RunView
from pytest_quant.report.page.overview import run_view
from pytest_quant.result import Interval, Status
from tests.support.pages import ladder, rich_record
from tests.unit.record.examples import ACCURACY, RUN, a_pass, a_record, unavailable
from tests.unit.record.strategies import records


def _view(*found: Record, expected: tuple[str, ...] = ()) -> RunView:
    checks = [StoredCheck(RUN, record) for record in found]
    return run_view(checks, expected)


@given(st.lists(records, min_size=1, max_size=4))
def test_a_cell_is_that_of_the_terminal_without_its_padding(drawn: list[Record]) -> None:
    """Of every column and any records."""
    rows = rows_of(drawn)
    for column in COLUMNS:
        head, padded = column.cells(rows)
        other_head, cells = column.cells(rows, aligned=False)
        assert other_head == head
        assert ["".join(cell.split()) for cell in cells] == ["".join(cell.split()) for cell in padded]


def test_no_digit_of_a_cell_is_padded() -> None:
    """A browser would show the space that puts digits below each other in a terminal."""
    spans = (Interval(-0.25, 12.5), Interval(3.0, 5.0))
    rows = rows_of([a_record(accuracy=replace(ACCURACY, drop_ci=span)) for span in spans])
    (column,) = pick_columns(["drop_ci"])
    assert column.cells(rows, aligned=False)[1] == ["[-0.25, 12.50]", "[3.00, 5.00]"]


def test_columns_are_those_of_the_terminal() -> None:
    """With the status and the test at the beginning, which have their own places."""
    found = [rich_record(), a_pass(), *ladder()]
    names = [name for name in default_columns(rows_of(found)) if name not in ("test", "status")]
    heads = tuple(column.cells(rows_of(found))[0] for column in pick_columns(names))
    view = _view(*found)
    assert view.heads == heads
    assert all(len(check.cells) == len(heads) for check in view.checks)


def test_a_check_is_sorted_by_the_candidate_s_figures() -> None:
    """The last number of a cell, as it is in the record; texts have none."""
    record = rich_record()
    assert record.accuracy is not None
    assert record.latency is not None
    view = _view(record)
    values = dict(zip(view.heads, (cell.value for cell in view.checks[0].cells), strict=True))
    assert values["top1 %"] == record.accuracy.candidate
    assert values["drop pp"] == record.accuracy.drop
    assert values["p50 ms"] == record.latency.candidate_p50_ms
    assert values["speedup x"] == record.latency.speedup


def test_what_is_broken_is_named_first_with_both_figures() -> None:
    """Errors and failures before what could not be told; a pass is not named."""
    view = _view(a_pass(), unavailable(), a_record())
    assert [(check.status, check.headline) for check in view.broken] == [
        ("FAIL", "max_drop 4.23 > 1.0 pp"),
        ("UNAVAILABLE", "backend 'ort-cuda' cannot run here: onnxruntime-gpu is not installed"),
    ]
    assert view.counts == (("FAIL", 1), ("UNAVAILABLE", 1), ("PASS", 1))


def test_of_many_broken_checks_the_rest_is_counted() -> None:
    """Five seconds are enough for eight lines."""
    many = [replace(a_record(), nodeid=f"t.py::test_{number}") for number in range(11)]
    view = _view(*many)
    assert (len(view.broken), view.unnamed) == (8, 3)


def test_an_expected_failure_is_none() -> None:
    """As in the terminal's table."""
    view = _view(a_record(), expected=(a_record().nodeid,))
    assert [check.status for check in view.checks] == ["XFAIL"]
    assert view.broken == ()


def test_a_limit_that_could_not_be_judged_says_why() -> None:
    """In its line at the top."""
    record = a_record()
    assert record.verdicts is not None
    verdict = replace(record.verdicts[0], status=Status.INCONCLUSIVE, reason="too few samples")
    view = _view(replace(record, status=Status.INCONCLUSIVE, verdicts=(verdict,)))
    assert view.checks[0].headline == "max_drop: too few samples"


def test_a_run_without_a_check_has_an_empty_table() -> None:
    """And counts nothing."""
    view = _view()
    assert (view.checks, view.counts, view.heads) == ((), (), ())


@pytest.mark.parametrize("word", ["test_int8", "digits", "ort-int8-static", "top1", "fail"])
def test_a_search_finds_a_check_by_what_it_is(word: str) -> None:
    """Test, model, engine, metric or status."""
    (check,) = _view(a_record()).checks
    assert word in check.words
