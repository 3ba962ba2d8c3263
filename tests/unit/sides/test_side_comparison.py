"""Two sides are compared test by test; the times are played, so that every outcome is known."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pytest_quant.errors import LaunchError
from pytest_quant.history.compare.comparison import Comparison, Outcome, Row
from pytest_quant.measure.pairs import PairedTimes, TimedPair, time_pairs
from pytest_quant.record import Record, build_failed_record
from pytest_quant.report.comparison_text import change, values
from pytest_quant.result import Status, Verdict
from pytest_quant.sides import side_comparison
from pytest_quant.sides.run import SideResult, launch_file
from pytest_quant.sides.side_comparison import PairTimer, Terms, compare_sides
from pytest_quant.spec import SeriesKey
from tests.support.measuring import quiet_tools
from tests.unit.history.compare.launched import N, answered, answers, key, record_of, row
from tests.unit.record.examples import RUN, a_check, series_of

FILE = "tests/test_digits.py"
NODEID = f"{FILE}::test_int8"
PYTHON = sys.executable


@dataclass
class Played:
    """Times of a head that takes `ratio` times as long, and what was asked."""

    ratio: float = 1.0
    sd: float = 0.001
    error: LaunchError | None = None
    calls: list[tuple[str, str, float, bool]] = field(default_factory=list)

    def __call__(
        self, base: tuple[SideResult, str], head: tuple[SideResult, str], limit_pct: float, *, same_reference: bool
    ) -> PairedTimes:
        """Return pairs whose shifts lie evenly around the ratio."""
        self.calls.append((base[1], head[1], limit_pct, same_reference))
        if self.error:
            raise self.error

        def pair(number: int) -> TimedPair:
            off = self.sd * (number % 5 - 2)
            return TimedPair(math.log(self.ratio) + off, off / 10, 2.0, 2.0 * self.ratio, 40)

        return time_pairs(pair, math.log1p(limit_pct / 100.0), same_reference=same_reference)


def left(
    records: Iterable[Record],
    name: str,
    trouble: str = "",
    skipped: dict[str, str] | None = None,
    uncollected: dict[str, str] | None = None,
) -> SideResult:
    """What a run with these records has left; why it has no others, see `Run`."""
    lacking = replace(RUN, id=name, commit=name, skipped=skipped or {}, uncollected=uncollected or {})
    return SideResult(Path(name), None if trouble else lacking, tuple(records), PYTHON, trouble)


def compared(
    base: Record | SideResult, head: Record | SideResult, times: Played | None = None, terms: Terms | None = None
) -> Comparison:
    """Compare two sides of one record each."""
    sides = [
        side if isinstance(side, SideResult) else left([side], name) for side, name in ((base, "base"), (head, "head"))
    ]
    return compare_sides(sides[0], sides[1], times or Played(), terms or Terms())


def timed(engine: str = "abc123", **allowed: float) -> Record:
    """A record with a latency, its engine's key and limits."""
    verdicts = tuple(Verdict(name, value, None, Status.NO_BASELINE, "") for name, value in allowed.items())
    digests = {"engine": engine, "reference_engine": "float", "data": "def456"}
    return replace(record_of(latency=True), digests=digests, verdicts=verdicts)


def p50(ratio: float, sd: float = 0.001, **allowed: float) -> Row:
    """The row of the latency where the engines differ."""
    return row(compared(timed("old"), timed("new", **allowed), Played(ratio, sd)), "p50")


def test_a_slow_down_beyond_the_limit_is_a_regression_with_its_interval() -> None:
    """In percent of the base; the default limit is named as such."""
    result = p50(1.08)
    assert result.outcome is Outcome.REGRESSION
    assert result.change == pytest.approx(8.0)
    assert result.interval is not None
    assert 7.0 < result.interval.low < 8.0 < result.interval.high < 9.0
    assert (result.base, result.head, result.unit) == (2.0, 2.16, "ms")
    assert any("limit 5 % (no limit in the mark; --quant-against-limit); 5 pairs" in note for note in result.notes)


@pytest.mark.parametrize("own_run", [True, False])
def test_nothing_is_timed_where_accuracy_alone_is_compared(own_run: bool) -> None:
    """Of the user's own run its records say so, of the runs of two commits the terms."""
    head = left([replace(timed("new"), latency=None)], "head")
    if not own_run:
        head = replace(head, environment={})
    times = Played(3.0)
    result = compared(timed("old"), head, times, Terms(latency_off=not own_run))
    assert (times.calls, {each.quantity for each in result.rows} & {"p50", "speedup"}) == ([], set())
    assert [each.outcome for each in result.rows if each.quantity == "accuracy"] == [Outcome.UNCHANGED]


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [
        (1.03, Outcome.WORSE),
        (1.0, Outcome.UNCHANGED),
        (0.98, Outcome.BETTER),
        (0.9, Outcome.IMPROVEMENT),
    ],
)
def test_what_stays_within_the_limit_does_not_fail(ratio: float, outcome: Outcome) -> None:
    """A proven change is named all the same, and an improvement is one beyond the limit."""
    assert p50(ratio).outcome is outcome


def test_what_cannot_be_told_is_inconclusive_with_the_reason() -> None:
    """Ten pairs that differ too much."""
    result = p50(1.05, sd=0.05)
    assert result.outcome is Outcome.INCONCLUSIVE
    assert "10 pairs of processes cannot decide" in result.notes[0]


@pytest.mark.parametrize(
    ("allowed", "limit_pct"),
    [({}, 5.0), ({"max_slowdown": 10.0}, 10.0), ({"max_slowdown": 10.0, "max_p50_increase": 3.0}, 3.0)],
)
def test_the_limit_is_that_of_the_mark_else_the_default(allowed: dict[str, float], limit_pct: float) -> None:
    """The stricter one of two."""
    times = Played()
    compared(timed("old"), timed("new", **allowed), times)
    assert times.calls == [(NODEID, NODEID, limit_pct, True)]


def test_equal_engines_are_not_timed_unless_that_is_asked_for() -> None:
    """They cannot differ; with another environment they can."""
    times = Played(1.5)
    same = row(compared(timed(), timed(), times), "p50")
    assert (same.outcome, values(same), change(same), times.calls) == (Outcome.UNCHANGED, "-", "-", [])
    assert "not timed" in same.notes[0]
    assert row(compared(timed(), timed(), times, Terms(equal_too=True)), "p50").outcome is Outcome.REGRESSION
    other = replace(left([timed()], "base"), python="/other/python")
    assert row(compared(other, timed(), times), "p50").outcome is Outcome.REGRESSION
    assert [call[3] for call in times.calls] == [True, False]


def test_an_engine_that_cannot_be_opened_apart_is_inconclusive() -> None:
    """With the reason; the accuracy of the test is compared."""
    result = compared(timed("old"), timed("new"), Played(error=LaunchError("it cannot", value="be opened")))
    assert row(result, "p50").notes == ("it cannot: be opened",)
    assert row(result, "p50").outcome is Outcome.INCONCLUSIVE
    assert row(result, "accuracy").outcome is Outcome.UNCHANGED


def test_a_run_without_latency_has_no_row_for_it() -> None:
    """Nothing is timed then."""
    times = Played()
    result = compared(timed("old"), replace(timed("new"), latency=None), times)
    assert ([each.quantity for each in result.rows], times.calls) == (["accuracy"], [])


@pytest.mark.parametrize(
    ("lost", "allowed", "outcome"),
    [
        (20, {}, Outcome.REGRESSION),
        (2, {}, Outcome.WORSE),
        (2, {"max_drop_increase": 0.4}, Outcome.REGRESSION),
        (20, {"max_drop_increase": 6.0}, Outcome.WORSE),
        (0, {"max_drop_increase": 0.0}, Outcome.UNCHANGED),
    ],
)
def test_accuracy_is_judged_by_the_marks_limit_else_by_proof(
    lost: int, allowed: dict[str, float], outcome: Outcome
) -> None:
    """20 of 400 samples lost are 5 points and p = 2 / 2^20; 2 are half a point and p = 0.5."""
    head = answered(timed("abc123", **allowed), answers(range(lost)))
    result = row(compared(timed(), head), "accuracy")
    assert (result.outcome, result.lost, result.n) == (outcome, lost, N)


def judged(record: Record, limit: str, status: Status) -> Record:
    """The record of a mark with one limit."""
    return replace(record, verdicts=(Verdict(limit, 0.3, 0.5, status, ""),))


@pytest.mark.parametrize(
    ("limit", "at_base", "outcome"),
    [
        ("max_drop", Status.PASS, Outcome.REGRESSION),
        ("min_sqnr_db[scores]", Status.INCONCLUSIVE, Outcome.REGRESSION),
        ("max_drop", Status.FAIL, Outcome.WORSE),
        ("max_size_mb", Status.PASS, Outcome.WORSE),
    ],
)
def test_a_limit_on_answers_that_breaks_makes_a_loss_a_regression(
    limit: str, at_base: Status, outcome: Outcome
) -> None:
    """However few samples show it: where it held at the base, and what is lost is what it limits."""
    head = judged(answered(timed(), answers(range(2))), limit, Status.FAIL)
    result = row(compared(judged(timed(), limit, at_base), head), "accuracy")
    assert (result.outcome, f"{limit} held at the base" in result.notes) == (outcome, outcome is Outcome.REGRESSION)


def test_a_limit_that_breaks_without_a_loss_is_no_regression_of_accuracy() -> None:
    """The answers are the same: the limit itself was made stricter."""
    base, head = (judged(timed(), "max_drop", status) for status in (Status.PASS, Status.FAIL))
    assert row(compared(base, head), "accuracy").outcome is Outcome.UNCHANGED


def test_a_change_says_what_else_differs() -> None:
    """In the words of a comparison of records."""
    head = replace(answered(timed("new"), answers(range(20))), calibration_samples=3)
    result = row(compared(timed("old"), head), "accuracy")
    differs = [(each.name, each.base, each.head) for each in result.differs]
    assert differs == [("calibration samples", "64", "3"), ("engine digest", "old", "new")]


def test_a_test_that_the_base_does_not_have_is_new() -> None:
    """And one that the head does not have is removed, unless not every test ran."""
    other = replace(timed(), nodeid=f"{FILE}::test_other", series=key(f"{FILE}::test_other"), backend="openvino")
    result = compared(left([timed()], "base"), left([timed(), other], "head"))
    assert [each.nodeid for each in result.added] == [other.nodeid]
    gone = left([timed(), other], "base")
    assert [each.nodeid for each in compared(gone, timed()).removed] == [other.nodeid]
    assert compared(gone, timed(), terms=Terms(whole=False)).removed == ()


@pytest.mark.parametrize(
    ("base", "why"),
    [
        (left([], "base", trouble="pytest ended there with 4: no"), "the base: pytest ended there with 4: no"),
        (
            left([], "base", uncollected={FILE: "ImportError: nothing"}),
            "the base: the test is uncollected there: ImportError: nothing",
        ),
        (
            left([], "base", skipped={SeriesKey.parse(key()).planned: "no VNNI"}),
            "the base: the test is skipped there: no VNNI",
        ),
        (
            left([replace(timed(), series=series_of(NODEID, "dynamic"), scheme="dynamic")], "base"),
            "the base: its check there differs: digits ort-int8-dynamic",
        ),
    ],
)
def test_a_test_that_the_base_could_not_measure_says_why_and_is_not_new(base: SideResult, why: str) -> None:
    """It cannot be judged, and fails nothing."""
    result = compared(base, timed())
    assert [(each.outcome, each.notes) for each in result.rows] == [(Outcome.NO_BASELINE, (why,))]
    assert result.added == ()


def test_an_error_of_one_side_is_told_in_its_first_lines() -> None:
    """Of the base: there is no baseline; of the head: it cannot be judged."""
    broken = build_failed_record(
        a_check(), status=Status.ERROR, message="the engine is broken\n  value: 7\n  next: x"
    ).record
    broken = replace(broken, nodeid=NODEID, series=key(metric=None))
    of_base, of_head = compared(broken, timed()), compared(timed(), broken)
    assert [each.outcome for each in of_base.rows] == [Outcome.NO_BASELINE]
    assert of_base.rows[0].notes == ("the base: the engine is broken / value: 7",)
    assert [each.outcome for each in of_head.rows] == [Outcome.INCONCLUSIVE]


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        (("x 1x57", "x 1x400"), "the two sides time samples of other shapes: x 1x57 -> x 1x400"),
        (("x 1x57", "x 1x57"), "a pair was asked for"),
        # A model that is exported with a free axis has the shapes that the fixed one had.
        (("", "x 1x57"), "a pair was asked for"),
    ],
)
def test_samples_of_other_shapes_are_not_timed_against_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shapes: tuple[str, str], told: str
) -> None:
    """The commit of other data says nothing of its engine; no process is started for it."""

    def asked(*_: object, **__: object) -> None:
        raise LaunchError("a pair was asked for")

    monkeypatch.setattr(side_comparison, "time_pairs", asked)
    sides = []
    for name, said in zip(("base", "head"), shapes, strict=True):
        folder = tmp_path / name
        folder.mkdir()
        header = {"name": "digits", "devices": ["cpu"], "shapes": said}
        launch_file(folder, NODEID).write_text(json.dumps(header) + "\n", encoding="utf-8")
        sides.append(replace(left([timed(name)], name), folder=folder))
    tools = quiet_tools(tmp_path)
    comparison = compare_sides(sides[0], sides[1], PairTimer(tools.steps, tools.locks, None), Terms())
    assert (row(comparison, "p50").outcome, row(comparison, "p50").notes) == (Outcome.INCONCLUSIVE, (told,))
