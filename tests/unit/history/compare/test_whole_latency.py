"""Each row of a latency whole: every figure, unit, direction and note that a reader gets."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from scipy import stats as scipy_stats

from pytest_quant.history.compare import Outcome, Row, compare
from pytest_quant.history.compare.latency import (
    as_log,
    describe_machine,
    pace,
    percent,
    when_ratio_changed,
)
from pytest_quant.history.compare.machine import launches_of, mean_change
from pytest_quant.history.rows import StoredCheck
from pytest_quant.record import Record
from pytest_quant.result import Interval, LatencyFigures, Status
from pytest_quant.stats.launches import Launch, noise_of
from tests.unit.history.compare.launched import launch, launches, record_of, row, timed
from tests.unit.history.compare.test_whole_rows import a_row, about

MACHINE = "Some CPU, avx2, 2 cores, CPUExecutionProvider"
NOISE = (0.997, 1.002, 1.0, 0.999, 1.003)


def run(candidate_ms: float, reference_ms: float = 1.0, **others: Any) -> Record:
    """A record of one launch; `others` are figures of its latency."""
    record = timed(record_of(latency=True), candidate_ms, reference_ms)
    return replace(record, latency=replace(figures(record), **others))


def figures(record: Record) -> LatencyFigures:
    """The latency of a record that has one."""
    assert record.latency is not None
    return record.latency


def runs(candidate_ms: float, reference_ms: float = 1.0, **others: Any) -> list[Record]:
    """Five launches, whose candidates vary by some thousandths about so many milliseconds."""
    return [run(candidate_ms * noise, reference_ms, **others) for noise in NOISE]


def between(base: Sequence[Record], head: Sequence[Record], quantity: str = "speedup") -> Row:
    """Return the row of the latency."""
    return row(compare(launches(base), launches(head, commit="head")), quantity)


def student(base: Sequence[float], head: Sequence[float]) -> dict[str, Any]:
    """Return what a row says of two groups of logarithms of one day, by SciPy."""
    found = scipy_stats.ttest_ind(head, base)
    span = found.confidence_interval(0.95)
    means = [math.exp(sum(side) / len(side)) for side in (base, head)]
    return {
        "base": about(means[0]),
        "head": about(means[1]),
        "change": about(100.0 * (means[1] / means[0] - 1.0)),
        "change_unit": "%",
        "interval": Interval(*(about(100.0 * math.expm1(end)) for end in span)),
        "p": about(found.pvalue),
        "p_adjusted": about(found.pvalue),
    }


@pytest.mark.parametrize(
    ("sides", "outcome", "moved", "notes"),
    [
        (((0.5, 1.0), (0.6, 1.0)), Outcome.REGRESSION, "candidate", ()),
        (((0.6, 1.0), (0.5, 1.0)), Outcome.IMPROVEMENT, "candidate", ()),
        (
            ((0.5, 1.0), (0.7, 1.2)),
            Outcome.REGRESSION,
            "both",
            ("the candidate became slower, and the reference slower",),
        ),
        (
            ((0.5, 1.0), (0.5, 0.9)),
            Outcome.REGRESSION,
            "",
            ("the reference became faster, or the machine did: too few series on this machine to tell",),
        ),
        (
            ((0.5, 1.0), (0.6, 1.2)),
            Outcome.CHANGED,
            "both",
            ("both became slower alike: the machine, or the runtime",),
        ),
        (((0.5, 1.0), (0.5, 1.0)), Outcome.UNCHANGED, "", ()),
    ],
)
def test_a_speedup(
    sides: tuple[tuple[float, float], tuple[float, float]], outcome: Outcome, moved: str, notes: tuple[str, ...]
) -> None:
    """One logarithm for each launch; what each engine did is told in percent, and so is the machine."""
    (was, was_reference), (now, now_reference) = sides
    logs = [[math.log(reference / (ms * noise)) for noise in NOISE] for ms, reference in sides]
    expected = replace(
        a_row("speedup", outcome, None, None, unit="x", better="higher", machine=MACHINE, moved=moved, notes=notes),
        base_launches=5,
        head_launches=5,
        candidate_change_pct=about(100.0 * (now / was - 1.0), abs=1e-9),
        reference_change_pct=about(100.0 * (now_reference / was_reference - 1.0), abs=1e-9),
        **student(*logs),
    )
    found = between(runs(was, was_reference), runs(now, now_reference))
    if outcome is Outcome.UNCHANGED:
        expected = replace(expected, change=about(0.0, abs=1e-9))
    assert found == expected


def test_the_time_of_a_candidate_beside_other_series() -> None:
    """In milliseconds; lower is better, and it is the candidate that moved. Two other series tell of the machine."""

    def suite(ms: float, commit: str) -> list[StoredCheck]:
        own = launches(runs(ms), commit=commit)
        others = [timed(record_of(f"t.py::t{n}", latency=True), 0.5) for n in (1, 2) for _ in NOISE]
        return [*own, *launches(others, commit=commit)]

    (found,) = (
        each for each in compare(suite(0.5, "base"), suite(0.6, "head")).rows
        if each.quantity == "p50" and each.nodeid == record_of().nodeid
    )  # fmt: skip
    logs = [[math.log(ms * noise) for noise in NOISE] for ms in (0.5, 0.6)]
    expected = replace(
        a_row("p50", Outcome.REGRESSION, None, None, unit="ms", better="lower", machine=MACHINE, moved="candidate"),
        base_launches=5,
        head_launches=5,
        candidate_change_pct=about(20.0),
        reference_change_pct=about(0.0),
        **student(*logs),
    )
    assert found == replace(expected, interval=found.interval, p=found.p, p_adjusted=found.p_adjusted)
    assert found.p is not None
    assert found.p < 1e-6


@pytest.mark.parametrize(("base", "head", "advisory"), [(4, 5, True), (5, 4, True), (5, 5, False)])
def test_five_launches_a_side_are_judged(base: int, head: int, advisory: bool) -> None:
    """Fewer are told without a test, and take no part in the family."""
    found = compare(launches(runs(0.5)[:base]), launches(runs(0.6)[:head], commit="head"))
    assert (row(found, "speedup").advisory, found.family) == (advisory, 0 if advisory else 1)


ADVISORY = "advisory: 1 and 5 launches, 5 a side are needed to judge"


def test_one_launch_against_five() -> None:
    """The change is told without a test, with an interval of what the five tell of launches of this day."""
    logs = [math.log(1.0 / (0.6 * noise)) for noise in NOISE]
    reach = float(scipy_stats.t.ppf(0.975, 4) * statistics.stdev(logs) * math.sqrt(1.0 + 1.0 / 5.0))
    change = statistics.fmean(logs) - math.log(2.0)
    expected = a_row(
        "speedup",
        Outcome.WORSE,
        about(2.0),
        about(math.exp(sum(math.log(1.0 / (0.6 * noise)) for noise in NOISE) / 5)),
        unit="x",
        better="higher",
        change=about(-100.0 / 6.0, abs=0.02),
        change_unit="%",
        interval=Interval(*(about(100.0 * math.expm1(change + end)) for end in (-reach, reach))),
        base_launches=1,
        head_launches=5,
        advisory=True,
        candidate_change_pct=about(20.0, abs=0.03),
        reference_change_pct=about(0.0),
        machine=MACHINE,
        notes=(ADVISORY,),
    )
    assert between([run(0.5)], runs(0.6)) == expected


@pytest.mark.parametrize(
    ("base", "head", "outcome"),
    [
        (run(0.5), run(0.53), Outcome.WORSE),
        (run(0.53), run(0.5), Outcome.BETTER),
        (run(0.5), run(0.52), Outcome.INCONCLUSIVE),
        (run(0.5, speedup_ci=Interval(1.8, 2.2)), run(0.53, speedup_ci=Interval(1.7, 2.0)), Outcome.INCONCLUSIVE),
        (run(0.53, speedup_ci=Interval(1.7, 2.0)), run(0.5, speedup_ci=Interval(1.8, 2.2)), Outcome.INCONCLUSIVE),
        (run(0.5, speedup_ci=None), run(0.6), Outcome.INCONCLUSIVE),
        (run(0.5), run(0.6, speedup_ci=None), Outcome.INCONCLUSIVE),
        (run(0.5), run(0.6, speedup_ci=Interval(0.0, 1.7)), Outcome.INCONCLUSIVE),
    ],
)
def test_an_advisory_change(base: Record, head: Record, outcome: Outcome) -> None:
    """Told where it is 5 % or more and the launches' own intervals lie apart; a lower end of 0 has no logarithm."""
    found = between([base], [head])
    assert (found.outcome, found.advisory, found.p) == (outcome, True, None)


def test_two_launches_have_an_interval() -> None:
    """Though it judges nothing."""
    found = between(runs(0.5)[:2], runs(0.6)[:2])
    logs = [[math.log(1.0 / (ms * noise)) for noise in NOISE[:2]] for ms in (0.5, 0.6)]
    assert found.interval == student(*logs)["interval"]
    assert found.advisory


def test_doubted_launches_are_counted() -> None:
    """Of each side by its name, also where none is left."""
    doubted = runs(0.5, reasons=("the null is off",))
    found = between([*runs(0.5), *doubted[:2]], doubted)
    assert found == a_row(
        "speedup",
        Outcome.INCONCLUSIVE,
        None,
        None,
        unit="x",
        better="higher",
        base_launches=5,
        head_launches=0,
        machine=MACHINE,
        notes=(
            "2 of 7 launches of the base left out: their numbers are noise",
            "5 of 5 launches of the head left out: their numbers are noise",
        ),
    )


def test_noise_that_could_hide_five_percent() -> None:
    """The note says what would help; p is kept, for the row is one of the family."""
    wild = [run(ms) for ms in (0.4, 0.6, 0.5, 0.45, 0.55)]
    found = between(wild, wild)
    assert (found.outcome, found.p) == (Outcome.INCONCLUSIVE, about(1.0))
    assert found.notes == ("a slowdown of 5 % cannot be excluded: more launches, or a quieter machine",)


def test_another_machine() -> None:
    """Both are described, and the row is of the head's."""
    found = compare(launches([run(0.5)], cpu="one"), launches([run(0.6)], commit="head", cpu="two"))
    there = MACHINE.replace("Some CPU", "two")
    note = f"other machine, never compared: {MACHINE.replace('Some CPU', 'one')} -> {there}"
    assert row(found, "speedup") == a_row("speedup", Outcome.NO_BASELINE, None, None, machine=there, notes=(note,))


OFF = replace(record_of(), latency_off="--quant-no-latency")
UNKNOWN = record_of()
BROKEN = replace(record_of(), accuracy=None, coverage=None, resources=None, status=Status.ERROR, message="x")


@pytest.mark.parametrize(
    ("base", "head", "outcome", "note"),
    [
        (run(0.5), OFF, Outcome.INCONCLUSIVE, "head: --quant-no-latency"),
        (run(0.5), UNKNOWN, Outcome.INCONCLUSIVE, "head: it was not measured"),
        (OFF, run(0.5), Outcome.NO_BASELINE, "base: --quant-no-latency"),
        (UNKNOWN, run(0.5), Outcome.NO_BASELINE, "base: it was not measured"),
        (run(0.5), BROKEN, None, ""),
        (BROKEN, run(0.5), None, ""),
        (OFF, OFF, None, ""),
    ],
)
def test_a_side_that_was_not_timed(base: Record, head: Record, outcome: Outcome | None, note: str) -> None:
    """It says why; a check that never came to be says that itself, in its status."""
    found = [one for one in compare(launch(base), launch(head, commit="head")).rows if one.quantity == "speedup"]
    assert found == ([] if outcome is None else [a_row("speedup", outcome, None, None, notes=(note,))])


def test_what_is_read_of_launches() -> None:
    """Natural logarithms; a launch whose candidate took no time is doubted too."""
    checks = launches([run(0.5), run(0.25, 2.0), run(0.5, reasons=("x",)), run(0.5, candidate_p50_ms=0.0), record_of()])
    found, _ = launches_of(checks, checks[:1])
    read = [[launch.value for launch in side] for side in found.figures.values()]
    assert read[0] == about([math.log(2.0), math.log(8.0)])
    assert read[1] == about([math.log(0.5), math.log(0.25)])
    assert read[2] == about([0.0, math.log(2.0)])
    spans = [(math.log(x * 0.99), math.log(x * 1.01)) for x in (2.0, 8.0)]
    assert [list(span) for span in found.spans] == [about(list(span)) for span in spans]
    assert (found.n, found.doubted) == (2, 2)


def test_percent_and_logarithms_are_inverse() -> None:
    """A quarter more is 25 %."""
    assert percent(math.log(1.25)) == about(25.0)
    assert as_log(25.0) == about(math.log(1.25))
    assert mean_change(of_one_day(1.0, 2.0), of_one_day(4.0, 6.0)) == 3.5
    assert mean_change((), of_one_day(1.0)) is None
    assert mean_change(of_one_day(1.0), ()) is None


SLOWER, SAME, FASTER = 1, 0, -1


def of_one_day(*values: float) -> tuple[Launch, ...]:
    """Launches with these values."""
    return tuple(Launch(value, 1) for value in values)


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        ((0.0, 0.001), (0.1, 0.101), SLOWER),
        ((0.1, 0.101), (0.0, 0.001), FASTER),
        ((0.0, 0.0), (0.009, 0.009), SAME),
        ((0.0, 0.0), (0.0101, 0.0101), SLOWER),
        ((0.0, 0.2), (0.1, 0.3), SAME),
        ((), (0.5, 0.5), SAME),
        ((0.0,), (0.01,), SAME),
    ],
)
def test_the_pace_of_an_engine(base: tuple[float, ...], head: tuple[float, ...], expected: int) -> None:
    """It moved when that is proven and at least 1 %, which is 0.00995 in logarithms; two launches prove little."""
    sides = of_one_day(*base), of_one_day(*head)
    assert pace(*sides, noise_of(sides)) == expected
    shifted = of_one_day(*(value + 0.3 for value in head))
    assert pace(sides[0], shifted, noise_of((sides[0], shifted)), shift=0.3) == expected


@pytest.mark.parametrize("worse", [True, False])
@pytest.mark.parametrize("candidate", [SLOWER, SAME, FASTER])
@pytest.mark.parametrize("reference", [SLOWER, SAME, FASTER])
def test_who_moved_a_ratio(candidate: int, reference: int, worse: bool) -> None:
    """The rules for a speedup that fell; for one that rose they are the same with slower and faster exchanged."""
    lost, other = (candidate, reference) if worse else (-candidate, -reference)
    gated = Outcome.REGRESSION if worse else Outcome.IMPROVEMENT
    if lost == SLOWER:
        expected = (gated, "candidate" if other == SAME else "both")
    elif other == FASTER:
        expected = (Outcome.CHANGED, "reference")
    else:
        expected = (gated, "")
    *found, notes = when_ratio_changed(candidate, reference, worse=worse, told_apart=True)
    assert tuple(found) == expected
    neither = "neither engine alone moved by more than its noise; their ratio did"
    assert (notes == (neither,)) is (expected == (gated, ""))
    untold = when_ratio_changed(candidate, reference, worse=worse, told_apart=False)
    assert untold[0] is gated
    assert (untold == (*found, notes)) is (expected != (Outcome.CHANGED, "reference"))


def test_a_machine_is_described_by_what_it_is_known_for() -> None:
    """The GPU first, then the CPU; the provider last, where it is known."""
    (check,) = launch(run(0.5))
    identity = {"cores": "2", "isa": "avx2", "cpu": "Some CPU", "gpu": "Some GPU", "os": "Linux"}
    told = replace(check, run=replace(check.run, environment=replace(check.run.environment, identity=identity)))
    assert describe_machine(told) == "Some GPU, Some CPU, avx2, 2 cores, CPUExecutionProvider"
    assert describe_machine(replace(told, record=BROKEN)) == "Some GPU, Some CPU, avx2, 2 cores"
