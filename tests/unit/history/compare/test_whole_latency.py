"""Each row of a latency whole: every figure, unit, direction and note that a reader gets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from scipy import stats as scipy_stats

from pytest_quant.history.compare import compare
from pytest_quant.history.compare.comparison import Outcome, Row
from pytest_quant.history.compare.latency_change import explain_ratio_change
from pytest_quant.history.rows import StoredCheck, describe_identity, describe_timing
from pytest_quant.record import Record
from pytest_quant.result import Interval, Status
from tests.unit.history.compare.launched import launch, launches, record_of, row, timed
from tests.unit.history.compare.test_whole_rows import a_row, about
from tests.unit.record.examples import with_latency

MACHINE = "Some CPU, avx2, 2 cores, CPUExecutionProvider"
NOISE = (0.997, 1.002, 1.0, 0.999, 1.003)


def run(candidate_ms: float, reference_ms: float = 1.0, **others: Any) -> Record:
    """A record of one launch; `others` are figures of its latency."""
    return with_latency(timed(record_of(latency=True), candidate_ms, reference_ms), **others)


def runs(candidate_ms: float, reference_ms: float = 1.0, **others: Any) -> list[Record]:
    """Five launches, whose candidates vary by some thousandths about so many milliseconds."""
    return [run(candidate_ms * noise, reference_ms, **others) for noise in NOISE]


def between(base: Sequence[Record], head: Sequence[Record], quantity: str = "speedup") -> Row:
    """Return the row of the latency."""
    return row(compare(launches(base), launches(head, commit="head")), quantity)


def student(base: Sequence[float], head: Sequence[float]) -> dict[str, Any]:
    """Return what a row says of two groups of logarithms of one day, by SciPy."""
    result = scipy_stats.ttest_ind(head, base)
    span = result.confidence_interval(0.95)
    means = [math.exp(sum(side) / len(side)) for side in (base, head)]
    return {
        "base": about(means[0]),
        "head": about(means[1]),
        "change": about(100.0 * (means[1] / means[0] - 1.0)),
        "interval": Interval(*(about(100.0 * math.expm1(end)) for end in span)),
        "p": about(result.pvalue),
        "p_adjusted": about(result.pvalue),
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
            ("the reference became faster, or the machine did: too few series on this machine to decide",),
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
    result = between(runs(was, was_reference), runs(now, now_reference))
    if outcome is Outcome.UNCHANGED:
        expected = replace(expected, change=about(0.0, abs=1e-9))
    assert result == expected


def test_the_time_of_a_candidate_beside_other_series() -> None:
    """In milliseconds; lower is better, and it is the candidate that moved. Two other series tell of the machine."""

    def suite(ms: float, commit: str) -> list[StoredCheck]:
        own = launches(runs(ms), commit=commit)
        others = [timed(record_of(f"t.py::t{n}", latency=True), 0.5) for n in (1, 2) for _ in NOISE]
        return [*own, *launches(others, commit=commit)]

    (result,) = (
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
    assert result == replace(expected, interval=result.interval, p=result.p, p_adjusted=result.p_adjusted)
    assert result.p is not None
    assert result.p < 1e-6


@pytest.mark.parametrize(("base", "head", "advisory"), [(4, 5, True), (5, 4, True), (5, 5, False)])
def test_five_launches_a_side_are_judged(base: int, head: int, advisory: bool) -> None:
    """Fewer are told without a test, and take no part in the family."""
    result = compare(launches(runs(0.5)[:base]), launches(runs(0.6)[:head], commit="head"))
    assert (row(result, "speedup").advisory, result.family) == (advisory, 0 if advisory else 1)


@pytest.mark.parametrize(
    ("base", "head", "outcome"),
    [
        (run(0.5), run(0.53), Outcome.WORSE),
        (run(0.53), run(0.5), Outcome.BETTER),
        (run(0.5), run(0.52), Outcome.INCONCLUSIVE),
        (run(0.5, speedup_ci=Interval(1.8, 2.2)), run(0.53, speedup_ci=Interval(1.7, 2.0)), Outcome.INCONCLUSIVE),
        (run(0.5), run(0.6, speedup_ci=None), Outcome.INCONCLUSIVE),
        (run(0.5), run(0.6, speedup_ci=Interval(0.0, 1.7)), Outcome.INCONCLUSIVE),
    ],
)
def test_an_advisory_change(base: Record, head: Record, outcome: Outcome) -> None:
    """Told where it is 5 % or more and the launches' own intervals lie apart; a lower end of 0 has no logarithm."""
    result = between([base], [head])
    assert (result.outcome, result.advisory, result.p) == (outcome, True, None)


def test_doubted_launches_are_counted() -> None:
    """Of each side by its name, also where none is left."""
    doubted = runs(0.5, reasons=("the null is off",))
    result = between([*runs(0.5), *doubted[:2]], doubted)
    assert result == a_row(
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
            "2 of 7 launches of the base not counted: timing in doubt",
            "5 of 5 launches of the head not counted: timing in doubt",
        ),
    )


def test_noise_that_could_hide_five_percent() -> None:
    """The note says what would help; p is kept, for the row is one of the family."""
    wild = [run(ms) for ms in (0.4, 0.6, 0.5, 0.45, 0.55)]
    result = between(wild, wild)
    assert (result.outcome, result.p) == (Outcome.INCONCLUSIVE, about(1.0))
    assert result.notes == ("a slowdown of 5 % cannot be excluded: more launches, or a quieter machine",)


def test_another_machine() -> None:
    """Both are described, and the row is of the head's."""
    result = compare(launches([run(0.5)], cpu="one"), launches([run(0.6)], commit="head", cpu="two"))
    there = MACHINE.replace("Some CPU", "two")
    note = f"other machine, never compared: {MACHINE.replace('Some CPU', 'one')} -> {there}"
    assert row(result, "speedup") == a_row("speedup", Outcome.NO_BASELINE, None, None, machine=there, notes=(note,))


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
    result = [each for each in compare(launch(base), launch(head, commit="head")).rows if each.quantity == "speedup"]
    assert result == ([] if outcome is None else [a_row("speedup", outcome, None, None, notes=(note,))])


SLOWER, SAME, FASTER = 1, 0, -1


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
    *result, notes = explain_ratio_change(candidate, reference, worse=worse, told_apart=True)
    assert tuple(result) == expected
    neither = "neither engine alone moved by more than its noise; their ratio did"
    assert (notes == (neither,)) is (expected == (gated, ""))
    untold = explain_ratio_change(candidate, reference, worse=worse, told_apart=False)
    assert untold[0] is gated
    assert (untold == (*result, notes)) is (expected != (Outcome.CHANGED, "reference"))


def test_a_machine_is_described_by_what_it_is_known_for() -> None:
    """The GPU first, then the CPU; the provider last, where it is known."""
    (check,) = launch(run(0.5))
    identity = {"cores": "2", "isa": "avx2", "cpu": "Some CPU", "gpu": "Some GPU", "os": "Linux"}
    identified = replace(check, run=replace(check.run, environment=replace(check.run.environment, identity=identity)))
    assert describe_timing(identified) == "Some GPU, Some CPU, avx2, 2 cores, CPUExecutionProvider"
    assert describe_timing(replace(identified, record=BROKEN)) == "Some GPU, Some CPU, avx2, 2 cores"
    assert describe_identity({"cores": "1"}) == ["1 core"]
