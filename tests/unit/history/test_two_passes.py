"""The records of two passes over one commit, joined: whose figures count, what it says, and when it is not done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.history.compare import compare
from pytest_quant.history.rows import StoredCheck, identity_of
from pytest_quant.history.two_passes import join_passes
from pytest_quant.record import Record
from pytest_quant.result import Hint, Resources, Status, Verdict
from pytest_quant.verdict import worst
from tests.unit.history.compare.launched import answered, answers, launch, record_of, row
from tests.unit.record.examples import series_of

NO_LATENCY, ONLY_LATENCY = "--quant-no-latency is set", "--quant-only-latency is set"
DIGESTS = {"model": "m", "engine": "e", "reference_engine": "r", "data": "d", "calibration_data": "c"}
ON_ACCURACY, ON_SPEED = ("max_drop", "min_cosine[scores]", "max_drop_increase"), ("min_speedup", "max_energy_mj")


def verdicts(limits: Iterable[str], status: Status = Status.PASS, said: str = "measured") -> tuple[Verdict, ...]:
    """One status for each of these limits."""
    return tuple(Verdict(limit, 1.0, 0.5, status, f"{limit} {said}") for limit in limits)


def missing(limits: Iterable[str]) -> tuple[Verdict, ...]:
    """What the other pass measures."""
    return verdicts(limits, Status.INCONCLUSIVE, "not measured")


def of_accuracy(judged: tuple[Verdict, ...] = (), **more: Any) -> Record:
    """A record of the first pass."""
    judged = judged or (*verdicts(ON_ACCURACY), *missing(ON_SPEED))
    record = replace(record_of(), latency_off=NO_LATENCY, digests=DIGESTS)
    return replace(record, verdicts=judged, status=worst(judged), **more)


def of_latency(judged: tuple[Verdict, ...] = (), **more: Any) -> Record:
    """A record of the second pass."""
    judged = judged or (*missing(ON_ACCURACY), *verdicts(ON_SPEED))
    record = replace(record_of(latency=True), accuracy=None, accuracy_off=ONLY_LATENCY)
    return replace(record, **{"digests": DIGESTS, "verdicts": judged, "status": worst(judged), **more})


def passes(first: Record, second: Record, commit: str = "head") -> list[StoredCheck]:
    """Both, each by a run on a machine of its own."""
    return [
        *launch(first, run="1", commit=commit, cpu="AMD EPYC"),
        *launch(second, run="2", commit=commit, cpu="Xeon"),
    ]


MACHINES = "accuracy: AMD EPYC, avx2, 2 cores; latency: Xeon, avx2, 2 cores"


def test_each_pass_gives_what_it_measured() -> None:
    """Accuracy and coverage are of the first, all else of the second, on whose machine the latency is compared."""
    first = of_accuracy(
        notes=("a", "b"), isa="its", expected=True, resources=Resources(size_mb=9.0), hints=(Hint("h"),)
    )
    second = of_latency(notes=("b", "c"), cache={"engine": "hit"})
    both = passes(first, second)
    (joined,) = join_passes(both)
    record = joined.record
    assert (record.accuracy, record.coverage, record.isa) == (first.accuracy, first.coverage, "its")
    assert (record.latency, record.resources, record.digests) == (second.latency, second.resources, DIGESTS)
    assert (record.latency_off, record.accuracy_off) == ("", "")
    assert record.cache == {"engine": "hit", "reference": "built"}
    assert (record.notes, record.hints) == ((f"two passes, {MACHINES}", "a", "b", "c"), (Hint("h"),))
    assert [verdict.reason for verdict in record.verdicts or ()] == [
        f"{name} measured" for name in ON_ACCURACY + ON_SPEED
    ]
    assert (record.status, record.expected) == (Status.PASS, True)
    assert (joined.run, joined.first) == (both[1].run, both[0])
    assert identity_of(joined.run, record) == identity_of(both[1].run, both[1].record)
    assert join_passes([joined]) == [joined]


@pytest.mark.parametrize("broken", ["first", "second"])
def test_a_limit_that_either_pass_breaks_is_broken(broken: str) -> None:
    """Also that on coverage, which both read back: INT8 must have run where latency was measured."""
    fine, bad = (verdicts(["min_coverage"], status, status.value) for status in (Status.PASS, Status.FAIL))
    first = of_accuracy((*verdicts(ON_ACCURACY), *(bad if broken == "first" else fine)))
    second = of_latency((*verdicts(ON_SPEED), *(bad if broken == "second" else fine)))
    (joined,) = join_passes(passes(first, second))
    assert joined.record.status is Status.FAIL
    assert bad[0] in (joined.record.verdicts or ())


def test_a_limit_of_one_machine_is_kept() -> None:
    """A mark may set it for a device that the other machine lacks; broken outputs are seen by the first pass alone."""
    outputs = verdicts(["outputs"], Status.FAIL)
    (joined,) = join_passes(passes(of_accuracy(outputs), of_latency(verdicts(["max_memory_mb"]))))
    assert [verdict.limit for verdict in joined.record.verdicts or ()] == ["outputs", "max_memory_mb"]
    assert joined.record.status is Status.FAIL


STATUSES = st.sampled_from([Status.PASS, Status.INCONCLUSIVE, Status.NO_BASELINE, Status.FAIL])
LIMITS = st.lists(st.sampled_from([*ON_ACCURACY, *ON_SPEED, "min_coverage", "max_size_mb"]), unique=True, min_size=1)


@given(limits=LIMITS, data=st.data())
def test_no_limit_is_lost_and_none_gets_better(limits: list[str], data: st.DataObject) -> None:
    """Each has the status of the pass that measures it, and that of the record is the worst."""
    sides = [tuple(verdict for name in limits for verdict in verdicts([name], data.draw(STATUSES))) for _ in range(2)]
    (joined,) = join_passes(passes(of_accuracy(sides[0]), of_latency(sides[1])))
    found = {verdict.limit: verdict.status for verdict in joined.record.verdicts or ()}
    assert list(found) == limits
    for before, after in zip(*sides, strict=True):
        if before.limit in ON_ACCURACY:
            assert found[before.limit] is before.status
        elif before.limit == "min_coverage":
            assert found[before.limit] is worst([before, after])
        else:
            assert found[before.limit] is after.status
    assert joined.record.status is worst(joined.record.verdicts or ())


@pytest.mark.parametrize("name", DIGESTS)
def test_other_digests_are_not_joined(name: str) -> None:
    """Both stay as they were recorded, INCONCLUSIVE, and say which digest differs and on which machines."""
    both = passes(of_accuracy(), of_latency(digests={**DIGESTS, name: "x"}))
    result = join_passes(both)
    note = f"two passes, not joined, for other digests of: {name.replace('_', ' ')} ({MACHINES})"
    assert [check.record.notes for check in result] == [(note, *check.record.notes) for check in both]
    assert [replace(check.record, notes=()) for check in result] == [replace(check.record, notes=()) for check in both]
    assert compare([], result).notes == ("the base has no records", f"the head, 2 records: {note}")


def test_what_was_not_measured_in_two_passes_stays() -> None:
    """One pass alone, another commit, another series, whole records, and checks that never came to be."""
    failed = replace(of_latency(), latency=None, verdicts=None, status=Status.ERROR, digests={}, message="x")
    other = replace(of_latency(), series=series_of("other"))
    for alone in (
        launch(of_accuracy()),
        launch(of_latency()),
        [*launch(of_accuracy(), commit="one"), *launch(of_latency(), commit="two")],
        passes(of_accuracy(), other),
        passes(of_accuracy(), failed),
        passes(replace(record_of(latency=True), digests=DIGESTS), of_latency(digests=DIGESTS)),
        launch(record_of(), record_of(latency=True)),
    ):
        assert join_passes(alone) == alone


@given(order=st.permutations([0, 1, 2, 3, 4]))
def test_every_launch_of_the_second_pass_is_one(order: list[int]) -> None:
    """Two first passes that are equal are one fact, in whatever order the runs came in."""
    firsts = [check for run in "ab" for check in launch(of_accuracy(), run=run)]
    seconds = [check for run in "cde" for check in launch(of_latency(), run=run)]
    result = join_passes([(firsts + seconds)[place] for place in order])
    assert sorted(check.run.id for check in result) == ["base-c", "base-d", "base-e"]
    assert all(check.record.status is Status.PASS for check in result)


def test_first_passes_that_differ_both_count() -> None:
    """The last is joined; the answers of the other are not hidden."""
    other = answered(of_accuracy(), answers([1, 2]))
    both = [*launch(other, run="0", commit="head", cpu="Xeon"), *passes(of_accuracy(), of_latency())]
    result = join_passes(both)
    assert [check.record.accuracy for check in result] == [other.accuracy, of_accuracy().accuracy]
    base = launch(replace(record_of(latency=True), digests=DIGESTS), cpu="Xeon")
    notes = row(compare(base, result), "accuracy").notes
    assert "the answers vary between launches of the head" in notes


def test_passes_that_are_not_joined_are_compared() -> None:
    """Each in what it measured; scores also where only the other pass ran on the machine of the base."""
    base = launch(replace(record_of(latency=True), digests=DIGESTS), cpu="Xeon")
    worse = answered(of_accuracy(), answers(range(60)))
    result = join_passes(passes(worse, of_latency(digests={**DIGESTS, "engine": "x"})))
    comparison = compare(base, result)
    assert row(comparison, "accuracy").outcome.value == "regression"
    assert row(comparison, "speedup").notes[-1].startswith("advisory: 1 and 1 launches")


def test_a_pass_alone_says_what_it_left_out() -> None:
    """Nothing of it is taken for a check that was not measured."""
    base = launch(replace(record_of(latency=True), digests=DIGESTS))
    result = compare(base, launch(of_latency(), commit="head"))
    assert {each.quantity for each in result.rows} == {"status", "size", "coverage", "speedup"}
    assert (row(result, "status").head, row(result, "status").notes) == ("INCONCLUSIVE", ())
    back = compare(launch(of_latency()), launch(of_accuracy(), commit="head"))
    assert row(back, "speedup").notes == (f"head: {NO_LATENCY}",)


def test_the_first_pass_alone_is_compared_with_both_on_its_machine() -> None:
    """What it read back gates, although the latency of the base is of another machine."""
    coverage = record_of().coverage
    assert coverage is not None
    base = join_passes(passes(of_accuracy(), of_latency(), commit="base"))
    head = of_accuracy(coverage=replace(coverage, pct=60.0))
    assert row(compare(base, launch(head, commit="head", cpu="AMD EPYC")), "coverage").outcome.value == "regression"


@pytest.mark.parametrize("broken", ["first", "second"])
def test_a_broken_pass_is_not_outvoted(broken: str) -> None:
    """By launches of the other pass, with which it is not joined."""
    bad = verdicts(["max_drop" if broken == "first" else "min_speedup"], Status.FAIL)
    first = of_accuracy(bad if broken == "first" else ())
    second = of_latency(bad if broken == "second" else (), digests={**DIGESTS, "engine": "x"})
    many = [launch(side, run=f"{side.latency_off} {run}", commit="head")
            for side, runs in ((first, 1 if broken == "first" else 5), (second, 1 if broken == "second" else 5))
            for run in range(runs)]  # fmt: skip
    base = launch(replace(record_of(latency=True), digests=DIGESTS))
    result = row(compare(base, join_passes([each for run in many for each in run])), "status")
    assert (result.head, result.outcome.value) == ("FAIL", "regression")
