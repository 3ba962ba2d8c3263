"""What figures cannot carry is INCONCLUSIVE: of worthless references, of engines that change, of placeholders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import AccuracyResult, Coverage, OutputError, OutputFault, SelfDifference, Status, Verdict
from pytest_quant.spec import OWN_SCORES, Dataset, Limits
from pytest_quant.verdict import worst
from pytest_quant.verdict.doubt import (
    doubt_worthless_scores,
    inconclusive_if_classes_change,
    note_unread_outputs,
    reference_doubts,
    require_agreement,
)
from tests.unit.record.examples import ACCURACY, a_check, a_measurement, verdicts_on
from tests.unit.verdict.test_accuracy_limits import HINGE, TOP1
from tests.unit.verdict.test_baseline import ACCEPTED

PASS, FAIL, INCONCLUSIVE = Status.PASS, Status.FAIL, Status.INCONCLUSIVE


def at_most(observed: float, allowed: float = 5.0, limit: str = "max_drop") -> Verdict:
    """A judged limit."""
    return Verdict(limit, allowed, observed, PASS if observed <= allowed else FAIL, "found")


def test_figures_of_what_keeps_state_decide_nothing() -> None:
    """Neither for it nor against it; coverage does not depend on it, and what is only random is judged."""
    limits = Limits(max_drop=5.0, min_sqnr_db=1000.0, min_coverage=50.0)
    kept = SelfDifference("net", keeps_state=True)
    measured = replace(a_measurement(replace(a_check(), limits=limits)), unsteady=(kept, kept))
    drop, sqnr, coverage = verdicts_on(measured)
    assert (drop.status, sqnr.status, coverage.status) == (INCONCLUSIVE, INCONCLUSIVE, PASS)
    assert drop.reason.startswith("not measured: net keeps state, so that the order of the samples decides its outputs")
    assert drop.reason.count("reset=fn") == 1
    random = replace(measured, unsteady=(replace(kept, keeps_state=False),))
    assert INCONCLUSIVE not in {verdict.status for verdict in verdicts_on(random)}


def outputs(**constant: bool) -> AccuracyResult:
    """Figures of a reference whose outputs are constant or not."""
    return AccuracyResult(
        n=9, by_output=tuple(OutputError(name, reference_constant=is_so) for name, is_so in constant.items())
    )


@pytest.mark.parametrize(
    ("accuracy", "output", "doubts"),
    [
        (TOP1, None, ()),
        (replace(TOP1, reference=10.1, chance=10.0), (), ()),
        (replace(TOP1, reference=0.1), (), ()),
        (
            replace(TOP1, reference=10.0, chance=12.5),
            (),
            ("the reference itself scores 10 %, and answers score up to 12.5 % without a look at the samples",),
        ),
        (
            replace(TOP1, unit="", reference=0.25, chance=0.5),
            (),
            ("the reference itself scores 0.25, and answers score up to 0.5 without a look at the samples",),
        ),
        (replace(TOP1, reference=0.0), (), ("the reference itself scores 0 %",)),
        (replace(TOP1, unit="", reference=0.0), (), ()),
        (replace(TOP1, reference=None, chance=10.0), (), ()),
        (replace(HINGE, reference=0.0, chance=1.0), (), ()),
        (
            replace(TOP1, reference=0.0, by_output=(OutputError("y", reference_constant=True),)),
            (),
            ("the reference gives every sample the same 'y'", "the reference itself scores 0 %"),
        ),
        (replace(TOP1, by_output=(OutputError("yes", reference_constant=True),)), ("y",), ()),
        (outputs(a=False, b=True), (), ()),
        (outputs(a=False, b=True), ("b",), ("the reference gives every sample the same 'b'",)),
        # The metric reads the whole output, which is compared in its groups only.
        (outputs(**{"y.boxes": True, "y.scores": False, "z": False}), ("y",), ()),
        (
            outputs(**{"y.boxes": True, "y.scores": True, "z": False}),
            ("y",),
            ("the reference gives every sample the same 'y'",),
        ),
    ],
)
def test_doubts_about_the_reference(accuracy: AccuracyResult, output: tuple[str, ...], doubts: tuple[str, ...]) -> None:
    """A constant output and a score of chance or 0 % are told with their figures."""
    assert reference_doubts(accuracy, output) == doubts


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ("max_drop", INCONCLUSIVE),
        ("max_drop[label]", INCONCLUSIVE),
        ("max_drop[group]", INCONCLUSIVE),
        ("max_drop[mask]", PASS),
        ("min_ratio", INCONCLUSIVE),
        ("max_drop_increase", INCONCLUSIVE),
        ("min_reference_accuracy", INCONCLUSIVE),
        ("min_agreement", PASS),
        ("min_coverage", PASS),
    ],
)
def test_a_pass_against_a_reference_that_knows_nothing(limit: str, status: Status) -> None:
    """What is about scores is taken back with the doubts; what is not is left."""
    doubtful = replace(TOP1, reference=0.0, by_output=(OutputError("y", reference_constant=True),))
    broken, fine = Verdict(limit, 1.0, 0.5, FAIL, ""), Verdict(limit, 1.0, 0.5, PASS, "0.5 is fine")
    assert list(doubt_worthless_scores([broken, fine], TOP1, ())) == [broken, fine]
    still_broken, result = doubt_worthless_scores([broken, fine], doubtful, ())
    assert still_broken == broken
    reason = (
        "0.5 is fine, but the reference gives every sample the same 'y' and the reference itself scores 0 %, "
        "so that a PASS would mean nothing; give more samples, of several classes, with their own labels"
    )
    assert result == Verdict(limit, 1.0, 0.5, status, reason if status is INCONCLUSIVE else "0.5 is fine")


def test_a_limit_on_an_output_passes_only_if_its_reference_varies() -> None:
    """Whatever the score of the output that the metric of the mark reads."""
    fine = Verdict("max_drop[mask]", 1.0, 0.5, PASS, "0.5 is fine")
    accuracy = replace(TOP1, by_output=(OutputError("y"), OutputError("mask", reference_constant=True)))
    (result,) = doubt_worthless_scores([fine], accuracy, ())
    assert result.status is INCONCLUSIVE
    assert "the reference gives every sample the same 'mask'" in result.reason


@pytest.mark.parametrize(
    ("again", "shown"),
    [
        (Verdict("max_drop", 1.0, 1.23456789, FAIL, ""), "1.23457"),
        (Verdict("max_drop", 1.0, None, INCONCLUSIVE, ""), "nothing"),
        (Verdict("min_ratio", 1.0, 0.5, PASS, ""), "nothing"),
    ],
)
def test_a_second_evaluation_that_differs(again: Verdict, shown: str) -> None:
    """Its figure is told, in six digits, and the verdict is open."""
    (result,) = require_agreement([Verdict("max_drop", 1.0, 0.5, PASS, "0.5 is fine")], [again])
    reason = f"0.5 is fine, but a second evaluation of the same data gives {shown}: an engine is nondeterministic"
    assert result == Verdict("max_drop", 1.0, 0.5, INCONCLUSIVE, reason)


def test_two_evaluations_without_figures_agree() -> None:
    """What neither could measure stays as it was; what one could is open."""
    without = Verdict("max_drop", 1.0, None, INCONCLUSIVE, "not measured")
    assert list(require_agreement([without], [without])) == [without]
    (result,) = require_agreement([without], [replace(without, observed=1.0)])
    assert result.reason.startswith("not measured, but a second evaluation of the same data gives 1:")


@given(first=st.floats(0, 10), second=st.floats(0, 10), allowed=st.floats(0, 10))
def test_what_three_spreads_could_flip_is_open(first: float, second: float, allowed: float) -> None:
    """A verdict stands when both evaluations agree and both lie beyond three times their difference from the limit."""
    verdict, verdict_again = at_most(first, allowed), at_most(second, allowed)
    (result,) = require_agreement([verdict], [verdict_again])
    spread = abs(first - second)
    near = min(abs(first - allowed), abs(second - allowed)) <= 3 * spread
    stands = verdict.status is verdict_again.status and (spread == 0 or not near)
    assert result.status is (verdict.status if stands else INCONCLUSIVE)


@pytest.mark.parametrize(
    ("agreement", "allowed", "status"),
    [(98.0, 72.0, PASS), (98.0, 74.0, INCONCLUSIVE), (98.0, 99.0, INCONCLUSIVE), (60.0, 84.0, INCONCLUSIVE),
     (60.0, 86.0, FAIL)],
)  # fmt: skip
def test_agreement_is_open_by_the_samples_that_change(agreement: float, allowed: float, status: Status) -> None:
    """Two engines that change one class in eight each leave 25 points open on both sides."""
    each = SelfDifference("a", 8, 0.1, 12.5)
    reached = Verdict("min_agreement", allowed, agreement, PASS if agreement >= allowed else FAIL, "found")
    for unsteady, expected in (((each, each), status), ((), reached.status)):
        (verdict,) = inconclusive_if_classes_change([reached], unsteady)
        assert verdict.status is expected
        assert ("but from run to run a change the class of 25 %" in verdict.reason) is (expected is INCONCLUSIVE)


def test_a_second_evaluation_opens_limits_against_earlier_records_too() -> None:
    """A drop of 4.23 that becomes one of 0.5 says nothing about the baseline's, and nothing about the coverage."""
    check = replace(a_check(), limits=Limits(max_drop_increase=5.0, min_coverage=50.0))
    measured = replace(a_measurement(check), accuracy_again=replace(ACCURACY, drop=0.5))
    assert [verdict.status for verdict in verdicts_on(measured, ACCEPTED)] == [PASS, INCONCLUSIVE]
    again = replace(measured, accuracy_again=ACCURACY)
    assert [verdict.status for verdict in verdicts_on(again, ACCEPTED)] == [PASS, PASS]


RANDOM = Dataset.placeholder([[0.5]])


def on_samples(limits: Limits, dataset: Dataset = RANDOM, accuracy: AccuracyResult = ACCURACY) -> tuple[Verdict, ...]:
    """Return the verdicts of a check on those samples, whose figures are those of the examples."""
    return verdicts_on(a_measurement(replace(a_check(), dataset=dataset, limits=limits), accuracy=accuracy))


@pytest.mark.parametrize("loose", [True, False])
def test_no_limit_on_accuracy_passes_or_fails(loose: bool) -> None:
    """Whatever the figures are, each limit is open, without a figure, and says which fixture to write."""
    least, most = (0.1, 100.0) if loose else (99.9, 1e-6)
    minima: dict[str, Any] = dict.fromkeys((*OWN_SCORES, "min_agreement", "min_sqnr_db", "min_cosine"), least)
    maxima: dict[str, Any] = dict.fromkeys(("max_drop", "max_abs_error", "max_drop_increase"), most)
    verdicts = on_samples(Limits(min_ratio=0.5, **minima, **maxima))
    assert {verdict.limit for verdict in verdicts} == {"min_ratio", *minima, *maxima}
    for verdict in verdicts:
        assert (verdict.status, verdict.observed) == (Status.INCONCLUSIVE, None)
        assert "quant_data is a placeholder" in verdict.reason
        assert "Dataset.from_arrays(inputs, labels" in verdict.reason


def test_what_samples_do_not_decide_is_judged_as_ever() -> None:
    """Coverage, size and speed are facts about the engine."""
    limits = Limits(max_drop=50.0, min_coverage=50.0, max_size_mb=0.01, min_speedup=1.5)
    ours = {verdict.limit: verdict for verdict in on_samples(limits)}
    theirs = {verdict.limit: verdict for verdict in on_samples(limits, a_check().dataset)}
    others = ("min_coverage", "max_size_mb", "min_speedup")
    assert [ours[name] for name in others] == [theirs[name] for name in others]
    assert {ours[name].status for name in others} == {Status.PASS, Status.FAIL}


def test_a_check_without_a_limit_on_accuracy_does_not_pass_either() -> None:
    """Green would say that somebody looked at the answers."""
    verdicts = on_samples(Limits(min_coverage=50.0))
    assert worst(verdicts) is Status.INCONCLUSIVE
    (about_outputs,) = [verdict for verdict in verdicts if verdict.limit == "outputs"]
    assert about_outputs.implicit
    assert worst(on_samples(Limits(min_coverage=50.0), a_check().dataset)) is Status.PASS


def test_outputs_that_random_numbers_break_are_no_failure() -> None:
    """A constant output may be what noise gives; the check stays open."""
    broken = replace(ACCURACY, faults=(OutputFault("scores", "constant", 0, "the same for every sample"),))
    assert worst(on_samples(Limits(), a_check().dataset, broken)) is Status.FAIL
    assert worst(on_samples(Limits(), accuracy=broken)) is Status.INCONCLUSIVE


def test_coverage_that_is_missing_fails() -> None:
    """That nothing ran as INT8 is true on any samples."""
    check = replace(a_check(), dataset=RANDOM, limits=Limits(max_drop=1.0, min_coverage=50.0))
    none = Coverage(pct=0.0, unit="MACs", by_op=(), provider="CPUExecutionProvider", float_nodes=())
    assert worst(verdicts_on(a_measurement(check, coverage=none))) is Status.FAIL


def test_limits_on_accuracy_that_is_off_are_open() -> None:
    """All of them, that against the baseline and those of single outputs too; the others are judged as ever."""
    limits = Limits(
        max_drop=1.0, min_ratio=0.9, min_accuracy=90.0, min_reference_accuracy=90.0, min_agreement=90.0,
        min_sqnr_db=(("y", 20.0),),
        max_drop_increase=5.0, min_speedup=1.0, max_size_mb=1.0, min_coverage=50.0,
    )  # fmt: skip
    check = replace(a_check(), limits=limits, accuracy_off="why not")
    verdicts = verdicts_on(a_measurement(check, accuracy=AccuracyResult(0, "top1")), ACCEPTED)
    is_open = {verdict.limit for verdict in verdicts if verdict.reason == "not measured: why not"}
    assert {verdict.limit for verdict in verdicts if verdict.status is INCONCLUSIVE} == is_open
    assert is_open == {*("max_drop", "min_ratio", *OWN_SCORES, "min_agreement", "min_sqnr_db[y]", "max_drop_increase")}
    assert {verdict.limit for verdict in verdicts if verdict.status is PASS} == {
        *("min_speedup", "max_size_mb", "min_coverage")
    }


OF_THREE = replace(
    TOP1,
    agreement_outputs=("y", "z"),
    by_output=(
        *(OutputError("y", 20.0), OutputError("z", 10.0), OutputError("boxes", -2.85), OutputError("names")),
        *(OutputError("same", identical=True), OutputError("part.a", 30.0, group_of="part")),
    ),
)


@pytest.mark.parametrize(
    ("limits", "output", "note"),
    [
        (Limits(max_drop=1.0), (), "no limit reads output 'boxes' (SQNR -2.85 dB) and 3 more"),
        (Limits(min_agreement=99), (), "no limit reads output 'boxes' (SQNR -2.85 dB) and 2 more"),
        (Limits(max_drop_increase=1.0), ("boxes",), "no limit reads output 'z' (SQNR 10 dB) and 3 more"),
        (Limits(min_sqnr_db=20), ("y",), "no limit reads output 'boxes' (SQNR -2.85 dB) and 3 more"),
        (Limits(min_sqnr_db=(("part", 20), ("boxes", 1))), (), "no limit reads output 'z' (SQNR 10 dB) and 2 more"),
        (Limits(max_drop=1.0, min_cosine=(("z", 0.9), ("boxes", 0.1), ("part.a", 0.9))), (), "output 'names'"),
        (
            Limits(max_drop=(("z", 1.0), ("part", 1.0))),
            (),
            "no limit reads output 'boxes' (SQNR -2.85 dB) and 2 more",
        ),
        (Limits(max_drop=(("group", 1.0), ("boxes", 1.0))), (), "no limit reads output 'z' (SQNR 10 dB) and 2 more"),
        (Limits(max_drop=1.0, min_sqnr_db=20), (), ""),
        (Limits(max_drop=1.0, max_abs_error=0.0), (), ""),
        (Limits(min_speedup=2.0, min_coverage=90.0), (), ""),
    ],
)
def test_outputs_that_no_limit_reads_are_named(limits: Limits, output: tuple[str, ...], note: str) -> None:
    """The farthest of those that differ; none where a limit is on every output, or no limit is on accuracy."""
    notes = note_unread_outputs(limits, OF_THREE, output)
    assert [each.endswith(note) for each in notes] == [True] * bool(note)
