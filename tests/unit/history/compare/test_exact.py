"""Size, coverage, nodes and status: facts, compared exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.history.compare import Outcome, compare
from pytest_quant.record import Record
from pytest_quant.result import Coverage, OpCoverage, Resources, Status
from tests.unit.history.compare.launched import launch, launches, record_of, row


def _sized(mb: float) -> Record:
    return replace(record_of(), resources=Resources(size_mb=mb))


def _covered(pct: float, quantized: int = 5, unit: str = "MACs") -> Record:
    found = Coverage(pct, unit, (OpCoverage("Conv", 6, quantized),), "CPUExecutionProvider")
    return replace(record_of(), coverage=found)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (1.0, 1.0, Outcome.UNCHANGED),
        (1.0, 1.009, Outcome.WORSE),
        (1.0, 1.02, Outcome.REGRESSION),
        (1.02, 1.0, Outcome.IMPROVEMENT),
        (1.009, 1.0, Outcome.BETTER),
        (0.0, 1.0, Outcome.REGRESSION),
    ],
)
def test_a_file_that_grows_by_a_percent_is_a_regression(before: float, after: float, outcome: Outcome) -> None:
    """By less, it is shown."""
    assert row(compare(launch(_sized(before)), launch(_sized(after), commit="head")), "size").outcome is outcome


@pytest.mark.parametrize(
    ("before", "after", "change"), [(1.0, 1.02, 2.0), (2.0, 1.0, -50.0), (1.0, 1.0, 0.0), (0.0, 1.0, None)]
)
def test_the_change_of_a_size_is_a_share_of_the_base(before: float, after: float, change: float | None) -> None:
    """In percent, above 0 for what grew; of nothing there is no share."""
    found = row(compare(launch(_sized(before)), launch(_sized(after), commit="head")), "size")
    assert (found.base, found.head, found.change_unit) == (before, after, "%")
    assert found.change == (None if change is None else pytest.approx(change))


def test_any_loss_of_coverage_is_a_regression() -> None:
    """It is read from the runtime and does not vary."""
    found = compare(launch(_covered(87.5)), launch(_covered(87.4), commit="head"))
    assert row(found, "coverage").outcome is Outcome.REGRESSION
    assert row(found, "coverage").change == pytest.approx(-0.1)
    assert row(found, "nodes").outcome is Outcome.UNCHANGED
    swapped = compare(launch(_covered(87.4)), launch(_covered(87.5), commit="head"))
    assert row(swapped, "coverage").outcome is Outcome.IMPROVEMENT


def test_coverage_in_other_units_is_not_judged() -> None:
    """Half the nodes are not half the multiplications."""
    found = row(compare(launch(_covered(90.0)), launch(_covered(10.0, unit="nodes"), commit="head")), "coverage")
    assert found.outcome is Outcome.CHANGED


def test_other_counts_of_nodes_name_the_operator() -> None:
    """More nodes are neither better nor worse."""
    found = row(compare(launch(_covered(87.5)), launch(_covered(87.5, quantized=3), commit="head")), "nodes")
    assert (found.outcome, found.base, found.head) == (Outcome.CHANGED, "5/6", "3/6")
    assert any("Conv 5/6 -> 3/6" in note for note in found.notes)


def test_a_fact_that_varies_between_launches_is_a_range() -> None:
    """Ranges that overlap are no change, and the row says that it varies."""
    base = launches([_sized(1.0), _sized(1.2)])
    inside = row(compare(base, launch(_sized(1.1), commit="head")), "size")
    assert inside.outcome is Outcome.UNCHANGED
    assert any("varies between launches of the base" in note for note in inside.notes)
    assert row(compare(base, launch(_sized(1.3), commit="head")), "size").outcome is Outcome.REGRESSION


def test_on_another_machine_a_larger_engine_does_not_gate() -> None:
    """A runtime may build another one there."""
    found = row(compare(launch(_sized(1.0), cpu="one"), launch(_sized(2.0), commit="head", cpu="two")), "size")
    assert found.outcome is Outcome.WORSE


def test_what_one_side_did_not_measure_is_no_row() -> None:
    """There is nothing to compare."""
    without = replace(record_of(), resources=None, coverage=None)
    found = compare(launch(record_of()), launch(without, commit="head"))
    assert {one.quantity for one in found.rows} == {"status", "accuracy"}


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (Status.PASS, Status.PASS, Outcome.UNCHANGED),
        (Status.PASS, Status.FAIL, Outcome.REGRESSION),
        (Status.INCONCLUSIVE, Status.ERROR, Outcome.REGRESSION),
        (Status.FAIL, Status.PASS, Outcome.IMPROVEMENT),
        (Status.FAIL, Status.ERROR, Outcome.CHANGED),
        (Status.PASS, Status.INCONCLUSIVE, Outcome.CHANGED),
        (Status.PASS, Status.UNAVAILABLE, Outcome.INCONCLUSIVE),
        (Status.UNAVAILABLE, Status.FAIL, Outcome.NO_BASELINE),
    ],
)
def test_a_test_that_begins_to_fail_is_a_regression(before: Status, after: Status, outcome: Outcome) -> None:
    """One that cannot run any more cannot be told; one that could not run has no baseline."""
    base, head = (replace(record_of(), status=status) for status in (before, after))
    assert row(compare(launch(base), launch(head, commit="head")), "status").outcome is outcome


def test_the_status_of_most_launches_counts() -> None:
    """One of three that failed is told beside it; of equally many, the worse counts."""
    good, bad = record_of(), replace(record_of(), status=Status.FAIL)
    found = row(compare(launch(good), launches([bad, good, good], commit="head")), "status")
    assert (found.head, found.notes) == ("PASS", ("FAIL in 1 of 3 launches of the head",))
    assert row(compare(launch(good), launches([bad, good], commit="head")), "status").head == "FAIL"


@pytest.mark.parametrize(
    ("base", "head", "outcome"),
    [
        (("PASS", "PASS", "PASS"), ("PASS", "FAIL", "PASS"), Outcome.INCONCLUSIVE),
        (("PASS",), ("PASS", "ERROR", "PASS"), Outcome.INCONCLUSIVE),
        (("PASS",), ("INCONCLUSIVE", "ERROR", "INCONCLUSIVE"), Outcome.CHANGED),
        (("PASS", "FAIL", "PASS"), ("PASS", "FAIL", "PASS"), Outcome.UNCHANGED),
        (("ERROR", "FAIL"), ("PASS", "FAIL"), Outcome.CHANGED),
        (("PASS", "PASS"), ("PASS", "INCONCLUSIVE", "PASS"), Outcome.UNCHANGED),
        (("PASS", "PASS"), ("PASS", "UNAVAILABLE", "PASS"), Outcome.UNCHANGED),
        (("PASS", "PASS"), ("FAIL", "FAIL", "PASS"), Outcome.REGRESSION),
    ],
)
def test_a_launch_that_fails_where_none_did_cannot_be_told(
    base: tuple[str, ...], head: tuple[str, ...], outcome: Outcome
) -> None:
    """FAIL and ERROR are alike; what failed at the base too is no news, and noise of a machine is no failure."""
    before, after = ([replace(record_of(), status=Status(word)) for word in words] for words in (base, head))
    assert row(compare(launches(before), launches(after, commit="head")), "status").outcome is outcome
