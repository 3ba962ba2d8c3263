"""Limits on SQNR, cosine and largest error: each output by itself, and the worst decides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import AccuracyResult, OutputError, Status, Verdict
from pytest_quant.spec import Limits, OutputLimit
from pytest_quant.verdict.accuracy import accuracy_verdicts

BOXES = OutputError("boxes", sqnr_db=56.0, cosine=0.9999, max_abs_error=1.5, sample=3)
SCORES = OutputError("scores", sqnr_db=17.7, cosine=0.99, max_abs_error=0.2, sample=5)
TEXT = OutputError("names")
LIMITS = ("min_sqnr_db", "min_cosine", "max_abs_error")


def judged(limits: Limits, *outputs: OutputError, output: str | None = None) -> list[Verdict]:
    """Return the verdicts on these outputs."""
    return list(accuracy_verdicts(limits, AccuracyResult(n=10, by_output=outputs), None, output))


def only(limits: Limits, *outputs: OutputError, output: str | None = None) -> Verdict:
    """Return the single verdict that `limits` asks for."""
    (verdict,) = judged(limits, *outputs, output=output)
    return verdict


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(min_sqnr_db=20), "scores"),
        (Limits(min_cosine=0.995), "scores"),
        (Limits(max_abs_error=1.0), "boxes"),
    ],
)
def test_the_worst_output_decides_and_is_named(limits: Limits, name: str) -> None:
    """Another output, however good, does not make up for it."""
    verdict = only(limits, BOXES, SCORES)
    assert verdict.status is Status.FAIL
    assert verdict.reason.endswith(f"in output '{name}', the worst of 2")


def test_a_single_output_needs_no_name() -> None:
    """There is no other that could be meant."""
    assert only(Limits(min_sqnr_db=20), SCORES).reason == "17.7 dB is below 20 dB"


@given(st.lists(st.floats(-20, 120), min_size=1, max_size=6), st.floats(0, 100))
def test_a_limit_holds_when_it_holds_for_each(figures: list[float], allowed: float) -> None:
    """PASS is every output at the limit or above; what is shown is the lowest."""
    outputs = [OutputError(f"y{place}", sqnr_db=value) for place, value in enumerate(figures)]
    verdict = only(Limits(min_sqnr_db=allowed), *outputs)
    assert verdict.observed == min(figures)
    if abs(min(figures) - allowed) > 1e-6:
        assert (verdict.status is Status.PASS) is all(value >= allowed for value in figures)


@pytest.mark.parametrize("limit", LIMITS)
def test_identical_outputs_keep_every_limit(limit: str) -> None:
    """Of text and of zeros too, which have no figures."""
    allowed = {"min_sqnr_db": 300.0, "min_cosine": 1.0, "max_abs_error": 0.0}[limit]
    verdict = only(Limits(**{limit: allowed}), replace(TEXT, identical=True))  # type: ignore[arg-type]
    assert verdict.status is Status.PASS


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("outputs", [(), (TEXT,), (replace(SCORES, identical=True), TEXT)])
def test_not_measured_is_never_pass(limit: str, outputs: tuple[OutputError, ...]) -> None:
    """One output without its figure leaves the limit open, even beside perfect ones."""
    verdict = only(Limits(**{limit: 1.0}), *outputs)  # type: ignore[arg-type]
    assert (verdict.status, verdict.observed) == (Status.INCONCLUSIVE, None)
    assert ("'names'" in verdict.reason) is bool(outputs)


def test_a_broken_limit_is_told_before_what_is_not_measured() -> None:
    """An output without a figure hides no failure."""
    assert only(Limits(min_sqnr_db=20), TEXT, SCORES).status is Status.FAIL


@pytest.mark.parametrize(("output", "status"), [("boxes", Status.PASS), ("scores", Status.FAIL), (None, Status.FAIL)])
def test_the_output_of_the_mark_is_the_only_one_judged(output: str | None, status: Status) -> None:
    """Without a name all are."""
    assert only(Limits(min_sqnr_db=20), BOXES, SCORES, output=output).status is status


def test_a_dict_judges_each_output_that_it_names() -> None:
    """By its own limit, whatever ``output`` says; an output that is not named has none."""
    asked: OutputLimit = (("scores", 17.0), ("boxes", 60.0))
    found = judged(Limits(min_sqnr_db=asked), BOXES, SCORES, TEXT, output="scores")
    assert [(verdict.limit, verdict.allowed, verdict.observed, verdict.status) for verdict in found] == [
        ("min_sqnr_db[scores]", 17.0, 17.7, Status.PASS),
        ("min_sqnr_db[boxes]", 60.0, 56.0, Status.FAIL),
    ]


def test_a_named_output_that_was_not_compared_is_open() -> None:
    """It was missing, for example."""
    verdict = only(Limits(min_sqnr_db=(("scores", 17.0),)), BOXES)
    assert verdict.status is Status.INCONCLUSIVE
    assert "'scores'" in verdict.reason


@pytest.mark.parametrize(
    ("asked", "output", "expected"),
    [
        (20.0, None, [("min_sqnr_db", 17.7)]),
        (20.0, "y", [("min_sqnr_db", 17.7)]),
        (20.0, "y.boxes", [("min_sqnr_db", 56.0)]),
        ((("y.boxes", 50.0),), None, [("min_sqnr_db[y.boxes]", 56.0)]),
        ((("y", 50.0),), None, [("min_sqnr_db[y]", 17.7)]),
    ],
)
def test_groups_of_channels_are_judged_as_outputs(
    asked: OutputLimit, output: str | None, expected: list[tuple[str, float]]
) -> None:
    """The output that they are of stands for all of them: its worst group decides."""
    groups = (replace(BOXES, name="y.boxes", group_of="y"), replace(SCORES, name="y.scores", group_of="y"))
    found = judged(Limits(min_sqnr_db=asked), *groups, replace(BOXES, name="z", sqnr_db=60.0), output=output)
    assert [(verdict.limit, verdict.observed) for verdict in found] == expected
