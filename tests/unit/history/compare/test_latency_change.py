"""Latency of two commits: one number for each launch, within one machine, and which engine moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pytest_quant.history.baselines.launch_history import SPEEDUP
from pytest_quant.history.compare import compare
from pytest_quant.history.compare.comparison import Comparison, Outcome, Row
from pytest_quant.history.compare.latency_change import FEWEST_SERIES, machines_of
from pytest_quant.history.compare.pairing import Pair
from pytest_quant.history.rows import StoredCheck, identity_of
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.record import Record
from pytest_quant.result import LaunchFigures
from tests.unit.history.compare.launched import launches, record_of, row, timed
from tests.unit.history.compare.test_whole_latency import NOISE, run, runs
from tests.unit.history.in_memory import a_point
from tests.unit.record.examples import RUN


def _between(base: Sequence[Record], head: Sequence[Record]) -> Comparison:
    return compare(launches(base), launches(head, commit="head"))


def _suite(*sides: tuple[float, float], series: int = 5) -> Comparison:
    """Base and head of a suite, in which the first series has these candidates and references and the others do not.

    `sides` are ms of candidate and reference at the base, at the head, and of the machine's other series at the head.
    """
    (was, was_reference), (now, now_reference), (others, others_reference) = sides
    checks = []
    for commit, own, rest in (
        ("base", (was, was_reference), (was, was_reference)),
        ("head", (now, now_reference), (others, others_reference)),
    ):
        for index in range(series):
            candidate, reference = rest if index else own
            node = f"tests/test_x.py::test_{index}"
            ms = [candidate * noise for noise in NOISE]
            checks.append(
                launches([timed(record_of(node, latency=True), each, reference) for each in ms], commit=commit)
            )
    return compare(*([each for side in half for each in side] for half in (checks[:series], checks[series:])))


def _first(comparison: Comparison, quantity: str) -> Row:
    (result,) = (
        each for each in comparison.rows if each.quantity == quantity and each.nodeid == "tests/test_x.py::test_0"
    )
    return result


def test_a_reference_that_became_faster_alone_is_no_regression_of_the_candidate() -> None:
    """The speedup is worse all the same, and the row says why."""
    result = _first(_suite((0.5, 1.0), (0.5, 0.9), (0.5, 1.0)), "speedup")
    assert (result.outcome, result.moved) == (Outcome.CHANGED, "reference")
    assert result.change == pytest.approx(-10.0)
    slower = _first(_suite((0.5, 0.9), (0.5, 1.0), (0.5, 0.9)), "speedup")
    assert (slower.outcome, slower.moved) == (Outcome.CHANGED, "reference")


def test_a_slower_candidate_on_a_faster_machine_is_a_regression() -> None:
    """5 % slower on a day on which the whole machine is 5 % faster: its time is what it was, its reference is not."""
    comparison = _suite((0.5, 1.0), (0.5, 0.95), (0.475, 0.95))
    result = _first(comparison, "speedup")
    assert (result.outcome, result.moved) == (Outcome.REGRESSION, "candidate")
    assert result.notes == ("all series on this machine moved by -5.0 %",)
    time = _first(comparison, "p50")
    assert (time.outcome, time.moved) == (Outcome.REGRESSION, "candidate")
    assert time.change == pytest.approx(0.0, abs=1e-9)
    assert time.notes == ("all series on this machine moved by -5.0 %, this candidate by +5.3 % more",)
    assert [each for each in comparison.changed if each.nodeid != result.nodeid] == []


def test_few_series_do_not_tell_the_machine_from_a_change() -> None:
    """The ratio is gated all the same; the time alone is not judged."""
    comparison = _suite((0.5, 1.0), (0.5, 0.95), (0.475, 0.95), series=2)
    result = _first(comparison, "speedup")
    assert (result.outcome, result.moved) == (Outcome.REGRESSION, "")
    assert [each for each in comparison.rows if each.quantity == "p50"] == []


def test_a_model_that_slows_down_with_its_reference_is_a_regression_of_its_time() -> None:
    """The speedup is what it was; the other series say that it is not the machine."""
    comparison = _suite((0.5, 1.0), (1.0, 2.0), (0.5, 1.0))
    ratio, time = _first(comparison, "speedup"), _first(comparison, "p50")
    assert (ratio.outcome, ratio.moved) == (Outcome.CHANGED, "both")
    assert ratio.notes == ("both became slower alike: other series did not: the model, or the runtime",)
    assert time.outcome is Outcome.REGRESSION
    assert time.change == pytest.approx(100.0)
    whole = _suite((0.5, 1.0), (1.0, 2.0), (1.0, 2.0))
    assert whole.changed == ()
    assert _first(whole, "p50").notes[0].startswith("all series on this machine moved by +100.0 %")


def _on_days(days: Sequence[int], ms: Sequence[float], commit: str) -> list[StoredCheck]:
    """One launch for each of these times, each on its day of March."""
    checks = launches([timed(record_of(latency=True), each) for each in ms], commit=commit)
    return [
        replace(check, run=replace(check.run, started_at=f"2026-03-{day:02}T12:{place:02}:00+00:00"))
        for place, (day, check) in enumerate(zip(days, checks, strict=True))
    ]


def test_launches_of_two_days_differ_by_their_days_too() -> None:
    """5 % between five launches of one day and five of another prove nothing; 50 % do, and 5 % within one day."""
    base, slower = [0.5 * noise for noise in NOISE], [0.525 * noise for noise in NOISE]
    result = row(compare(_on_days([1] * 5, base, "base"), _on_days([2] * 5, slower, "head")), "speedup")
    assert (result.outcome, result.interval) == (Outcome.INCONCLUSIVE, None)
    assert result.notes[0] == (
        "base and head share no day, and how much days differ on this machine is not measured yet: 3 % is assumed"
    )
    far = [each * 1.5 for each in base]
    result = row(compare(_on_days([1] * 5, base, "base"), _on_days([2] * 5, far, "head")), "speedup")
    assert result.outcome is Outcome.REGRESSION
    result = row(compare(_on_days([1] * 5, base, "base"), _on_days([1] * 5, slower, "head")), "speedup")
    assert result.outcome is Outcome.REGRESSION
    result = row(compare(_on_days([1], [0.5], "base"), _on_days([1], [0.51], "head")), "speedup")
    assert result.notes[0] == "how much launches of one day differ on this machine is not measured yet: 3 % is assumed"


def test_earlier_commits_tell_how_days_differ() -> None:
    """With 20 quiet days before, 5 % between two days are a regression; with days of 2 % they are not."""
    base, slower = [0.5 * noise for noise in NOISE], [0.525 * noise for noise in NOISE]
    sides = _on_days([1] * 5, base, "base"), _on_days([2] * 5, slower, "head")
    (check, *_) = sides[0]
    for sd, outcome in ((0.001, Outcome.REGRESSION), (0.02, Outcome.INCONCLUSIVE)):
        speedups = np.exp(np.random.default_rng(8).normal(0.7, sd, 20))
        own = {"series": check.record.series, "identity": identity_of(check.run, check.record)}
        earlier = [a_point(day, **own, speedup=float(speedup)) for day, speedup in enumerate(speedups, 1)]
        assert row(compare(*sides, earlier=earlier), "speedup").outcome is outcome
    ours = [replace(point, run_id=check.run.id) for point in earlier]
    assert row(compare(*sides, earlier=ours), "speedup").interval is None, "the base's own runs are no earlier ones"


def test_further_launches_of_one_run_count() -> None:
    """One run with four more launches is five launches."""

    def several(ms: float, hour: int) -> Record:
        first, *others = (ms * noise for noise in NOISE)
        further = tuple(
            LaunchFigures(f"{RUN.started_at[:10]}T{hour:02}:0{place}:00+00:00", 1.0 / each, each, 1.0)
            for place, each in enumerate(others)
        )
        return run(first, launches=further)

    result = row(_between([several(0.5, 4)], [several(0.525, 5)]), "speedup")
    assert (result.base_launches, result.head_launches, result.outcome) == (5, 5, Outcome.REGRESSION)


def test_a_change_below_one_percent_is_none() -> None:
    """However well it is proven."""
    base, head = ([timed(record_of(latency=True), ms) for _ in range(5)] for ms in (0.5, 0.504))
    result = row(_between(base, head), "speedup")
    assert (result.p, result.outcome) == (0.0, Outcome.UNCHANGED)
    head = [timed(record_of(latency=True), 0.506) for _ in range(5)]
    assert row(_between(base, head), "speedup").outcome is Outcome.REGRESSION


def test_speedups_against_different_references_are_never_compared() -> None:
    """FP16 is twice as fast as FP32, so that the same candidate has half the speedup."""
    halves = runs(0.5, 0.5, reference_precision="fp16")
    result = row(_between(runs(0.5), halves), "speedup")
    assert (result.outcome, result.change, result.p) == (Outcome.NO_BASELINE, None, None)
    (note,) = result.notes
    assert note.startswith("timed in another way, never compared: ")
    assert note.endswith(", against fp16")
    assert row(_between(halves, halves), "speedup").outcome is Outcome.UNCHANGED


def test_each_machine_is_compared_with_itself() -> None:
    """A fleet gives a row for each; only one of them became slower."""
    base = [*launches(runs(0.5), cpu="one"), *launches(runs(0.8), commit="base-", cpu="two")]
    head = [*launches(runs(0.5), commit="head", cpu="one"), *launches(runs(0.9), commit="head-", cpu="two")]
    result = {each.machine: each.outcome for each in compare(base, head).rows if each.quantity == "speedup"}
    assert {machine.split(",")[0]: outcome for machine, outcome in result.items()} == {
        "one": Outcome.UNCHANGED,
        "two": Outcome.REGRESSION,
    }


def pair(series: int, base: Sequence[tuple[float, float]], head: Sequence[tuple[float, float]]) -> Pair:
    """Launches of one series, each with the ms of its candidate and its reference."""
    sides = (
        tuple(launches([timed(record_of(f"t.py::t{series}", latency=True), *ms) for ms in side], commit=commit))
        for commit, side in (("base", base), ("head", head))
    )
    return Pair(f"s{series}", *sides)


def test_the_shift_is_the_median_over_all_engines() -> None:
    """Of five series on a machine that became 5 % slower, one candidate doubled, and one reference halved."""
    same = [(0.5, 1.0)] * 2, [(0.525, 1.05)] * 2
    pairs = [pair(number, *same) for number in range(3)]
    pairs += [pair(3, same[0], [(1.0, 1.05)] * 2), pair(4, same[0], [(0.525, 0.5)] * 2)]
    (machine,) = machines_of(pairs, ()).values()
    assert machine.shift == pytest.approx(math.log(1.05))
    (few,) = machines_of(pairs[: FEWEST_SERIES - 1], ()).values()
    assert few.shift is None
    assert machines_of([], ()) == {}


def test_figures_at_the_end_of_what_floats_hold_are_compared() -> None:
    """An imported record may have them; the change is finite, as all figures of a document."""
    huge = timed(record_of(latency=True), candidate_ms=1e-308)
    change = row(_between([record_of(latency=True)], [huge]), "speedup").change
    assert change is not None
    assert 1e300 < change < math.inf


def test_days_are_known_from_earlier_commits_of_the_same_machine() -> None:
    """Not from another one, nor for a series that those commits did not have, unless others share theirs.

    What others share counts for four degrees of freedom at most.
    """
    ours = pair(0, [(0.5, 1.0)] * 2, [(0.5, 1.0)] * 2)
    identity = identity_of(ours.base[0].run, ours.base[0].record)
    speedups = np.exp(np.random.default_rng(3).normal(0.7, 0.01, 21)).tolist()

    def earlier(series: str, machine: str) -> list[CheckSummary]:
        return [a_point(day, series=series, identity=machine, speedup=each) for day, each in enumerate(speedups, 1)]

    def noise(points: list[CheckSummary]) -> float:
        (machine,) = machines_of([ours], points).values()
        return machine.changes["s0"][SPEEDUP].noise.between.freedom

    assert noise(earlier("s0", identity)) == pytest.approx(0.3 * 20)
    assert noise(earlier("s0", "elsewhere")) == 0.0
    assert noise(earlier("s9", identity)) == 0.0
    shared = [point for series in ("s7", "s8", "s9") for point in earlier(series, identity)]
    assert noise(shared) == 4.0
    assert noise([]) == 0.0
