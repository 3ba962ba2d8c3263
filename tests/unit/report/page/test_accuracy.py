"""The accuracy of a check: scores, the classes and outputs that lost most, and which samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_quant.record import Record
from pytest_quant.report.page.accuracy import accuracy_section
from pytest_quant.report.page.content import Facts, Lines, Table
from pytest_quant.result import AccuracyResult, OutputFault
from tests.support.pages import rich_record
from tests.unit.record.examples import ACCURACY, a_record, unavailable


def _said(record: Record) -> dict[str, str]:
    blocks = accuracy_section(record).blocks
    return dict(fact for block in blocks if isinstance(block, Facts) for fact in block.facts)


def _table(record: Record, caption: str) -> list[list[Any]]:
    (table,) = (
        block for block in accuracy_section(record).blocks if isinstance(block, Table) and block.caption == caption
    )
    return [[cell.text if cell.value is None else cell.value for cell in row] for row in table.rows]


def test_scores_and_drop_have_their_units() -> None:
    """A drop of percentages is in points of them, with the interval and its level."""
    said = _said(a_record())
    assert said["top1"] == "97.78 -> 93.55 %"
    assert said["drop"] == "4.23 [3.18, 5.31] pp"
    assert said["confidence of intervals"] == "95%"
    assert said["McNemar p"] == "0.00012"
    assert said["worst class"] == "7: 98.31 -> 71.91 % of 178"
    assert said["largest error"] == "3.25 at sample 17"


def test_another_unit_is_written_as_it_is() -> None:
    """A drop of logits is in logits."""
    said = _said(a_record(accuracy=replace(ACCURACY, metric="confidence", unit="logit")))
    assert said["drop"].endswith(" logit")


def test_without_a_metric_outputs_tell() -> None:
    """SQNR and what is equal; no score."""
    said = _said(a_record(accuracy=AccuracyResult(n=10, sqnr_db=30.0)))
    assert said["SQNR, the lowest"] == "30 dB"
    assert "drop" not in said
    assert _said(a_record(accuracy=AccuracyResult(n=10, identical=True)))["outputs"] == "identical"


def test_lost_and_won_samples_are_those_of_the_bits() -> None:
    """Right in one engine only: of the reference's, of the candidate's."""
    said = _said(rich_record())
    assert said["samples lost"] == "3: 0, 1, 2"
    assert said["samples won"] == "1: 391"


def test_many_samples_are_counted() -> None:
    """The first dozen is shown."""
    record = rich_record()
    assert record.accuracy is not None
    none_right = replace(record.accuracy, candidate_correct=a_right_of_none(record.accuracy.n))
    said = _said(replace(record, accuracy=none_right))
    assert said["samples lost"].startswith("398: 0, 1, 2, ")
    assert said["samples lost"].endswith("11, ...")
    assert said["samples won"] == "none"


def a_right_of_none(n: int) -> str:
    """Bits of `n` samples, all wrong."""
    from tests.unit.history.compare.launched import packed

    return packed([False] * n)


def test_damaged_bits_are_told_and_leave_the_rest() -> None:
    """A record that others wrote may hold anything there."""
    record = rich_record()
    assert record.accuracy is not None
    damaged = replace(record, accuracy=replace(record.accuracy, candidate_correct="!"))
    (line,) = [block for block in accuracy_section(damaged).blocks if isinstance(block, Lines)]
    assert "are damaged" in line.lines[0]
    assert "drop" in _said(damaged)


def test_classes_that_lost_most_come_first() -> None:
    """Each with its samples and both scores."""
    rows = _table(rich_record(), "By class")
    assert rows[0] == [14, 54, 98.3125, 63.3125]
    losses = [reference - candidate for _, _, reference, candidate in rows]
    assert losses == sorted(losses, reverse=True)


def test_outputs_that_are_worst_come_first() -> None:
    """By their SQNR; one output alone is told in the lines above."""
    assert [row[0] for row in _table(rich_record(), "By output")] == ["scores", "boxes/0~x"]
    tables = [block for block in accuracy_section(a_record()).blocks if isinstance(block, Table)]
    assert "By output" not in [table.caption for table in tables]


def test_an_output_that_cannot_be_compared_is_told_first() -> None:
    """With the sample that shows it."""
    fault = OutputFault("scores", "not finite", 7, "nan")
    first = accuracy_section(a_record(accuracy=replace(ACCURACY, faults=(fault,)))).blocks[0]
    assert isinstance(first, Lines)
    assert first.lines == ("output scores, sample 7: not finite: nan",)


def test_a_check_that_never_came_to_be_has_no_accuracy() -> None:
    """Then the section has no blocks."""
    assert accuracy_section(unavailable()).blocks == ()
