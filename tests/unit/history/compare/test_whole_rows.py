"""Each row of a comparison whole: every figure, unit, direction and note that a reader gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_quant.history.compare import compare
from pytest_quant.history.compare.comparison import Difference, Listed, Outcome, Quantity, Row, Side
from pytest_quant.record import Record
from pytest_quant.result import AccuracyResult, Better, Coverage, Interval, OpCoverage, Resources, Status
from pytest_quant.stats.paired import tango_interval
from tests.unit.history.compare.launched import N, answered, answers, between, key, launch, launches, record_of, row
from tests.unit.record.examples import a_record, with_accuracy, with_latency

NODEID = "tests/test_digits.py::test_int8"
about: Any = pytest.approx
"""For a figure of a row, which is typed as a number."""


def a_row(quantity: Quantity, outcome: Outcome, base: Any, head: Any, **others: Any) -> Row:
    """Return a row of the series that `record_of` makes; figures may be approximate."""
    unit = others.get("unit", "")
    change = "%" if quantity in ("size", "speedup", "p50") else {"%": "pp"}.get(unit, unit)
    return Row(key(), NODEID, "digits", "ort-int8-static", quantity, outcome, base, head, change_unit=change, **others)


def scored(**figures: object) -> Record:
    """A record without answers per sample."""
    result = AccuracyResult(n=N, **figures)  # type: ignore[arg-type]
    return replace(record_of(), accuracy=result, metric=result.metric)


@pytest.mark.parametrize(
    ("base", "head", "outcome"),
    [
        ("PASS", "PASS", Outcome.UNCHANGED),
        ("PASS", "FAIL", Outcome.REGRESSION),
        ("INCONCLUSIVE", "ERROR", Outcome.REGRESSION),
        ("FAIL", "PASS", Outcome.IMPROVEMENT),
        ("FAIL", "ERROR", Outcome.CHANGED),
        ("PASS", "INCONCLUSIVE", Outcome.CHANGED),
        ("PASS", "UNAVAILABLE", Outcome.INCONCLUSIVE),
        ("UNAVAILABLE", "FAIL", Outcome.NO_BASELINE),
        ("PASS PASS PASS", "PASS FAIL PASS", Outcome.INCONCLUSIVE),
        ("PASS", "FAIL PASS", Outcome.REGRESSION),
        ("PASS", "INCONCLUSIVE ERROR INCONCLUSIVE", Outcome.CHANGED),
        ("PASS FAIL PASS", "PASS FAIL PASS", Outcome.UNCHANGED),
        ("ERROR FAIL", "PASS FAIL", Outcome.CHANGED),
        ("PASS PASS", "PASS UNAVAILABLE PASS", Outcome.UNCHANGED),
    ],
)
def test_a_status(base: str, head: str, outcome: Outcome) -> None:
    """The commonest of several launches counts, the worse of equals; what fails where nothing did cannot be told."""
    before, after = ([replace(record_of(), status=Status(word)) for word in words.split()] for words in (base, head))
    assert row(compare(launches(before), launches(after, commit="head")), "status").outcome is outcome


def test_a_status_that_differs_between_launches() -> None:
    """Each other word with its count, by name; the side is named."""
    good, bad, open_ = (replace(record_of(), status=each) for each in (Status.PASS, Status.FAIL, Status.INCONCLUSIVE))
    base = launches([open_, good, good, good, bad, open_])
    result = compare(base, launches([bad, good, good], commit="head"))
    notes = (
        "FAIL in 1, INCONCLUSIVE in 2 of 6 launches of the base",
        "FAIL in 1 of 3 launches of the head",
    )
    expected = a_row("status", Outcome.UNCHANGED, "PASS", "PASS", base_launches=6, head_launches=3, notes=notes)
    assert row(result, "status") == expected


@pytest.mark.parametrize(("better", "sign"), [("higher", 1.0), ("lower", -1.0)])
def test_answers_paired(better: Better, sign: float) -> None:
    """Fifteen of 400 lost are 3.75 points; p is twice 2^-15, and the interval Tango's in points."""
    base, head = (answered(record_of(), answers(range(wrong)), better) for wrong in (5, 20))
    low, high = (-sign * 100.0 * end for end in tango_interval(15, 0, N, confidence=0.95))
    expected = a_row(
        "accuracy",
        Outcome.REGRESSION,
        about(98.75 if better == "higher" else 1.25),
        about(95.0 if better == "higher" else 5.0),
        unit="%",
        better=better,
        change=about(-3.75 * sign),
        interval=Interval(min(low, high), max(low, high)),
        p=about(2.0**-14),
        p_adjusted=about(2.0**-14),
        lost=15,
        won=0,
        n=N,
    )
    assert row(between(base, head), "accuracy") == expected


def test_a_reference_that_changed_is_told_beside_the_candidate() -> None:
    """Its scores in six digits, with the unit."""
    base = answered(record_of(), answers())
    head = with_accuracy(base, reference=98.123456)
    assert row(between(base, head), "accuracy").notes == ("the reference's own score changed: 97.78 -> 98.1235 %",)


MAP: dict[str, Any] = {"metric": "map", "unit": "%", "better": "higher", "reference": 70.0}


def test_equal_drops() -> None:
    """Of equal candidates nothing changed; of a model that was trained again something did."""
    base, head = (scored(**{**MAP, "reference": score}, candidate=score - 1.0, drop=1.0) for score in (70.0, 75.0))
    same: dict[str, Any] = {"unit": "pp", "better": "lower", "change": 0.0, "n": N}
    assert row(between(base, base), "drop") == a_row("drop", Outcome.UNCHANGED, 1.0, 1.0, **same)
    notes = ("the reference's own score changed: 70 -> 75 %",)
    assert row(between(base, head), "drop") == a_row("drop", Outcome.CHANGED, 1.0, 1.0, **same, notes=notes)


def test_a_drop_that_one_side_lacks_falls_back_on_agreement() -> None:
    """Which both have."""
    base = scored(**MAP, candidate=69.0, drop=1.0, agreement_pct=99.0)
    head = scored(**MAP, agreement_pct=98.5)
    expected = a_row("agreement", Outcome.WORSE, 99.0, 98.5, unit="%", better="higher", change=-0.5, n=N)
    assert row(between(base, head), "agreement") == expected


@pytest.mark.parametrize(
    ("before", "after", "outcome", "shown", "change"),
    [
        ({"sqnr_db": 30.0}, {"sqnr_db": 32.5}, Outcome.BETTER, (30.0, 32.5), 2.5),
        ({"sqnr_db": 30.0}, {"identical": True}, Outcome.BETTER, (30.0, None), None),
        ({"identical": True}, {"sqnr_db": 30.0}, Outcome.WORSE, (None, 30.0), None),
        ({"identical": True}, {"identical": True}, Outcome.UNCHANGED, (None, None), 0.0),
        ({"sqnr_db": 30.0}, {}, Outcome.INCONCLUSIVE, (30.0, None), None),
        ({"sqnr_db": 30.0, "agreement_pct": 99.0}, {"sqnr_db": 31.0}, Outcome.BETTER, (30.0, 31.0), 1.0),
    ],
)
def test_sqnr_where_there_is_no_metric(
    before: dict[str, Any], after: dict[str, Any], outcome: Outcome, shown: tuple[Any, Any], change: float | None
) -> None:
    """Identical outputs are infinitely good, which no figure shows; agreement needs both sides."""
    expected = a_row("sqnr", outcome, *shown, unit="dB", better="higher", change=change, n=N)
    assert row(between(scored(**before), scored(**after)), "sqnr") == expected


def test_answers_that_vary_and_other_instruction_sets_are_noted() -> None:
    """Both sides by their names; the tiers of both, each named once."""
    good, bad = (replace(answered(record_of(), answers(range(wrong))), isa="avx2") for wrong in (0, 1))
    result = row(compare(launches([good, bad]), launches([bad, good, good], commit="head")), "accuracy")
    assert (result.base_launches, result.head_launches) == (2, 3)
    assert result.notes == (
        "the answers vary between launches of the base",
        "the answers vary between launches of the head",
    )
    newer = [replace(good, isa=tier) for tier in ("avx512_vnni", "avx2", "avx512_vnni")]
    other = row(compare(launches([good]), launches(newer, commit="head", cpu="two")), "accuracy")
    tiers = "other instruction set: avx2 -> avx2 avx512_vnni"
    assert other.notes == (f"{tiers}; int8 may saturate without VNNI, and accuracy differ by it",)


def test_launches_that_disagree_about_the_direction() -> None:
    """Nothing is tested, and the least of the changes is shown."""
    base, better, worse = (answered(record_of(), answers(range(wrong))) for wrong in (30, 28, 90))
    result = row(compare(launch(base), launches([better, worse], commit="head")), "accuracy")
    assert (result.outcome, result.p, result.change) == (Outcome.INCONCLUSIVE, None, about(0.5))
    assert result.notes == (
        "launches of one commit disagree about the direction of the change",
        "the answers vary between launches of the head",
    )


def sized(mb: float) -> Record:
    """A record of a file of so many MB."""
    return replace(record_of(), resources=Resources(size_mb=mb))


@pytest.mark.parametrize(
    ("before", "after", "outcome", "change"),
    [
        (2.0, 2.0, Outcome.UNCHANGED, 0.0),
        (1.0, 1.01, Outcome.REGRESSION, 1.0),
        (1.01, 1.0, Outcome.IMPROVEMENT, 100.0 * (1.0 / 1.01 - 1.0)),
        (1.0, 1.009, Outcome.WORSE, 0.9),
        # 0.05121 -> 0.05121 in the table.
        (0.051210, 0.051211, Outcome.UNCHANGED, 100.0 * (0.051211 / 0.051210 - 1.0)),
        (0.05121, 0.05122, Outcome.WORSE, 100.0 * (0.05122 / 0.05121 - 1.0)),
        (2.0, 0.0, Outcome.IMPROVEMENT, -100.0),
        (0.0, 1.0, Outcome.REGRESSION, None),
        (0.0, 0.0, Outcome.UNCHANGED, None),
    ],
)
def test_a_size(before: float, after: float, outcome: Outcome, change: float | None) -> None:
    """In MB; lower is better, and the change is in percent of the base."""
    figure = None if change is None else about(change)
    expected = a_row("size", outcome, before, after, unit="MB", better="lower", change=figure)
    assert row(between(sized(before), sized(after)), "size") == expected


def test_sizes_of_launches_that_vary() -> None:
    """The last of each side is shown; what varies is told of each side that does; only ranges apart are a change."""
    result = row(compare(launches([sized(1.0), sized(1.5)]), launches([sized(2.5), sized(2.0)], commit="head")), "size")
    notes = ("it varies between launches of the base", "it varies between launches of the head")
    assert (result.base, result.head, result.outcome, result.notes) == (1.5, 2.0, Outcome.REGRESSION, notes)
    result = row(compare(launches([sized(2.5), sized(2.0)]), launches([sized(1.0), sized(2.0)], commit="head")), "size")
    assert result.outcome is Outcome.UNCHANGED


def covered(pct: float, quantized: int = 5, unit: str = "MACs", **others: tuple[int, int]) -> Record:
    """A record of six convolutions, `quantized` of them; `others` are op types with their quantized and all nodes."""
    ops = (OpCoverage("Conv", 6, quantized), *(OpCoverage(name, n, k) for name, (k, n) in others.items()))
    return replace(record_of(), coverage=Coverage(pct, unit, ops, "CPUExecutionProvider"))


@pytest.mark.parametrize(
    ("after", "outcome"), [(87.5, Outcome.UNCHANGED), (87.4, Outcome.REGRESSION), (100.0, Outcome.IMPROVEMENT)]
)
def test_a_coverage(after: float, outcome: Outcome) -> None:
    """In percent; higher is better, and the change is in points."""
    expected = a_row("coverage", outcome, 87.5, after, unit="%", better="higher", change=about(after - 87.5))
    assert row(between(covered(87.5), covered(after)), "coverage") == expected


def test_coverage_in_another_unit() -> None:
    """Both are shown, and neither is better."""
    result = row(between(covered(87.5), covered(50.0, unit="nodes")), "coverage")
    assert (result.outcome, result.notes) == (Outcome.CHANGED, ("counted in other units: MACs against nodes",))


def test_a_coverage_of_one_side_only() -> None:
    """No row."""
    without = replace(record_of(), coverage=replace(covered(1.0).coverage, pct=None))  # type: ignore[type-var]
    for sides in ((covered(87.5), without), (without, covered(87.5))):
        assert "coverage" not in {each.quantity for each in between(*sides).rows}
    nothing = replace(record_of(), coverage=None, resources=None)
    assert {each.quantity for each in between(record_of(), nothing).rows} == {"status", "accuracy"}


def test_nodes_beside_their_coverage() -> None:
    """Quantized of all by op type; those that differ are named, with none for what is not there."""
    base, head = covered(87.5, Add=(1, 2), MatMul=(2, 2)), covered(87.5, quantized=4, Gemm=(1, 3), MatMul=(2, 2))
    note = "quantized of all nodes: Add 1/2 -> 0/0, Conv 5/6 -> 4/6, Gemm 0/0 -> 1/3"
    result = row(between(base, head), "coverage")
    assert (result.outcome, result.notes) == (Outcome.CHANGED, (note,))
    assert row(between(base, base), "coverage").notes == ()
    assert row(compare(launches([head, base]), launch(head, commit="head")), "coverage").outcome is Outcome.UNCHANGED
    lower = row(between(base, replace(head, coverage=replace(head.coverage, pct=80.0))), "coverage")  # type: ignore[type-var]
    assert (lower.outcome, lower.notes) == (Outcome.REGRESSION, (note,))


def test_a_row_of_another_machine_does_not_gate() -> None:
    """The note stands after the others."""
    base = launches([sized(1.0), sized(1.5)], cpu="one")
    result = row(compare(base, launch(sized(2.0), commit="head", cpu="two")), "size")
    assert result.outcome is Outcome.WORSE
    assert result.notes == ("it varies between launches of the base", "other machine, so it does not gate")
    same = row(compare(launch(sized(1.0), cpu="one"), launch(sized(1.0), commit="head", cpu="two")), "size")
    assert (same.outcome, same.notes) == (Outcome.UNCHANGED, ())


def test_what_a_change_may_be_traced_to() -> None:
    """Facts of the record, digests, the machine, and libraries, in that order; what one side does not know is None."""
    base = sized(1.0)
    head = replace(
        sized(2.0),
        calibration="entropy",
        calibration_samples=32,
        threads=4,
        reference="ort-fp16",
        coverage=Coverage(50.0, "MACs", (), "DmlExecutionProvider"),
        digests={"data": "def456", "float_model": "new"},
        latency=with_latency(a_record(), reference_precision="fp16").latency,
    )
    base_checks, (other,) = launch(base), launch(head, commit="head", cpu="two")
    environment = replace(other.run.environment, context={"python": "3.12.1"})
    result = compare(base_checks, [replace(other, run=replace(other.run, environment=environment))])
    assert row(result, "size").differs == (
        Difference("calibration", "minmax", "entropy"),
        Difference("calibration samples", "64", "32"),
        Difference("reference", "ort-fp32", "ort-fp16"),
        Difference("provider", "CPUExecutionProvider", "DmlExecutionProvider"),
        Difference("threads", None, "4"),
        Difference("latency compared with", None, "fp16"),
        Difference("engine digest", "abc123", None, "engine"),
        Difference("float model digest", None, "new", "float model"),
        Difference("cpu", "Some CPU", "two"),
        Difference("python", "3.11.7", "3.12.1"),
    )


def _asking(size_mb: float, asked: dict[str, str] | None) -> Record:
    return replace(sized(size_mb), asked=asked)


def test_keys_of_the_mark_are_among_what_a_change_may_be_traced_to() -> None:
    """With both values; what was measured says more than what was asked; a record of before the keys says nothing."""
    asked = {"calibration": "minmax", "calibration percentile": "99", "calibration samples": "9", "exclude": "fc1"}
    other = {"calibration": "minmax", "calibration percentile": "51", "calibration samples": "5", "per_channel": "True"}
    result = compare(launch(_asking(1.0, asked)), launch(_asking(2.0, other), commit="head"))
    assert row(result, "size").differs == (
        Difference("calibration percentile", "99", "51"),
        Difference("exclude", "fc1", None),
        Difference("per_channel", None, "True"),
    )
    for base, head in ((asked, None), (None, other)):
        result = compare(launch(_asking(1.0, base)), launch(_asking(2.0, head), commit="head"))
        assert row(result, "size").differs == ()


def test_keys_of_the_mark_are_known_of_a_check_that_was_not_measured() -> None:
    """A node excluded that the model does not have is an error, and the cause."""
    error = replace(record_of(), status=Status.ERROR, accuracy=None, resources=None, coverage=None, verdicts=None)
    base = launch(_asking(1.0, {"cpus": "any"}))
    result = compare(base, launch(replace(error, asked={"cpus": "any", "exclude": "fc9"}), commit="head"))
    assert Difference("exclude", None, "fc9") in row(result, "status").differs


def test_series_of_one_side() -> None:
    """Each with its key, its test, its model and its engine."""
    a, b, c = (record_of(f"tests/test_x.py::test_{name}") for name in "abc")
    gone, new = replace(b, model="gone", status=Status.FAIL), replace(c, model="new", status=Status.ERROR)
    moved = replace(record_of("tests/test_y.py::test_moved"), model="moved")
    old = replace(record_of("tests/test_y.py::test_old"), model="moved")
    result = compare(launch(a, gone, old), launch(a, new, moved, commit="head"))
    engine = "ort-int8-static"
    assert result.removed == (Listed(gone.series, gone.nodeid, "gone", engine, "FAIL"),)
    assert result.added == (Listed(new.series, new.nodeid, "new", engine, "ERROR"),)
    assert result.renamed == (Listed(moved.series, moved.nodeid, "moved", engine, "PASS", base_nodeid=old.nodeid),)


def test_both_sides() -> None:
    """The last commit, and the branch where all runs agree; launches are runs, and checks are records."""
    a, b = record_of("tests/test_x.py::test_a"), record_of("tests/test_x.py::test_b")
    base = [*launch(a, b, run="0"), *launch(a, run="1")]
    head = [*launch(a, run="0", commit="head"), *launch(a, run="1", commit="later")]
    dirty = [
        replace(each, run=replace(each.run, dirty=True, branch=f"branch-{place}")) for place, each in enumerate(head)
    ]
    result = compare(base, dirty)
    assert result.base == Side("base", "main", dirty=False, runs=2, checks=3)
    assert result.head == Side("later", None, dirty=True, runs=2, checks=2)
    assert result.notes == ("the head was run with uncommitted changes",)


def test_regressions_come_first_and_then_the_tests_by_name() -> None:
    """In the order of the outcomes, of the tests, and of the quantities."""
    b, a = (answered(record_of(f"tests/test_x.py::test_{name}"), answers()) for name in "ba")
    worse = replace(answered(b, answers(range(30))), resources=Resources(size_mb=9.0))
    result = compare(launch(b, a), launch(worse, a, commit="head"))
    order = [(each.outcome.value, each.nodeid[-1], each.quantity) for each in result.rows]
    quantities = ("accuracy", "coverage", "size", "status")
    assert order == [
        ("regression", "b", "accuracy"),
        ("regression", "b", "size"),
        *(("unchanged", "a", quantity) for quantity in quantities),
        *(("unchanged", "b", each) for each in quantities if each not in ("accuracy", "size")),
    ]
