"""What figures cannot carry is INCONCLUSIVE, and what they can is left as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import AccuracyResult, Better, OutputError, Status, Verdict
from pytest_quant.verdict.accuracy import doubt_worthless_reference, reference_doubts, require_agreement

PASS, FAIL, INCONCLUSIVE = Status.PASS, Status.FAIL, Status.INCONCLUSIVE


def scored(reference: float, chance: float | None = 10.0, better: Better = "higher") -> AccuracyResult:
    """A reference that scores so many percent."""
    return AccuracyResult(
        n=50, metric="top1", unit="%", better=better, reference=reference, candidate=reference, drop=0.0, chance=chance
    )


def at_most(observed: float, allowed: float = 5.0, limit: str = "max_drop") -> Verdict:
    """A judged limit."""
    return Verdict(limit, allowed, observed, PASS if observed <= allowed else FAIL, "found")


@pytest.mark.parametrize(
    ("accuracy", "doubted"),
    [
        (scored(10.0), True),
        (scored(10.1), False),
        (scored(0.0, None), True),
        (scored(0.1, None), False),
        (scored(0.0, None, better="lower"), False),
    ],
)
def test_a_score_at_chance_or_0_is_doubted(accuracy: AccuracyResult, doubted: bool) -> None:
    """Guessing among ten classes is right in 10 %; an error of 0 is the best there is."""
    assert bool(reference_doubts(accuracy, None)) is doubted


@pytest.mark.parametrize(("output", "doubted"), [(None, False), ("a", False), ("b", True)])
def test_only_the_judged_output_is_asked(output: str | None, doubted: bool) -> None:
    """A second output that never changes says nothing about the first."""
    outputs = (OutputError("a"), OutputError("b", reference_constant=True))
    accuracy = AccuracyResult(n=9, by_output=outputs)
    assert bool(reference_doubts(accuracy, output)) is doubted


@pytest.mark.parametrize(("scores", "doubted"), [(False, False), (True, True)])
def test_an_output_of_groups_is_constant_where_all_of_them_are(scores: bool, doubted: bool) -> None:
    """The metric reads the whole output, which is compared in its groups only."""
    outputs = (OutputError("y.boxes", reference_constant=True), OutputError("y.scores", reference_constant=scores))
    found = reference_doubts(AccuracyResult(n=9, by_output=(*outputs, OutputError("z"))), "y")
    assert bool(found) is doubted
    assert not doubted or "'y'" in found[0]


def test_a_broken_limit_stays_broken() -> None:
    """Only PASS is taken back, and only of limits on the score."""
    verdicts = [at_most(6.0), at_most(1.0), at_most(1.0, limit="max_abs_error")]
    assert [verdict.status for verdict in doubt_worthless_reference(verdicts, scored(0.0), None)] == [
        FAIL,
        INCONCLUSIVE,
        PASS,
    ]
    assert list(doubt_worthless_reference(verdicts, scored(90.0), None)) == verdicts


@given(first=st.floats(0, 10), second=st.floats(0, 10), allowed=st.floats(0, 10))
def test_what_three_spreads_could_flip_is_open(first: float, second: float, allowed: float) -> None:
    """A verdict stands when both evaluations agree and both lie beyond three times their difference from the limit."""
    one, other = at_most(first, allowed), at_most(second, allowed)
    (found,) = require_agreement([one], [other])
    spread = abs(first - second)
    near = min(abs(first - allowed), abs(second - allowed)) <= 3 * spread
    stands = one.status is other.status and (spread == 0 or not near)
    assert found.status is (one.status if stands else INCONCLUSIVE)


def test_a_limit_that_the_second_evaluation_lacks_is_open() -> None:
    """Nothing is judged on one of two evaluations."""
    (found,) = require_agreement([at_most(1.0)], [])
    assert found.status is INCONCLUSIVE
    assert "a second evaluation of the same data gives nothing" in found.reason
