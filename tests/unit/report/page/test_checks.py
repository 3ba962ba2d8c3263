"""The table of a run on its page, and what a check opens to; see ``screens`` for all that it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_quant.history import StoredCheck
from pytest_quant.record import Record
from pytest_quant.report.page.checks import run_table
from pytest_quant.result import Status
from tests.support.pages import rich_record
from tests.unit.history.compare.launched import packed
from tests.unit.record.examples import RUN, a_pass, a_record, unavailable


def _table(*records: Record, expected: tuple[str, ...] = ()) -> dict[str, Any]:
    return run_table([StoredCheck(RUN, record) for record in records], expected)


def test_what_is_broken_is_named_first_with_both_figures() -> None:
    """Errors and failures before what could not be told; a pass is not named."""
    table = _table(a_pass(), unavailable(), a_record())
    assert [(check.row.status, check.headline) for check in table["broken"]] == [
        ("FAIL", "max_drop 4.23 > 1.0 pp"),
        ("UNAVAILABLE", "backend 'ort-cuda' cannot run here: onnxruntime-gpu is not installed"),
    ]
    assert table["counts"] == [("FAIL", 1), ("UNAVAILABLE", 1), ("PASS", 1)]


def test_of_many_broken_checks_the_rest_is_counted() -> None:
    """Five seconds are enough for eight lines."""
    table = _table(*(replace(a_record(), nodeid=f"t.py::test_{number}") for number in range(11)))
    assert (len(table["broken"]), table["unnamed"]) == (8, 3)


def test_an_expected_failure_is_none() -> None:
    """As in the terminal's table."""
    table = _table(a_record(), expected=(a_record().nodeid,))
    assert [check.row.status for check in table["checks"]] == ["XFAIL"]
    assert table["broken"] == []


def test_a_limit_that_could_not_be_judged_says_why() -> None:
    """In its line at the top."""
    record = a_record()
    assert record.verdicts is not None
    verdict = replace(record.verdicts[0], status=Status.INCONCLUSIVE, reason="too few samples")
    table = _table(replace(record, status=Status.INCONCLUSIVE, verdicts=(verdict,)))
    assert table["checks"][0].headline == "max_drop: too few samples"


def test_a_run_without_a_check_has_an_empty_table() -> None:
    """And counts nothing."""
    table = _table()
    assert (table["checks"], table["counts"], table["heads"]) == ([], [], [])


@pytest.mark.parametrize("word", ["test_int8", "digits", "ort-int8-static", "top1", "fail"])
def test_a_search_finds_a_check_by_what_it_is(word: str) -> None:
    """Test, model, engine, metric or status."""
    (check,) = _table(a_record())["checks"]
    assert word in check.words


def _facts(record: Record) -> dict[str, str]:
    (check,) = _table(record)["checks"]
    return dict(pair for section in check.sections for pair in section.facts)


def test_lost_and_won_samples_are_those_of_the_bits() -> None:
    """Right in one engine only: of the reference's, of the candidate's; of many the first dozen is shown."""
    facts = _facts(rich_record())
    assert (facts["samples lost"], facts["samples won"]) == ("3: 0, 1, 2", "1: 391")
    record = rich_record()
    assert record.accuracy is not None
    none_right = replace(record.accuracy, candidate_correct=packed([False] * record.accuracy.n))
    facts = _facts(replace(record, accuracy=none_right))
    assert facts["samples lost"] == "398: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..."
    assert facts["samples won"] == "none"


def test_damaged_bits_are_told_and_leave_the_rest() -> None:
    """A record that others wrote may hold anything there."""
    record = rich_record()
    assert record.accuracy is not None
    damaged = replace(record, accuracy=replace(record.accuracy, candidate_correct="!"))
    (check,) = _table(damaged)["checks"]
    assert any("are damaged" in line for section in check.sections for line in section.lines)
    assert "drop" in _facts(damaged)


def test_how_to_see_it_again_is_a_line_for_a_shell() -> None:
    """The commit, the test, its history and its layers, quoted for a shell, where brackets are patterns."""
    (check,) = _table(a_record())["checks"]
    assert [line for _, line in check.commands] == [
        "git checkout c0ffeec0ffee",
        "python -m pytest 'tests/test_digits.py::test_int8[ort-int8-static]'",
        "pytest-quant history tests/test_digits.py::test_int8 ort-int8-static",
        "pytest-quant profile 'tests/test_digits.py::test_int8[ort-int8-static]'",
    ]
    assert check.machine == (("cores", "2"), ("cpu", "Some CPU"), ("isa", "avx2"), ("python", "3.11.7"))
