"""Each verdict on accuracy whole: the limit, its number, the figure, the status, and the sentence for the reader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.result import AccuracyResult, Interval, OutputError, OutputFault, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.accuracy import (
    accuracy_verdicts,
    doubt_worthless_reference,
    reference_doubts,
    require_agreement,
)
from tests.unit.verdict.test_accuracy import MAE, TOP1

PASS, FAIL, INCONCLUSIVE = Status.PASS, Status.FAIL, Status.INCONCLUSIVE
OUTPUT = OutputError("scores", sqnr_db=17.7, cosine=0.99, max_abs_error=0.25)
ERRORS = AccuracyResult(n=10, by_output=(OUTPUT,))
TEXTS = AccuracyResult(n=10, by_output=(OutputError("names"),))
HINGE = replace(MAE, unit="px", reference=3.0, candidate=4.0, drop=1.0, drop_ci=Interval(0.5, 1.5))
NO_SCORE = AccuracyResult(n=10)

OF_ACCURACY = [
    (Limits(max_drop=1.0), TOP1, None, 0.5, PASS, "0.5 pp is within 1.0 pp"),
    (Limits(max_drop=0.25), TOP1, None, 0.5, FAIL, "0.5 pp is above 0.25 pp"),
    (Limits(max_drop=0.25), HINGE, None, 1.0, FAIL, "1 px is above 0.25 px"),
    (Limits(max_drop=1.0), MAE, None, 4.9, FAIL, "4.9 is above 1.0"),
    (Limits(max_drop=1.0), NO_SCORE, None, None, INCONCLUSIVE, "not measured: no metric could be computed"),
    (
        Limits(max_drop=1.0),
        replace(TOP1, drop_ci=None, n=1),
        0.9,
        None,
        INCONCLUSIVE,
        "not measured: 1 sample cannot give an interval",
    ),
    (Limits(max_drop=2.0), TOP1, 0.9, 0.5, PASS, "the 90% interval [-1, 2] pp lies within 2.0 pp"),
    (Limits(max_drop=0.4), HINGE, 0.95, 1.0, FAIL, "the 95% interval [0.5, 1.5] px lies above 0.4 px"),
    (
        Limits(max_drop=0.5),
        HINGE,
        0.95,
        1.0,
        INCONCLUSIVE,
        "the 95% interval [0.5, 1.5] px encloses 0.5 px with 200 samples; about 1240 samples would tell",
    ),
    (
        Limits(max_drop=1.0),
        replace(TOP1, n_to_resolve=None),
        0.95,
        0.5,
        INCONCLUSIVE,
        "the 95% interval [-1, 2] pp encloses 1.0 pp with 200 samples",
    ),
    (Limits(min_ratio=0.5), replace(TOP1, reference=80.0, candidate=60.0), None, 0.75, PASS, "0.75 reaches 0.5"),
    (Limits(min_ratio=0.9), replace(TOP1, reference=80.0, candidate=60.0), None, 0.75, FAIL, "0.75 is below 0.9"),
    (Limits(min_ratio=0.9), HINGE, None, 0.75, FAIL, "0.75 is below 0.9"),
    (
        Limits(min_ratio=0.9),
        replace(MAE, candidate=0.0, drop=-0.1),
        None,
        None,
        PASS,
        "the ratio is infinite: nothing was lost",
    ),
    (
        Limits(min_ratio=0.9),
        replace(TOP1, reference=0.0, candidate=0.0, drop=0.0),
        None,
        None,
        PASS,
        "the ratio is infinite: nothing was lost",
    ),
    *(
        (Limits(min_ratio=0.9), accuracy, None, None, INCONCLUSIVE, "not measured: the score to divide by is 0")
        for accuracy in (
            replace(TOP1, reference=0.0, candidate=-1.0, drop=1.0),
            replace(TOP1, reference=0.0, candidate=0.5, drop=0.5),
            replace(TOP1, reference=0.0, candidate=0.5, drop=None),
            replace(TOP1, reference=0.0, candidate=-0.5, drop=-1.0),
        )
    ),
    *(
        (Limits(min_ratio=0.9), accuracy, None, None, INCONCLUSIVE, "not measured: no metric could be computed")
        for accuracy in (replace(TOP1, reference=None), replace(TOP1, candidate=None))
    ),
    (Limits(min_accuracy=90.5), TOP1, None, 90.5, PASS, "90.5% reaches 90.5%"),
    (Limits(min_accuracy=91), TOP1, None, 90.5, FAIL, "90.5% is below 91%"),
    (Limits(min_accuracy=2.5), HINGE, None, 3.0, FAIL, "3px is above 2.5px"),
    (Limits(min_accuracy=0.2), replace(MAE, unit=None), None, 0.1, PASS, "0.1 is within 0.2"),
    (Limits(min_accuracy=1.0), NO_SCORE, None, None, INCONCLUSIVE, "not measured: no metric could be computed"),
    (Limits(min_agreement=97.5), TOP1, None, 97.5, PASS, "97.5% reaches 97.5%"),
    (Limits(min_agreement=99), TOP1, None, 97.5, FAIL, "97.5% is below 99%"),
    (Limits(min_agreement=99), NO_SCORE, None, None, INCONCLUSIVE, "not measured: no output is (n, classes)"),
    (Limits(min_sqnr_db=20), ERRORS, None, 17.7, FAIL, "17.7 dB is below 20 dB"),
    (Limits(min_cosine=0.999), ERRORS, None, 0.99, FAIL, "0.99 is below 0.999"),
    (Limits(max_abs_error=0.2), ERRORS, None, 0.25, FAIL, "0.25 is above 0.2"),
    (
        Limits(min_sqnr_db=20),
        TEXTS,
        None,
        None,
        INCONCLUSIVE,
        "not measured: output 'names' has no SQNR: its reference is all zero, or text",
    ),
    (
        Limits(min_cosine=0.9),
        TEXTS,
        None,
        None,
        INCONCLUSIVE,
        "not measured: output 'names' has no cosine: it is all zero, or text",
    ),
    (
        Limits(max_abs_error=1.0),
        TEXTS,
        None,
        None,
        INCONCLUSIVE,
        "not measured: output 'names' is text and has no error",
    ),
    (Limits(max_abs_error=1.0), NO_SCORE, None, None, INCONCLUSIVE, "not measured: no output could be compared"),
    *(
        (
            limits,
            replace(TEXTS, by_output=(OutputError("names", identical=True),)),
            None,
            perfect,
            PASS,
            reason,
        )
        for limits, perfect, reason in (
            (Limits(min_sqnr_db=20), float("inf"), "inf dB reaches 20 dB"),
            (Limits(min_cosine=0.9), 1.0, "1 reaches 0.9"),
            (Limits(max_abs_error=0.5), 0.0, "0 is within 0.5"),
        )
    ),
]


def the_limit(limits: Limits) -> tuple[str, float]:
    """Return the name and the number of the one limit that is set."""
    names = ("max_drop", "min_ratio", "min_accuracy", "min_agreement", "min_sqnr_db", "min_cosine", "max_abs_error")
    ((name, allowed),) = [(name, found) for name in names if (found := getattr(limits, name)) is not None]
    return name, allowed


@pytest.mark.parametrize(("limits", "accuracy", "confidence", "observed", "status", "reason"), OF_ACCURACY)
def test_limits_on_accuracy(
    limits: Limits,
    accuracy: AccuracyResult,
    confidence: float | None,
    observed: float | None,
    status: Status,
    reason: str,
) -> None:
    """A drop of a rate is in points, written apart from the number; a score has the unit of its metric."""
    found = list(accuracy_verdicts(limits, accuracy, confidence))
    assert found == [Verdict(*the_limit(limits), observed, status, reason)]


def test_a_limit_on_a_named_output_that_was_not_compared() -> None:
    """The reader learns its name."""
    (found,) = accuracy_verdicts(Limits(min_sqnr_db=(("boxes", 9.0),)), ERRORS, None)
    reason = "not measured: no output 'boxes' could be compared"
    assert found == Verdict("min_sqnr_db[boxes]", 9.0, None, INCONCLUSIVE, reason)


def test_one_of_two_outputs_is_named() -> None:
    """By itself where the limit is for it alone, as the worst where it is for both."""
    both = replace(ERRORS, by_output=(OUTPUT, replace(OUTPUT, name="boxes", sqnr_db=30.0)))
    for limits, output, where in (
        (Limits(min_sqnr_db=20), None, "in output 'scores', the worst of 2"),
        (Limits(min_sqnr_db=20), "scores", "in output 'scores'"),
        (Limits(min_sqnr_db=(("scores", 20),)), None, "in output 'scores'"),
    ):
        (found,) = accuracy_verdicts(limits, both, None, output)
        assert (found.status, found.reason) == (FAIL, f"17.7 dB is below 20 dB {where}")


NAN = OutputFault("y", "not finite", 17, "nan in the candidate")
CONSTANT = OutputFault("y", "constant", 0, "the candidate gives every sample the same")


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        ((NAN,), "output 'y' at sample 17: not finite, nan in the candidate"),
        ((NAN, CONSTANT, NAN), "output 'y' at sample 17: not finite, nan in the candidate (and 2 more)"),
        ((CONSTANT,), "output 'y': constant, the candidate gives every sample the same"),
    ],
)
def test_broken_outputs(faults: tuple[OutputFault, ...], reason: str) -> None:
    """The first is told with its sample, unless it is all of them; nobody set the limit of none."""
    (found,) = accuracy_verdicts(Limits(), replace(TOP1, faults=faults), None)
    assert found == Verdict("outputs", 0.0, len(faults), FAIL, reason, implicit=True)


@pytest.mark.parametrize(
    ("accuracy", "output", "doubts"),
    [
        (TOP1, None, ()),
        (
            replace(TOP1, reference=10.0, chance=12.5),
            None,
            ("the reference itself scores 10 %, and answers score up to 12.5 % without a look at the samples",),
        ),
        (
            replace(TOP1, unit="", reference=0.25, chance=0.5),
            None,
            ("the reference itself scores 0.25, and answers score up to 0.5 without a look at the samples",),
        ),
        (replace(TOP1, reference=0.0), None, ("the reference itself scores 0 %",)),
        (replace(TOP1, unit="", reference=0.0), None, ()),
        (replace(TOP1, reference=None, chance=10.0), None, ()),
        (replace(HINGE, reference=0.0, chance=1.0), None, ()),
        (
            replace(TOP1, reference=0.0, by_output=(OutputError("y", reference_constant=True),)),
            None,
            ("the reference gives every sample the same 'y'", "the reference itself scores 0 %"),
        ),
        (replace(TOP1, by_output=(OutputError("yes", reference_constant=True),)), "y", ()),
    ],
)
def test_doubts_about_the_reference(accuracy: AccuracyResult, output: str | None, doubts: tuple[str, ...]) -> None:
    """A constant output and a score of chance or 0 % are told with their figures."""
    assert reference_doubts(accuracy, output) == doubts


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ("max_drop", INCONCLUSIVE),
        ("min_ratio", INCONCLUSIVE),
        ("max_drop_increase", INCONCLUSIVE),
        ("min_accuracy", INCONCLUSIVE),
        ("min_agreement", PASS),
        ("min_coverage", PASS),
    ],
)
def test_a_pass_against_a_reference_that_knows_nothing(limit: str, status: Status) -> None:
    """What is about scores is taken back with the doubts; what is not is left."""
    doubtful = replace(TOP1, reference=0.0, by_output=(OutputError("y", reference_constant=True),))
    (found,) = doubt_worthless_reference([Verdict(limit, 1.0, 0.5, PASS, "0.5 is fine")], doubtful, None)
    reason = (
        "0.5 is fine, but the reference gives every sample the same 'y' and the reference itself scores 0 %, "
        "so that a PASS would mean nothing; give more samples, of several classes, with their own labels"
    )
    assert found == Verdict(limit, 1.0, 0.5, status, reason if status is INCONCLUSIVE else "0.5 is fine")


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
    (found,) = require_agreement([Verdict("max_drop", 1.0, 0.5, PASS, "0.5 is fine")], [again])
    reason = f"0.5 is fine, but a second evaluation of the same data gives {shown}: an engine is nondeterministic"
    assert found == Verdict("max_drop", 1.0, 0.5, INCONCLUSIVE, reason)


def test_two_evaluations_without_figures_agree() -> None:
    """What neither could measure stays as it was; what one could is open."""
    without = Verdict("max_drop", 1.0, None, INCONCLUSIVE, "not measured")
    assert list(require_agreement([without], [without])) == [without]
    (found,) = require_agreement([without], [replace(without, observed=1.0)])
    assert found.reason.startswith("not measured, but a second evaluation of the same data gives 1:")
