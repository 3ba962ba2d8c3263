"""What holds for any two commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.history.compare import compare
from pytest_quant.history.compare.comparison import Comparison, Outcome, Word
from pytest_quant.history.rows import StoredCheck
from pytest_quant.record import Record
from pytest_quant.result import Resources, Status
from tests.unit.history.compare.launched import N, answered, answers, launch, record_of, timed

_NODES = [f"tests/test_x.py::test_{index}" for index in range(3)]


@st.composite
def _records(draw: st.DrawFn) -> Record:
    record = record_of(draw(st.sampled_from(_NODES)), latency=True)
    record = answered(record, answers(draw(st.sets(st.integers(0, N - 1), max_size=40))))
    record = timed(record, draw(st.floats(0.3, 0.9)), draw(st.floats(0.9, 1.1)), draw(st.floats(0.0, 0.3)))
    return replace(
        record,
        latency=draw(st.sampled_from([None, record.latency])),
        resources=Resources(size_mb=draw(st.sampled_from([1.0, 1.005, 1.01, 2.0]))),
        digests={"data": draw(st.sampled_from(["one", "one", "two"]))},
        status=draw(st.sampled_from(list(Status))),
        isa=draw(st.sampled_from(["avx2", "avx512_vnni"])),
    )


@st.composite
def _judged(draw: st.DrawFn, name: str) -> list[StoredCheck]:
    """Enough launches of one test on one machine, with speeds as near to one another as launches are."""
    record = answered(record_of(_NODES[0]), answers(range(draw(st.sampled_from([0, 1, 3, 20])))))
    record = replace(record, latency=record_of(latency=True).latency)
    speed, own = draw(st.sampled_from([(0.5, 1.0), (0.51, 1.0), (0.6, 1.0), (0.6, 1.2), (0.5, 0.9)]))
    noise = draw(st.lists(st.integers(-20, 20), min_size=5, max_size=7))
    result = [timed(record, speed * (1.0 + each / 1000.0), own) for each in noise]
    return [
        check for index, each in enumerate(result) for check in launch(each, run=str(index), commit=name, cpu="one")
    ]


@st.composite
def _mixed(draw: st.DrawFn, name: str) -> list[StoredCheck]:
    runs = draw(st.lists(st.tuples(st.lists(_records(), max_size=3), st.sampled_from(["one", "two"])), max_size=7))
    return [
        check
        for index, (records, cpu) in enumerate(runs)
        for check in launch(*records, run=str(index), commit=name, cpu=cpu)
    ]


def _commits(name: str) -> st.SearchStrategy[list[StoredCheck]]:
    return st.one_of(_mixed(name), _judged(name))


def _outcomes(comparison: Comparison, *swapped: tuple[Outcome, Outcome]) -> list[tuple[str, str, str, Outcome]]:
    names = dict([*swapped, *((after, before) for before, after in swapped)])
    outcomes = (Outcome.REGRESSION, Outcome.WORSE, Outcome.IMPROVEMENT, Outcome.BETTER, Outcome.CHANGED)
    rows = [row for row in comparison.rows if row.outcome in outcomes]
    # A renamed test goes by the name at the head, which is the other one when the sides are swapped.
    either = {each.series: "" for each in comparison.renamed}
    return sorted(
        (either.get(each.series, each.series), each.quantity, each.machine, names.get(each.outcome, each.outcome))
        for each in rows
    )


def _no_change(checks: Sequence[StoredCheck]) -> Comparison:
    head = [
        StoredCheck(replace(check.run, id=f"again-{check.run.id}", commit="again"), check.record) for check in checks
    ]
    return compare(checks, head)


@settings(max_examples=40)
@given(_commits("base"))
def test_nothing_differs_from_itself(checks: list[StoredCheck]) -> None:
    """No row changed, and no test was added, removed or renamed, however much its launches vary."""
    result = _no_change(checks)
    assert result.changed == ()
    assert (result.added, result.removed, result.renamed) == ((), (), ())
    for strict in (False, True):
        assert replace(result, strict=strict, full_suite=True).verdict is not Word.REGRESSION


@settings(max_examples=40)
@given(_commits("base"), _commits("head"))
def test_base_and_head_swapped_turn_every_change_round(base: list[StoredCheck], head: list[StoredCheck]) -> None:
    """A regression is an improvement, worse is better, and added is removed."""
    there, back = compare(base, head), compare(head, base)
    pairs = ((Outcome.REGRESSION, Outcome.IMPROVEMENT), (Outcome.WORSE, Outcome.BETTER))
    assert _outcomes(there) == _outcomes(back, *pairs)
    assert {each.series for each in there.added} == {each.series for each in back.removed}
    assert there.family == back.family


@settings(max_examples=30)
@given(_commits("base"), _commits("head"))
def test_every_row_is_within_its_own_bounds(base: list[StoredCheck], head: list[StoredCheck]) -> None:
    """P after Holm is no smaller than before; what gates by a test is at most at the level; changes are traced."""
    result = compare(base, head)
    for row in result.rows:
        assert (row.p is None) == (row.p_adjusted is None)
        if row.p is not None and row.p_adjusted is not None:
            assert row.p <= row.p_adjusted <= 1.0
            if row.outcome in (Outcome.REGRESSION, Outcome.IMPROVEMENT):
                assert row.p_adjusted <= result.alpha
        assert row.changed or row.differs == ()


@settings(max_examples=30)
@given(_commits("base"), _commits("head"), st.integers(0, 12))
def test_another_series_hides_no_regression_but_through_holm(
    base: list[StoredCheck], head: list[StoredCheck], lost: int
) -> None:
    """Facts stay what they are; a tested score stays a regression, unless its p after Holm is above the level.

    Latencies are left out: what all series share tells a machine from a change.
    """
    alone = compare(base, head)
    other = replace(record_of("tests/test_other.py::test_other"), model="other")
    more = compare(
        [*base, *launch(other, run="other", commit="base")],
        [*head, *launch(answered(other, answers(range(lost))), run="other", commit="head")],
    )
    after = {(row.series, row.quantity, row.machine): row for row in more.rows}
    for regression in alone.select_rows(Outcome.REGRESSION):
        if regression.quantity in ("speedup", "p50"):
            continue
        again = after[regression.series, regression.quantity, regression.machine]
        if again.outcome is not Outcome.REGRESSION:
            assert again.p == regression.p is not None
            assert again.p_adjusted is not None
            assert again.p_adjusted > more.alpha
