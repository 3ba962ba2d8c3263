"""Limits on accuracy and output tensors: each verdict whole, with the sentence that the reader gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import AccuracyResult, Interval, OutputError, OutputFault, Status, Verdict
from pytest_quant.spec import OWN_SCORES, Limits, OutputLimit
from pytest_quant.verdict.accuracy_limits import accuracy_verdicts

PASS, FAIL, INCONCLUSIVE = Status.PASS, Status.FAIL, Status.INCONCLUSIVE
TOP1 = AccuracyResult(
    n=200,
    metric="top1",
    unit="%",
    better="higher",
    reference=90.5,
    candidate=90.0,
    drop=0.5,
    drop_ci=Interval(-1.0, 2.0),
    agreement_pct=97.5,
    n_to_resolve=1240,
)
FLIPPED = replace(TOP1, discordant=9, lost=5)
MAE = replace(TOP1, metric="mae", unit="", better="lower", reference=0.1, candidate=5.0, drop=4.9)
OUTPUT = OutputError("scores", sqnr_db=17.7, cosine=0.99, max_abs_error=0.25)
ERRORS = AccuracyResult(n=10, by_output=(OUTPUT,))
TEXTS = AccuracyResult(n=10, by_output=(OutputError("names"),))
HINGE = replace(MAE, unit="px", reference=3.0, candidate=4.0, drop=1.0, drop_ci=Interval(0.5, 1.5))
PROVEN = replace(TOP1, confidence=0.9, sample_weight=0.5, candidate_ci=Interval(86.0, 93.0))
FAR = replace(HINGE, candidate_ci=Interval(3.0, 4.5))
NO_SCORE = AccuracyResult(n=10)

ONE = "but the score has no interval: a single sample says nothing about others"
WOULD = "; about 1240 samples would decide for others"
NO_METRIC = "not measured: no metric could be computed"
OF_ACCURACY = [
    (Limits(max_drop=1.0), TOP1, None, f"PASS 0.5: 0.5 pp is within 1.0 pp{WOULD}"),
    (
        Limits(max_drop=1.0),
        replace(TOP1, drop=1 + 2**-52),
        None,
        f"PASS 1.0000000000000002: 1 pp is within 1.0 pp{WOULD}",
    ),
    (Limits(max_drop=0.25), HINGE, None, "FAIL 1.0: 1 px is above 0.25 px"),
    (Limits(max_drop=1.0), MAE, None, "FAIL 4.9: 4.9 is above 1.0"),
    (Limits(max_drop=1.0), NO_SCORE, None, f"INCONCLUSIVE None: {NO_METRIC}"),
    (Limits(max_drop=1.0), replace(NO_SCORE, note="it is NaN"), None, "INCONCLUSIVE None: not measured: it is NaN"),
    (
        Limits(max_drop=1.0),
        replace(TOP1, drop_ci=None, n=1),
        0.9,
        "INCONCLUSIVE 0.5: the drop has no interval with 1 sample; a single sample says nothing about others",
    ),
    (
        Limits(max_drop=1.0),
        replace(TOP1, drop_ci=None, n_to_resolve=None, note="0 of 400 resamples"),
        0.9,
        "INCONCLUSIVE 0.5: the drop has no interval with 200 samples: 0 of 400 resamples",
    ),
    (Limits(max_drop=2.0), TOP1, 0.9, "PASS 0.5: at most 2.0 pp worse, 90 % sure: 0.5 [-1, 2] pp"),
    (Limits(max_drop=2.0), TOP1, None, "PASS 0.5: at most 2.0 pp worse, 95 % sure: 0.5 [-1, 2] pp"),
    (Limits(max_drop=2.0), FLIPPED, None, "PASS 0.5: at most 2.0 pp worse, 95 % sure: 0.5 [-1, 2] pp; lost 5, won 4"),
    (Limits(max_drop=1.0), FLIPPED, None, f"PASS 0.5: 0.5 pp is within 1.0 pp{WOULD}; lost 5, won 4"),
    (Limits(max_drop=0.4), FLIPPED, None, "FAIL 0.5: 0.5 pp is above 0.4 pp; lost 5, won 4"),
    (
        Limits(max_drop=2.0),
        replace(TOP1, varies=True, assumed_run_sd=0.7),
        None,
        "PASS 0.5: the 95% interval [-1, 2] pp lies within 2.0 pp",
    ),
    (Limits(max_drop=0.4), HINGE, 0.95, "FAIL 1.0: the 95% interval [0.5, 1.5] px lies above 0.4 px"),
    (
        Limits(max_drop=0.5),
        HINGE,
        0.95,
        "INCONCLUSIVE 1.0: the 95% interval [0.5, 1.5] px encloses 0.5 px with 200 samples; about "
        "1240 samples would decide",
    ),
    (
        Limits(max_drop=1.0),
        replace(TOP1, n_to_resolve=None),
        0.95,
        "INCONCLUSIVE 0.5: the 95% interval [-1, 2] pp encloses 1.0 pp with 200 samples",
    ),
    (Limits(min_ratio=0.5), replace(TOP1, reference=80.0, candidate=60.0), None, "PASS 0.75: 0.75 reaches 0.5"),
    (Limits(min_ratio=0.9), replace(TOP1, reference=80.0, candidate=60.0), None, "FAIL 0.75: 0.75 is below 0.9"),
    (Limits(min_ratio=0.9), HINGE, None, "FAIL 0.75: 0.75 is below 0.9"),
    (
        Limits(min_ratio=0.9),
        replace(MAE, candidate=0.0, drop=-0.1),
        None,
        "PASS None: the ratio is infinite: nothing was lost",
    ),
    (
        Limits(min_ratio=0.9),
        replace(TOP1, reference=0.0, candidate=0.0, drop=0.0),
        None,
        "PASS None: the ratio is infinite: nothing was lost",
    ),
    *(
        (Limits(min_ratio=0.9), accuracy, None, "INCONCLUSIVE None: not measured: the score to divide by is 0")
        for accuracy in (
            replace(TOP1, reference=0.0, candidate=-1.0, drop=1.0),
            replace(TOP1, reference=0.0, candidate=0.5, drop=None),
            replace(TOP1, reference=0.0, candidate=-0.5, drop=-1.0),
        )
    ),
    (Limits(min_ratio=0.9), replace(TOP1, candidate=None), None, f"INCONCLUSIVE None: {NO_METRIC}"),
    (Limits(min_reference_accuracy=90.5), TOP1, None, "PASS 90.5: 90.5% reaches 90.5%"),
    (Limits(min_reference_accuracy=91), TOP1, None, "FAIL 90.5: 90.5% is below 91%"),
    (Limits(min_reference_accuracy=2.5), HINGE, None, "FAIL 3.0: 3px is above 2.5px"),
    (Limits(min_reference_accuracy=0.1), replace(MAE, unit=None), None, "PASS 0.1: 0.1 is within 0.1"),
    (Limits(min_reference_accuracy=1.0), NO_SCORE, None, f"INCONCLUSIVE None: {NO_METRIC}"),
    (Limits(min_reference_accuracy=1.0), replace(HINGE, n=1), None, f"INCONCLUSIVE 3.0: 3px is above 1.0px, {ONE}"),
    (Limits(min_accuracy=90), TOP1, None, "PASS 90.0: 90% reaches 90%"),
    (Limits(min_accuracy=90.5), TOP1, None, "FAIL 90.0: 90% is below 90.5%"),
    (Limits(min_accuracy=4), HINGE, None, "PASS 4.0: 4px is within 4px"),
    (Limits(min_accuracy=3.5), HINGE, None, "FAIL 4.0: 4px is above 3.5px"),
    (Limits(min_accuracy=1.0), NO_SCORE, None, f"INCONCLUSIVE None: {NO_METRIC}"),
    (Limits(min_accuracy=85), PROVEN, 0.9, "PASS 90.0: the 90% interval [86, 93] % reaches 85 %"),
    (Limits(min_accuracy=88), PROVEN, 0.9, "INCONCLUSIVE 90.0: the 90% interval [86, 93] % encloses 88 %"),
    (Limits(min_accuracy=95), PROVEN, 0.9, "FAIL 90.0: the 90% interval [86, 93] % lies below 95 %"),
    (Limits(min_accuracy=5), FAR, 0.95, "PASS 4.0: the 95% interval [3, 4.5] px lies within 5 px"),
    (Limits(min_accuracy=4), FAR, 0.95, "INCONCLUSIVE 4.0: the 95% interval [3, 4.5] px encloses 4 px"),
    (Limits(min_accuracy=2), FAR, 0.95, "FAIL 4.0: the 95% interval [3, 4.5] px lies above 2 px"),
    (
        Limits(min_accuracy=5),
        HINGE,
        0.95,
        "INCONCLUSIVE 4.0: 4px is within 5px, but the score has no interval",
    ),
    (Limits(min_agreement=97.5), TOP1, None, "PASS 97.5: 97.5% reaches 97.5%"),
    (Limits(min_agreement=99), TOP1, None, "FAIL 97.5: 97.5% is below 99%"),
    (
        Limits(min_agreement=99),
        NO_SCORE,
        None,
        "INCONCLUSIVE None: not measured: no output is (n, classes), text or scores of tokens; "
        "min_sqnr_db limits any output, max_drop a score",
    ),
    (Limits(min_sqnr_db=20), ERRORS, None, "FAIL 17.7: 17.7 dB is below 20 dB"),
    (Limits(min_cosine=0.999), ERRORS, None, "FAIL 0.99: 0.99 is below 0.999"),
    (Limits(max_abs_error=0.2), ERRORS, None, "FAIL 0.25: 0.25 is above 0.2"),
    (
        Limits(min_sqnr_db=20),
        TEXTS,
        None,
        "INCONCLUSIVE None: not measured: output 'names' has no SQNR: its reference is all zero, or text",
    ),
    (
        Limits(min_cosine=0.9),
        TEXTS,
        None,
        "INCONCLUSIVE None: not measured: output 'names' has no cosine: it is all zero, or text",
    ),
    (
        Limits(max_abs_error=1.0),
        TEXTS,
        None,
        "INCONCLUSIVE None: not measured: output 'names' is text and has no error",
    ),
    (Limits(max_abs_error=1.0), NO_SCORE, None, "INCONCLUSIVE None: not measured: no output could be compared"),
    *(
        (limits, replace(TEXTS, by_output=(OutputError("names", identical=True),)), None, perfect)
        for limits, perfect in (
            (Limits(min_sqnr_db=20), "PASS inf: inf dB reaches 20 dB"),
            (Limits(min_cosine=0.9), "PASS 1.0: 1 reaches 0.9"),
            (Limits(max_abs_error=0.5), "PASS 0.0: 0 is within 0.5"),
        )
    ),
]


def in_words(verdict: Verdict) -> str:
    """Return status, figure and reason as a line."""
    return f"{verdict.status} {verdict.observed}: {verdict.reason}"


def the_limit(limits: Limits) -> tuple[str, float]:
    """Return the name and the number of the one limit that is set."""
    names = ("max_drop", "min_ratio", *OWN_SCORES, "min_agreement", "min_sqnr_db", "min_cosine", "max_abs_error")
    ((name, allowed),) = [(name, result) for name in names if (result := getattr(limits, name)) is not None]
    return name, allowed


@pytest.mark.parametrize(("limits", "accuracy", "confidence", "said"), OF_ACCURACY)
def test_limits_on_accuracy(limits: Limits, accuracy: AccuracyResult, confidence: float | None, said: str) -> None:
    """A drop of a rate is in points, written apart from the number; a score has the unit of its metric."""
    (result,) = accuracy_verdicts(limits, accuracy, confidence)
    assert (result.limit, result.allowed, result.implicit) == (*the_limit(limits), False)
    assert in_words(result) == said


@given(drop=st.floats(-100, 100), allowed=st.floats(0, 100))
def test_the_point_estimate_decides_max_drop(drop: float, allowed: float) -> None:
    """Without a confidence, the drop fails exactly when it is above the limit, rounding of a few ulps aside."""
    (verdict,) = accuracy_verdicts(Limits(max_drop=allowed), replace(TOP1, drop=drop), None)
    if drop > allowed + 1e-6:
        assert verdict.status is Status.FAIL
    if drop <= allowed:
        assert verdict.status is Status.PASS


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
    (result,) = accuracy_verdicts(Limits(), replace(TOP1, faults=faults), None)
    assert result == Verdict("outputs", 0.0, len(faults), FAIL, reason, implicit=True)


def test_one_of_two_outputs_is_named() -> None:
    """By itself where the limit is for it alone, as the worst where it is for both."""
    both = replace(ERRORS, by_output=(OUTPUT, replace(OUTPUT, name="boxes", sqnr_db=30.0)))
    for limits, output, where in (
        (Limits(min_sqnr_db=20), (), "in output 'scores', the worst of 2"),
        (Limits(min_sqnr_db=20), ("scores",), "in output 'scores'"),
        (Limits(min_sqnr_db=(("scores", 20),)), (), "in output 'scores'"),
    ):
        (result,) = accuracy_verdicts(limits, both, None, output)
        assert (result.status, result.reason) == (FAIL, f"17.7 dB is below 20 dB {where}")


BOXES = OutputError("boxes", sqnr_db=56.0, cosine=0.9999, max_abs_error=1.5, sample=3)
SCORES = OutputError("scores", sqnr_db=17.7, cosine=0.99, max_abs_error=0.2, sample=5)
TEXT = OutputError("names")


def judged(limits: Limits, *outputs: OutputError, output: tuple[str, ...] = ()) -> list[Verdict]:
    """Return the verdicts on these outputs."""
    return list(accuracy_verdicts(limits, AccuracyResult(n=10, by_output=outputs), None, output))


def worst(limits: Limits, *outputs: OutputError, output: tuple[str, ...] = ()) -> Verdict:
    """Return the single verdict that `limits` asks for."""
    (verdict,) = judged(limits, *outputs, output=output)
    return verdict


@given(st.lists(st.floats(-20, 120), min_size=1, max_size=6), st.floats(0, 100))
def test_a_limit_holds_when_it_holds_for_each(figures: list[float], allowed: float) -> None:
    """PASS is every output at the limit or above; what is shown is the lowest."""
    outputs = [OutputError(f"y{place}", sqnr_db=value) for place, value in enumerate(figures)]
    verdict = worst(Limits(min_sqnr_db=allowed), *outputs)
    assert verdict.observed == min(figures)
    if abs(min(figures) - allowed) > 1e-6:
        assert (verdict.status is Status.PASS) is all(value >= allowed for value in figures)


@pytest.mark.parametrize("limit", ["min_sqnr_db", "min_cosine", "max_abs_error"])
@pytest.mark.parametrize("outputs", [(), (TEXT,), (replace(SCORES, identical=True), TEXT)])
def test_not_measured_is_never_pass(limit: str, outputs: tuple[OutputError, ...]) -> None:
    """One output without its figure leaves the limit open, even beside perfect ones; it hides no failure."""
    assert worst(Limits(min_sqnr_db=20), TEXT, SCORES).status is FAIL
    verdict = worst(Limits(**{limit: 1.0}), *outputs)  # type: ignore[arg-type]
    assert (verdict.status, verdict.observed) == (Status.INCONCLUSIVE, None)
    assert ("'names'" in verdict.reason) is bool(outputs)


def test_a_dict_judges_each_output_that_it_names() -> None:
    """By its own limit, whatever ``output`` says; an output that is not named has none."""
    limit: OutputLimit = (("scores", 17.0), ("boxes", 60.0))
    result = judged(Limits(min_sqnr_db=limit), BOXES, SCORES, TEXT, output=("scores",))
    assert [(verdict.limit, verdict.allowed, verdict.observed, verdict.status) for verdict in result] == [
        ("min_sqnr_db[scores]", 17.0, 17.7, Status.PASS),
        ("min_sqnr_db[boxes]", 60.0, 56.0, Status.FAIL),
    ]


@pytest.mark.parametrize(
    ("limit", "output", "expected"),
    [
        (20.0, (), [("min_sqnr_db", 17.7)]),
        (20.0, ("y",), [("min_sqnr_db", 17.7)]),
        (20.0, ("y.boxes",), [("min_sqnr_db", 56.0)]),
        (20.0, ("z", "y.boxes"), [("min_sqnr_db", 56.0)]),
        ((("y.boxes", 50.0),), (), [("min_sqnr_db[y.boxes]", 56.0)]),
        ((("y", 50.0),), (), [("min_sqnr_db[y]", 17.7)]),
    ],
)
def test_groups_of_channels_are_judged_as_outputs(
    limit: OutputLimit, output: tuple[str, ...], expected: list[tuple[str, float]]
) -> None:
    """The output that they are of stands for all of them: its worst group decides."""
    groups = (replace(BOXES, name="y.boxes", group_of="y"), replace(SCORES, name="y.scores", group_of="y"))
    result = judged(Limits(min_sqnr_db=limit), *groups, replace(BOXES, name="z", sqnr_db=60.0), output=output)
    assert [(verdict.limit, verdict.observed) for verdict in result] == expected
