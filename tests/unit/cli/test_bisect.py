"""The word that git is told of a commit; whole searches are in `tests/nightly/test_bisect.py`."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_quant.cli.bisect import find_step, word_of
from pytest_quant.errors import LaunchError
from pytest_quant.record import Record
from pytest_quant.result import Status
from pytest_quant.sides.run import SideResult
from pytest_quant.sides.side_comparison import Terms, compare_sides
from tests.unit.history.compare.launched import answered, answers
from tests.unit.sides.test_side_comparison import FILE, Played, left, timed

SLOW, NOISY, EQUAL = Played(1.08), Played(1.05, sd=0.05), Played()


def of_commit(
    *records: Record,
    trouble: str = "",
    skipped: dict[str, str] | None = None,
    uncollected: dict[str, str] | None = None,
) -> SideResult:
    """What a commit with these records leaves; its own run measures no latency."""
    untimed = [replace(record, latency=None) for record in records]
    return replace(left(untimed, "b", trouble, skipped, uncollected), environment={})


@pytest.mark.parametrize(
    ("times", "head", "word", "why"),
    [
        (SLOW, of_commit(timed("new")), "bad", "p50 +8 %"),
        (EQUAL, of_commit(answered(timed(), answers(range(20)))), "bad", "accuracy -5 pp"),
        (EQUAL, of_commit(timed("new")), "good", "p50 +0 %"),
        (NOISY, of_commit(timed("new")), "skip", "10 pairs of processes cannot decide"),
        (EQUAL, of_commit(trouble="pytest ended with 4"), "skip", "pytest ended with 4"),
        (EQUAL, of_commit(uncollected={FILE: "no module"}), "skip", "no module"),
        (EQUAL, of_commit(skipped={FILE: "no VNNI"}), "skip", "no VNNI"),
        (EQUAL, of_commit(), "skip", "the test is not there"),
    ],
)
def test_the_word_of_a_commit(times: Played, head: SideResult, word: str, why: str) -> None:
    """Bad by its time or its answers; what cannot be measured or told is skipped, with the reason."""
    base = replace(left([timed("old")], "good"), environment={})
    said, reason = word_of(compare_sides(base, head, times, Terms()), head)
    assert said == word
    assert why in reason


def of_good(*records: Record, trouble: str = "") -> SideResult:
    """What GOOD leaves."""
    return replace(left(records, "good", trouble), environment={})


OTHER_DATA = replace(timed(), digests={**timed().digests, "data": "other"})
UNMEASURED = replace(timed(), accuracy=None, latency=None, coverage=None, status=Status.ERROR, message="it is broken")


@pytest.mark.parametrize(
    ("times", "good", "bad", "step"),
    [
        (EQUAL, of_good(OTHER_DATA), of_commit(timed()), "as GOOD the commit that changed the data.*: git log a..b"),
        (NOISY, of_good(timed("old")), of_commit(timed("new")), "a larger --limit"),
        (Played(error=LaunchError("no")), of_good(timed("old")), of_commit(timed("new")), "as BAD another"),
        (EQUAL, of_good(timed()), of_commit(UNMEASURED), "as BAD another"),
        (EQUAL, of_good(UNMEASURED), of_commit(timed()), "as GOOD another"),
        (EQUAL, of_good(trouble="pytest ended with 4"), of_commit(timed()), "as GOOD another"),
        (EQUAL, of_good(timed()), of_commit(), "--collect-only at GOOD and at BAD"),
    ],
)
def test_the_next_step_is_about_the_side_that_cannot_be_judged(
    times: Played, good: SideResult, bad: SideResult, step: str
) -> None:
    """A list of the tests helps only if one of the sides does not have it."""
    comparison = compare_sides(good, bad, times, Terms())
    assert word_of(comparison, bad)[0] == "skip"
    assert re.search(step, find_step(comparison, "a..b"))
