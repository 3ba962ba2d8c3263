"""Figures against limits: the two rules, and the verdicts on coverage and resources whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import Coverage, Interval, Resources, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict import worst
from pytest_quant.verdict.rules import (
    coverage_verdicts,
    judge_by_interval,
    judge_by_value,
    resource_verdicts,
)
from tests.unit.verdict.test_accuracy_limits import in_words

PASS, FAIL, INCONCLUSIVE = Status.PASS, Status.FAIL, Status.INCONCLUSIVE
HALF = Coverage(pct=50.0, unit="MACs", by_op=(), provider="CPUExecutionProvider")

DIGITS = replace(HALF, pct=0.91, scheme_pct=100.0, not_quantizable={"Conv": 99.09})
"""A network of convolutions with one dense layer, quantized by a scheme that takes no convolutions."""

EMPTY = replace(DIGITS, scheme_pct=None, not_quantizable={"Conv": 75.0, "Add": 25.0})
PART = "50 % of the MACs that the scheme can quantize"
OF_COVERAGE = [
    (HALF, "PASS 50.0: 50% of MACs reaches 50% of MACs"),
    (replace(HALF, pct=0.0), "FAIL 0.0: no MACs ran in the asked precision on CPUExecutionProvider"),
    (
        replace(HALF, pct=None, opaque_nodes=3),
        "INCONCLUSIVE None: not measured: all compute is in 3 nodes that cannot be seen into",
    ),
    (
        replace(HALF, pct=None),
        "INCONCLUSIVE None: not measured: the graph has no node that could be quantized",
    ),
    (DIGITS, "FAIL 0.91: 0.91 % is below 5 % of all MACs; of all MACs it cannot quantize Conv (99.09 %)"),
    (
        replace(DIGITS, pct=20.0, not_quantizable={"GRU": 80.0}),
        "PASS 100.0: 100 % reaches 50 % of the MACs that the scheme can quantize; of all MACs it cannot quantize "
        "GRU (80 %)",
    ),
    (
        replace(DIGITS, pct=20.0, scheme_pct=40.0, not_quantizable={"GRU": 50.0}),
        f"FAIL 40.0: 40 % is below {PART}; of all MACs it cannot quantize GRU (50 %)",
    ),
    (replace(HALF, pct=49.0, scheme_pct=None), "FAIL 49.0: 49% of MACs is below 50% of MACs"),
    (
        replace(DIGITS, pct=5.0, scheme_pct=50.0, not_quantizable={"Conv": 90.0}),
        f"PASS 50.0: 50 % reaches {PART}; of all MACs it cannot quantize Conv (90 %)",
    ),
    (
        replace(DIGITS, high_pct=4.5, scheme_pct=100.0 * 0.91 / 4.5, not_quantizable={"Conv": 95.5}),
        "FAIL 0.91: 0.91 % is below 5 % of all MACs, and 4.5 % with all of the 3.59 % that cannot be seen into; "
        "of all MACs it cannot quantize Conv (95.5 %)",
    ),
    (
        replace(DIGITS, high_pct=6.0, scheme_pct=100.0 * 0.91 / 6.0, not_quantizable={"Conv": 94.0}),
        "INCONCLUSIVE 0.91: 0.91 to 6 %, around 5 % of all MACs: 5.09 % of all MACs cannot be seen into; "
        "of all MACs it cannot quantize Conv (94 %)",
    ),
    (
        replace(DIGITS, unit="nodes"),
        "PASS 100.0: 100 % reaches 50 % of the nodes that the scheme can quantize; of all nodes it "
        "cannot quantize Conv (99.09 %)",
    ),
    (
        DIGITS,
        "FAIL 0.91: 0.91 % is below 5 % of all MACs; of all MACs it cannot quantize Conv (99.09 %)",
    ),
    (
        replace(HALF, pct=20.0, scheme_pct=25.0, not_quantizable={"Conv": 20.0}),
        f"FAIL 25.0: 25 % is below {PART}; of all MACs it cannot quantize Conv (20 %)",
    ),
    (
        EMPTY,
        "FAIL 0.0: the scheme can quantize nothing of this model; of all MACs it leaves Conv (75 %), "
        "Add (25 %) in float",
    ),
    (
        replace(DIGITS, plan_of="X"),
        "INCONCLUSIVE None: not measured: plan of another product (X); 0.91 % of MACs there",
    ),
    (replace(HALF, high_pct=75.0), "PASS 50.0: 50% of MACs reaches 50% of MACs"),
    (
        replace(HALF, pct=12.0, high_pct=30.0),
        "FAIL 12.0: 12% of MACs is below 50% of MACs, and 30 % with all of the 18 % that cannot be seen into",
    ),
    (
        replace(HALF, pct=1.0, high_pct=99.0),
        "INCONCLUSIVE 1.0: 1 to 99% of MACs, around 50% of MACs: 98 % cannot be seen into",
    ),
    (
        Coverage(10.0, "MACs", (), "x", scheme_pct=20.0, not_quantizable={"Conv": 50.0}, high_pct=40.0),
        "INCONCLUSIVE 20.0: 20 to 80 %, around 50 % of the MACs that the scheme can quantize: 30 % of"
        " all MACs cannot be seen into; of all MACs it cannot quantize Conv (50 %)",
    ),
]


@pytest.mark.parametrize(
    ("limit", "text"),
    [(0.9999999, "0.9999999"), (1.0, "1.0"), (1, "1"), (99, "99"), (0.05, "0.05"), (1e6, "1000000.0")],
)
def test_a_limit_is_written_as_in_the_mark(limit: float, text: str) -> None:
    """0.9999999 is not 1, and 1 is not 1.0."""
    assert f" {text} pp" in judge_by_value("max_drop", limit, 200.0, " pp").reason


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
def test_a_broken_limit_differs_from_the_figure_that_breaks_it(allowed: float, observed: float) -> None:
    """A figure that is rounded to the limit, or beyond it, explains nothing."""
    for limit in ("max_drop", "min_ratio"):
        verdict = judge_by_value(limit, allowed, observed, "")
        first, *_, last = verdict.reason.split()
        assert float(last) == allowed
        below = limit == "min_ratio"
        assert verdict.status is PASS or (float(first) < allowed if below else float(first) > allowed)


_ENDS = st.none() | st.floats(-1e6, 1e6)


@given(low=_ENDS, high=_ENDS, allowed=st.floats(-1e6, 1e6), is_least=st.booleans())
def test_an_interval_decides_where_it_lies_on_one_side(
    low: float | None, high: float | None, allowed: float, is_least: bool
) -> None:
    """An end on the limit itself is within it; an end that is not known decides nothing."""
    name = "min_speedup" if is_least else "max_slowdown"
    verdict = judge_by_interval(name, allowed, None, (low, high), figure="f", bound="b", if_open="; more")
    inner, outer = (low, high) if is_least else (high, low)
    sign = -1 if is_least else 1
    if inner is not None and sign * inner <= sign * allowed:
        expected = PASS, "f reaches b" if is_least else "f lies within b"
    elif outer is not None and sign * outer > sign * allowed:
        expected = FAIL, "f lies below b" if is_least else "f lies above b"
    else:
        expected = INCONCLUSIVE, "f encloses b; more"
    assert (verdict.status, verdict.reason) == expected


@pytest.mark.parametrize(("coverage", "said"), OF_COVERAGE)
def test_coverage(coverage: Coverage, said: str) -> None:
    """The unit and the provider are told; the default limit is marked as one that nobody set."""
    (result,) = coverage_verdicts(Limits(default_min_coverage=50), coverage)
    assert (result.limit, result.allowed, result.implicit) == ("min_coverage", 5 if "5 % of all" in said else 50, True)
    assert in_words(result) == said


def test_coverage_that_the_mark_asks_for() -> None:
    """It takes the place of the default, and is the user's own."""
    result = list(coverage_verdicts(Limits(min_coverage=25, default_min_coverage=50), HALF))
    assert result == [Verdict("min_coverage", 25, 50.0, PASS, "50% of MACs reaches 25% of MACs")]
    assert list(coverage_verdicts(Limits(default_min_coverage=None), HALF)) == []


@given(low=st.floats(0, 100), more=st.floats(0, 100), allowed=st.floats(0, 100))
def test_a_verdict_on_bounds_is_one_that_both_ends_share(low: float, more: float, allowed: float) -> None:
    """What PASS or FAIL says holds wherever between its bounds the figure lies; else it is INCONCLUSIVE."""
    high = min(100.0, low + more)

    def status(coverage: Coverage) -> Status:
        (result,) = coverage_verdicts(Limits(min_coverage=allowed), coverage)
        return result.status

    ends = {status(replace(HALF, pct=low)), status(replace(HALF, pct=high))}
    expected = ends.pop() if len(ends) == 1 else INCONCLUSIVE
    assert status(replace(HALF, pct=low, high_pct=high)) is expected


def test_resources() -> None:
    """Each with its own unit, in the order of the mark's table; memory is what preparing and running add."""
    limits = Limits(max_size_mb=2.5, max_memory_mb=20, max_build_s=3.0, max_energy_mj=4.0)
    result = Resources(size_mb=2.5, run_memory_mb=30.0, build_s=3.5, energy_mj=1.0, energy_mj_ci=Interval(0.98, 1.02))
    assert list(resource_verdicts(limits, result)) == [
        Verdict("max_size_mb", 2.5, 2.5, PASS, "2.5 MB is within 2.5 MB"),
        Verdict("max_memory_mb", 20, result.peak_memory_mb, FAIL, "30 MB is above 20 MB"),
        Verdict("max_build_s", 3.0, 3.5, FAIL, "3.5 s is above 3.0 s"),
        Verdict("max_energy_mj", 4.0, 1.0, PASS, "1 [0.98, 1.02] mJ lies within 4.0 mJ"),
    ]
    assert [(verdict.limit, verdict.reason) for verdict in resource_verdicts(limits, Resources(plan_of="X"))] == [
        ("max_size_mb", "not measured: plan of another product (X)"),
        ("max_memory_mb", "not measured: this backend or machine does not report it"),
        ("max_build_s", "not measured: plan of another product (X)"),
        ("max_energy_mj", "not measured: this backend or machine does not report it"),
    ]
    assert {each.reason for each in resource_verdicts(limits, Resources())} == {
        "not measured: this backend or machine does not report it"
    }
    assert list(resource_verdicts(Limits(), result)) == []


def test_energy_of_what_was_not_timed_says_why() -> None:
    """The other resources are found without timing."""
    limits = Limits(max_memory_mb=20, max_energy_mj=4.0)
    assert [verdict.reason for verdict in resource_verdicts(limits, Resources(), "--quant-no-latency is set")] == [
        "not measured: this backend or machine does not report it",
        "not measured: --quant-no-latency is set",
    ]


@pytest.mark.parametrize(
    ("span", "status", "reason"),
    [
        (Interval(11.0, 12.0), PASS, "11.5 [11, 12] mJ lies within 12.0 mJ"),
        (Interval(11.0, 12.5), INCONCLUSIVE, "11.5 [11, 12.5] mJ encloses 12.0 mJ"),
        (Interval(11.0, 13.0), INCONCLUSIVE, "11.5 [11, 13] mJ encloses 12.0 mJ"),
        (Interval(12.25, 13.0), FAIL, "11.5 [12.25, 13] mJ lies above 12.0 mJ"),
        (None, INCONCLUSIVE, "11.5 mJ was measured once, which gives no interval"),
    ],
)
def test_energy_is_judged_on_its_interval(span: Interval | None, status: Status, reason: str) -> None:
    """It is never a fact: what one more measurement could turn round is not decided."""
    (result,) = resource_verdicts(Limits(max_energy_mj=12.0), Resources(energy_mj=11.5, energy_mj_ci=span))
    assert result == Verdict("max_energy_mj", 12.0, 11.5, status, reason)


@pytest.mark.parametrize(
    ("pct", "allowed", "status"), [(49.9, 50.0, FAIL), (0.0, 0.0, FAIL), (0.1, 0.0, PASS), (None, 50.0, INCONCLUSIVE)]
)
def test_coverage_must_reach_the_limit_and_never_be_zero(pct: float | None, allowed: float, status: Status) -> None:
    """A limit of 0 still asks that something ran quantized; that of another product is judged neither way."""
    (verdict,) = coverage_verdicts(Limits(min_coverage=allowed), replace(HALF, pct=pct))
    assert verdict.status is status
    (verdict,) = coverage_verdicts(Limits(min_coverage=allowed), replace(HALF, pct=pct, plan_of="X"))
    assert (verdict.status, verdict.observed) == (INCONCLUSIVE, None)


def test_what_the_mark_sets_is_of_all_compute() -> None:
    """Nine tenths of everything is asked for, and a scheme that cannot reach it fails."""
    (verdict,) = coverage_verdicts(Limits(min_coverage=90.0), DIGITS)
    assert (verdict.status, verdict.observed) == (FAIL, 0.91)
    (verdict,) = coverage_verdicts(Limits(min_coverage=0.5, default_min_coverage=50), DIGITS)
    assert (verdict.status, verdict.observed, verdict.implicit) == (PASS, 0.91, False)


@given(statuses=st.lists(st.sampled_from(list(Status))))
def test_the_worst_verdict_is_the_status(statuses: list[Status]) -> None:
    """ERROR before FAIL before UNAVAILABLE before INCONCLUSIVE before NO_BASELINE before PASS."""
    order = ["ERROR", "FAIL", "UNAVAILABLE", "INCONCLUSIVE", "NO_BASELINE", "PASS"]
    expected = next((word for word in order if word in statuses), "PASS")
    assert worst([Verdict("x", None, None, status, "") for status in statuses]) == expected
