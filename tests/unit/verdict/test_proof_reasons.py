"""Each verdict on coverage and resources whole, and the sentence that the reader gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import Coverage, Interval, Resources, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.rules import coverage_verdicts, resource_verdicts
from tests.unit.verdict.test_proof import DIGITS, HALF

PASS, FAIL, INCONCLUSIVE = Status.PASS, Status.FAIL, Status.INCONCLUSIVE
EMPTY = replace(DIGITS, scheme_pct=None, not_quantizable={"Conv": 75.0, "Add": 25.0})
OF_COVERAGE = [
    (HALF, "static", 50.0, PASS, "50% of MACs reaches 50% of MACs"),
    (replace(HALF, pct=0.0), "static", 0.0, FAIL, "no MACs ran in the asked precision on CPUExecutionProvider"),
    (
        replace(HALF, pct=None, opaque_nodes=3),
        "static",
        None,
        INCONCLUSIVE,
        "not measured: all compute is in 3 nodes that cannot be seen into",
    ),
    (
        replace(HALF, pct=None),
        "static",
        None,
        INCONCLUSIVE,
        "not measured: the graph has no node that could be quantized",
    ),
    (
        replace(HALF, pct=None, plan_of="X"),
        "static",
        None,
        INCONCLUSIVE,
        "not measured: the graph has no node that could be quantized",
    ),
    (
        replace(DIGITS, unit="nodes"),
        "weight-only",
        100.0,
        PASS,
        "100 % reaches 50 % of the nodes that the scheme can quantize; of all nodes it cannot quantize Conv (99.09 %)",
    ),
    (
        DIGITS,
        "weight-only",
        0.91,
        FAIL,
        "0.91 % is below 5 % of all MACs; of all MACs it cannot quantize Conv (99.09 %)",
    ),
    (
        replace(HALF, scheme_pct=25.0),
        "dynamic",
        25.0,
        FAIL,
        "25 % is below 50 % of the MACs that the scheme can quantize",
    ),
    (
        EMPTY,
        "dynamic",
        0.0,
        FAIL,
        "the scheme can quantize nothing of this model; of all MACs it leaves Conv (75 %), Add (25 %) in float",
    ),
    (
        replace(DIGITS, plan_of="X"),
        "dynamic",
        None,
        INCONCLUSIVE,
        "not measured: plan of another product (X); 0.91 % of MACs there",
    ),
    (replace(HALF, high_pct=75.0), "static", 50.0, PASS, "50% of MACs reaches 50% of MACs"),
    (
        replace(HALF, pct=12.0, high_pct=30.0),
        "static",
        12.0,
        FAIL,
        "12% of MACs is below 50% of MACs, and 30 % with all of the 18 % that cannot be seen into",
    ),
    (
        replace(HALF, pct=1.0, high_pct=99.0),
        "static",
        1.0,
        INCONCLUSIVE,
        "1 to 99% of MACs, around 50% of MACs: 98 % cannot be seen into",
    ),
    (
        Coverage(10.0, "MACs", (), "x", scheme_pct=20.0, not_quantizable={"Conv": 50.0}, high_pct=40.0),
        "dynamic",
        20.0,
        INCONCLUSIVE,
        "20 to 80 %, around 50 % of the MACs that the scheme can quantize: 30 % of all MACs cannot be seen into; "
        "of all MACs it cannot quantize Conv (50 %)",
    ),
]


@pytest.mark.parametrize(("coverage", "scheme", "observed", "status", "reason"), OF_COVERAGE)
def test_coverage(coverage: Coverage, scheme: str, observed: float | None, status: Status, reason: str) -> None:
    """The unit and the provider are told; the default limit is marked as one that nobody set."""
    found = list(coverage_verdicts(Limits(default_min_coverage=50), coverage, scheme))
    allowed = 5 if "5 % of all" in reason else 50
    assert found == [Verdict("min_coverage", allowed, observed, status, reason, implicit=True)]


def test_coverage_that_the_mark_asks_for() -> None:
    """It takes the place of the default, and is the user's own."""
    found = list(coverage_verdicts(Limits(min_coverage=25, default_min_coverage=50), HALF, "static"))
    assert found == [Verdict("min_coverage", 25, 50.0, PASS, "50% of MACs reaches 25% of MACs")]
    assert list(coverage_verdicts(Limits(default_min_coverage=None), HALF, "static")) == []


@given(low=st.floats(0, 100), more=st.floats(0, 100), allowed=st.floats(0, 100))
def test_a_verdict_on_bounds_is_one_that_both_ends_share(low: float, more: float, allowed: float) -> None:
    """What PASS or FAIL says holds wherever between its bounds the figure lies; else it is INCONCLUSIVE."""
    high = min(100.0, low + more)

    def status(coverage: Coverage) -> Status:
        (found,) = coverage_verdicts(Limits(min_coverage=allowed), coverage, "static")
        return found.status

    ends = {status(replace(HALF, pct=low)), status(replace(HALF, pct=high))}
    expected = ends.pop() if len(ends) == 1 else INCONCLUSIVE
    assert status(replace(HALF, pct=low, high_pct=high)) is expected


def test_resources() -> None:
    """Each with its own unit, in the order of the mark's table; memory is what preparing and running add."""
    limits = Limits(max_size_mb=2.5, max_memory_mb=20, max_build_s=3.0, max_energy_mj=4.0)
    found = Resources(size_mb=2.5, run_memory_mb=30.0, build_s=3.5, energy_mj=1.0, energy_mj_ci=Interval(0.98, 1.02))
    assert list(resource_verdicts(limits, found)) == [
        Verdict("max_size_mb", 2.5, 2.5, PASS, "2.5 MB is within 2.5 MB"),
        Verdict("max_memory_mb", 20, found.peak_memory_mb, FAIL, "30 MB is above 20 MB"),
        Verdict("max_build_s", 3.0, 3.5, FAIL, "3.5 s is above 3.0 s"),
        Verdict("max_energy_mj", 4.0, 1.0, PASS, "1 [0.98, 1.02] mJ lies within 4.0 mJ"),
    ]
    assert [(one.limit, one.reason) for one in resource_verdicts(limits, Resources(plan_of="X"))] == [
        ("max_size_mb", "not measured: plan of another product (X)"),
        ("max_memory_mb", "not measured: this backend or machine does not tell"),
        ("max_build_s", "not measured: plan of another product (X)"),
        ("max_energy_mj", "not measured: this backend or machine does not tell"),
    ]
    assert {one.reason for one in resource_verdicts(limits, Resources())} == {
        "not measured: this backend or machine does not tell"
    }
    assert list(resource_verdicts(Limits(), found)) == []


def test_energy_of_what_was_not_timed_says_why() -> None:
    """The other resources are found without timing."""
    limits = Limits(max_memory_mb=20, max_energy_mj=4.0)
    assert [one.reason for one in resource_verdicts(limits, Resources(), "--quant-no-latency is set")] == [
        "not measured: this backend or machine does not tell",
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
    (found,) = resource_verdicts(Limits(max_energy_mj=12.0), Resources(energy_mj=11.5, energy_mj_ci=span))
    assert found == Verdict("max_energy_mj", 12.0, 11.5, status, reason)
