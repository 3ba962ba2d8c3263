"""Which records are of one series, which are never compared, and how their tests are judged together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.history.compare import compare
from pytest_quant.history.compare.comparison import Outcome, Row
from pytest_quant.history.compare.pairing import Draft, judge, pair
from pytest_quant.result import Resources, Status
from tests.unit.history.compare.launched import answered, answers, between, key, launch, launches, record_of, row, timed
from tests.unit.record.examples import with_accuracy

_A, _B, _C = "tests/test_a.py::test_a", "tests/test_b.py::test_b", "tests/test_c.py::test_c"


def test_a_series_is_paired_by_its_key() -> None:
    """Every launch of both sides, oldest first."""
    (only,), result = pair(launches([record_of(_A)] * 3), launches([record_of(_A)] * 2, commit="head"))
    assert [each.run.id for each in only.base] == ["base-0", "base-1", "base-2"]
    assert [each.run.id for each in only.head] == ["head-0", "head-1"]
    assert (result.added, result.removed, result.renamed) == ((), (), ())


def test_of_two_reports_in_one_run_the_last_counts() -> None:
    """A rerun is no second launch."""
    first, again = replace(record_of(_A), status=Status.FAIL), record_of(_A)
    ((only,), _) = pair(launch(first, again), launch(again, commit="head"))
    assert [each.record.status for each in only.base] == [Status.PASS]


def test_a_renamed_test_follows_its_engine() -> None:
    """It is listed, and compared like any other."""
    result = between(record_of(_A), record_of(_B))
    assert [(each.base_nodeid, each.nodeid) for each in result.renamed] == [(_A, _B)]
    assert (result.added, result.removed) == ((), ())
    assert row(result, "accuracy").series == key(_B)


def test_two_that_could_be_the_renamed_one_are_not() -> None:
    """Nobody can tell which of them it is."""
    result = compare(launch(record_of(_A)), launch(record_of(_B), record_of(_C), commit="head"))
    assert result.renamed == ()
    assert [each.nodeid for each in result.added] == [_B, _C]
    assert [each.nodeid for each in result.removed] == [_A]
    assert result.rows == ()


def test_scores_on_other_evaluation_data_are_shown_and_never_compared() -> None:
    """Their row has both and no change."""
    other = replace(record_of(_A), digests={"data": "other"})
    result = between(record_of(_A), answered(other, answers(range(90))))
    assert result.changed == ()
    (only,) = result.select_rows(Outcome.NO_BASELINE)
    assert (only.quantity, only.base, only.head, only.change) == ("accuracy", 100.0, 77.5, None)
    assert only.notes == ("other evaluation data",)


def test_what_needs_no_equal_data_is_compared_on_other_data() -> None:
    """A file of 7.8 times the size, a share that no longer runs in INT8, and a model of half the speed each gate."""
    record = timed(record_of(_A, latency=True), 0.5)
    assert record.coverage is not None
    other = replace(
        timed(record, 1.0),
        digests={"data": "other"},
        resources=Resources(size_mb=7.8),
        coverage=replace(record.coverage, pct=40.0),
    )
    before = [replace(record, resources=Resources(size_mb=1.0))] * 5
    result = compare(launches(before), launches([other] * 5, commit="head"))
    worse = {each.quantity for each in result.select_rows(Outcome.REGRESSION)}
    assert worse == {"size", "coverage", "speedup"}
    assert [each.quantity for each in result.select_rows(Outcome.NO_BASELINE)] == ["accuracy"]


def test_a_metric_that_turned_round_is_another_version() -> None:
    """Lower is better now: the name is the same, the figure is not."""
    record = record_of(_A)
    (only,) = between(record, with_accuracy(record, better="lower")).select_rows(Outcome.NO_BASELINE)
    assert only.notes == ("the metric has another unit or direction",)


def test_launches_of_a_version_that_only_one_side_has_are_left_out() -> None:
    """The data changed between two runs of one commit; what both sides have is compared."""
    other = replace(record_of(_A), digests={"data": "other"})
    base = [*launch(other, run="0"), *launch(record_of(_A), run="1")]
    ((only,), _) = pair(base, launch(record_of(_A), commit="head"))
    assert [check.run.id for check in only.base] == ["base-1"]


def test_a_check_that_never_came_to_be_is_of_the_series_it_would_have_been() -> None:
    """It knows no metric, and still it is neither an added nor a removed test."""
    broken = replace(
        record_of(_A), series=key(_A, None), metric=None, accuracy=None, status=Status.ERROR, digests={}, message="x"
    )
    result = between(record_of(_A), broken)
    assert (result.added, result.removed) == ((), ())
    assert (row(result, "status").base, row(result, "status").head) == ("PASS", "ERROR")


def test_a_check_whose_model_raised_is_of_the_series_of_its_test() -> None:
    """Its model has the name of a fixture; its row has the text of the error, and no figure that it lacks."""
    series, message = key(_A, None).replace("digits", "quant_model"), "the fixture raised\n  value: x\n  next: write it"
    broken = replace(
        record_of(_A), model="quant_model", series=series, metric=None, accuracy=None, coverage=None, digests={},
        status=Status.ERROR, message=message,
    )  # fmt: skip
    result = between(record_of(_A), broken)
    assert (result.added, result.removed) == ((), ())
    status = row(result, "status")
    assert (status.outcome, status.base, status.head) == (Outcome.REGRESSION, "PASS", "ERROR")
    assert (status.notes, status.differs) == (("the fixture raised / value: x",), ())


def test_a_test_that_failed_as_expected_is_no_regression() -> None:
    """All of it that became worse is, and says why it fails nothing."""
    before = replace(record_of(_A), resources=Resources(size_mb=1.0))
    after = replace(before, resources=Resources(size_mb=2.0), status=Status.FAIL)
    assert between(before, after).exit_code == 1
    result = between(before, replace(after, expected=True))
    worse = result.select_rows(Outcome.WORSE)
    assert ([each.quantity for each in worse], result.exit_code) == (["size", "status"], 0)
    assert all("xfail" in each.notes[-1] for each in worse)


def _draft(p: float | None) -> Draft:
    kinds = (Outcome.UNCHANGED, Outcome.REGRESSION)
    row, rejected = (Row("key", "node", "m", "ort-int8", "speedup", outcome, 1.0, 2.0, p=p) for outcome in kinds)
    return Draft(row, rejected)


def test_only_what_is_below_the_level_after_the_adjustment_is_rejected() -> None:
    """0.004 and 0.006 are below 0.01 each; of the two, 0.004 * 2 = 0.008 is, and then 0.006 * 1, raised to 0.008."""
    rows = judge([_draft(0.004), _draft(0.006)])
    assert [row.outcome for row in rows] == [Outcome.REGRESSION, Outcome.REGRESSION]
    assert [row.p_adjusted for row in rows] == [0.008, 0.008]
    rows = judge([_draft(0.004), _draft(0.006), _draft(0.5)])
    assert [row.outcome for row in rows] == [Outcome.UNCHANGED] * 3
    assert rows[0].p_adjusted == pytest.approx(0.012)


def test_a_row_without_a_test_takes_no_part() -> None:
    """It neither is rejected nor makes the others harder to reject."""
    rows = judge([_draft(None), _draft(0.009)])
    assert [row.outcome for row in rows] == [Outcome.UNCHANGED, Outcome.REGRESSION]
    assert [row.p_adjusted for row in rows] == [None, 0.009]


def test_a_level_that_is_hit_exactly_is_a_rejection() -> None:
    """At most alpha, as Holm has it."""
    (row,) = judge([_draft(0.01)])
    assert (row.outcome, row.p_adjusted) == (Outcome.REGRESSION, 0.01)
