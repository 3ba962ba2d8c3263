"""Limits on coverage, resources and against a baseline; and the worst of all verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import Baseline, Coverage, Interval, LaunchFigures, Resources, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.stats.launches import Launch, noise_of
from pytest_quant.verdict import worst
from pytest_quant.verdict.baseline import baseline_verdicts
from pytest_quant.verdict.rules import coverage_verdicts, resource_verdicts
from tests.unit.verdict.test_accuracy import TOP1
from tests.unit.verdict.test_latency import off, timed

HALF = Coverage(pct=50.0, unit="MACs", by_op=(), provider="CPUExecutionProvider")
LAUNCHES = tuple(
    LaunchFigures(f"2026-01-{day:02}T12:00:00+00:00", 1.5 * noise, 2.0 / noise, 3.0)
    for day, noise in enumerate((1.0, 0.99, 1 / 0.99) * 4, 1)
)
"""One on each of twelve days, with a standard deviation of 0.86 % around 1.5 and 2 ms."""

DAYS = noise_of([[Launch(math.log(one.speedup or 1.0), one.started_at) for one in LAUNCHES]])

ACCEPTED = Baseline(
    commit="c" * 40,
    drop=0.4,
    speedup=1.5,
    candidate_p50_ms=2.0,
    same_identity=True,
    launches=LAUNCHES,
    p50_launches=LAUNCHES,
    speedup_noise=DAYS,
    p50_noise=DAYS,
    now="2026-02-01T12:00:00+00:00",
)


@pytest.mark.parametrize(
    ("pct", "allowed", "status"),
    [
        (50.0, 50.0, Status.PASS),
        (49.9, 50.0, Status.FAIL),
        (0.0, 50.0, Status.FAIL),
        (0.0, 0.0, Status.FAIL),
        (0.1, 0.0, Status.PASS),
        (None, 50.0, Status.INCONCLUSIVE),
    ],
)
def test_coverage_must_reach_the_limit_and_never_be_zero(pct: float | None, allowed: float, status: Status) -> None:
    """A limit of 0 still asks that something ran quantized."""
    (verdict,) = coverage_verdicts(Limits(min_coverage=allowed), replace(HALF, pct=pct), "static")
    assert verdict.status is status


@pytest.mark.parametrize("pct", [100.0, 50.0, 0.0])
def test_coverage_of_another_product_is_not_judged(pct: float) -> None:
    """Neither way: its figure is told, and the limit stays open."""
    (verdict,) = coverage_verdicts(Limits(min_coverage=50.0), replace(HALF, pct=pct, plan_of="Another"), "static")
    assert (verdict.status, verdict.observed) == (Status.INCONCLUSIVE, None)
    assert verdict.reason == f"not measured: plan of another product (Another); {pct:g} % of MACs there"


def test_a_limit_on_another_products_plan_says_so() -> None:
    """Size and build time are the plan's; memory and energy are missing for a reason of their own."""
    limits = Limits(max_size_mb=1.0, max_memory_mb=1.0, max_build_s=1.0, max_energy_mj=1.0)
    reasons = {one.limit: one.reason for one in resource_verdicts(limits, Resources(plan_of="Another"))}
    of_plan = {name for name, reason in reasons.items() if reason == "not measured: plan of another product (Another)"}
    assert of_plan == {"max_size_mb", "max_build_s"}


DIGITS = replace(HALF, pct=0.91, scheme_pct=100.0, not_quantizable={"Conv": 99.09})
"""A network of convolutions with one dense layer, quantized by a scheme that takes no convolutions."""


@pytest.mark.parametrize(
    ("coverage", "status", "observed", "told"),
    [
        (DIGITS, Status.FAIL, 0.91, "0.91 % is below 5 % of all MACs; of all MACs it cannot quantize Conv (99.09 %)"),
        (replace(DIGITS, pct=4.999), Status.FAIL, 4.999, "4.999 % is below 5 % of all MACs"),
        (replace(DIGITS, unit="nodes"), Status.PASS, 100.0, "of the nodes that the scheme can quantize"),
        (replace(DIGITS, high_pct=4.5), Status.FAIL, 0.91, "0.91 % is below 5 % of all MACs, and 4.5 % with all"),
        (
            replace(DIGITS, high_pct=6.0, not_quantizable={"Conv": 94.0}, scheme_pct=100.0 * 0.91 / 6.0),
            Status.INCONCLUSIVE,
            0.91,
            "0.91 to 6 %, around 5 % of all MACs: 5.09 % of all MACs cannot be seen into",
        ),
        (replace(DIGITS, pct=5.0, scheme_pct=50.0), Status.PASS, 50.0, "reaches 50 %"),
        (
            replace(DIGITS, pct=9.0, not_quantizable={"Conv": 91.0}),
            Status.PASS,
            100.0,
            "of the MACs that the scheme can quantize; of all MACs it cannot quantize Conv (91 %)",
        ),
        (replace(DIGITS, scheme_pct=0.24), Status.FAIL, 0.24, "0.24 % is below 50 % of the MACs that the scheme can"),
        (
            replace(DIGITS, pct=0.0, scheme_pct=None, not_quantizable={"Conv": 100.0}),
            Status.FAIL,
            0.0,
            "the scheme can quantize nothing of this model; of all MACs it leaves Conv (100 %) in float",
        ),
        (replace(HALF, scheme_pct=None), Status.PASS, 50.0, "reaches 50"),
        (replace(HALF, pct=49.0, scheme_pct=None), Status.FAIL, 49.0, "is below 50"),
        (replace(HALF, pct=None), Status.INCONCLUSIVE, None, "no node that could be quantized"),
        (replace(HALF, pct=None, opaque_nodes=2), Status.INCONCLUSIVE, None, "2 nodes that cannot be seen into"),
    ],
)
def test_the_default_of_partial_schemes_is_half_of_what_they_can_and_some_of_all(
    coverage: Coverage, status: Status, observed: float | None, told: str
) -> None:
    """What it cannot quantize is named; one that can next to nothing fails; who does not tell is judged on all."""
    (verdict,) = coverage_verdicts(Limits(default_min_coverage=50), coverage, "dynamic")
    assert (verdict.limit, verdict.status, verdict.observed) == ("min_coverage", status, observed)
    assert told in verdict.reason


def test_the_default_of_whole_schemes_is_half_of_all_compute() -> None:
    """An engine of a static scheme that left convolutions in float is not excused by what another scheme cannot."""
    (verdict,) = coverage_verdicts(Limits(default_min_coverage=50), DIGITS, "static")
    assert (verdict.status, verdict.observed) == (Status.FAIL, 0.91)


def test_what_the_mark_sets_is_of_all_compute() -> None:
    """Nine tenths of everything is asked for, and a scheme that cannot reach it fails."""
    (verdict,) = coverage_verdicts(Limits(min_coverage=90.0), DIGITS, "dynamic")
    assert (verdict.status, verdict.observed) == (Status.FAIL, 0.91)
    (verdict,) = coverage_verdicts(Limits(min_coverage=0.5, default_min_coverage=50), DIGITS, "dynamic")
    assert (verdict.status, verdict.observed, verdict.implicit) == (Status.PASS, 0.91, False)


def exactly(figure: float | None) -> Interval | None:
    """An interval without width."""
    return None if figure is None else Interval(figure, figure)


@pytest.mark.parametrize(
    ("limits", "resources"),
    [
        (Limits(max_size_mb=10.0), lambda figure: Resources(size_mb=figure)),
        (Limits(max_memory_mb=10.0), lambda figure: Resources(run_memory_mb=figure)),
        (Limits(max_build_s=10.0), lambda figure: Resources(build_s=figure)),
        (Limits(max_energy_mj=10.0), lambda figure: Resources(energy_mj=figure, energy_mj_ci=exactly(figure))),
    ],
)
def test_each_resource_has_its_own_limit(limits: Limits, resources: Callable[[float | None], Resources]) -> None:
    """A figure above the limit fails, one within it passes, a missing one is inconclusive."""
    for observed, status in ((9.0, Status.PASS), (11.0, Status.FAIL), (None, Status.INCONCLUSIVE)):
        (verdict,) = resource_verdicts(limits, resources(observed))
        assert verdict.status is status


def test_without_a_baseline_history_limits_say_so() -> None:
    """NO_BASELINE is neither a pass nor a failure, and names the command that gives one."""
    limits = Limits(max_slowdown=5, max_drop_increase=0.5)
    verdicts = list(baseline_verdicts(limits, TOP1, timed(1.4, 1.6), None))
    assert [verdict.status for verdict in verdicts] == [Status.NO_BASELINE, Status.NO_BASELINE]
    assert all(verdict.reason.endswith("accept a record: pytest-quant accept") for verdict in verdicts)


def test_a_baseline_of_another_machine_gives_no_slowdown() -> None:
    """Latency compares within one identity only."""
    other = replace(ACCEPTED, same_identity=False)
    (verdict,) = baseline_verdicts(Limits(max_slowdown=5), TOP1, timed(1.4, 1.6), other)
    assert verdict.status is Status.NO_BASELINE


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [(1.49, 1.51, Status.PASS), (1.2, 1.3, Status.FAIL), (1.40, 1.45, Status.INCONCLUSIVE)],
)
def test_slowdown_is_the_share_of_the_speedup_that_is_lost(low: float, high: float, status: Status) -> None:
    """A speedup of 1.25 against 1.5 is a slowdown of 20 %."""
    (verdict,) = baseline_verdicts(Limits(max_slowdown=5), TOP1, timed(low, high), ACCEPTED)
    assert verdict.status is status
    assert verdict.observed == pytest.approx(100 * (1.5 / ((low + high) / 2) - 1))


def test_a_named_reason_decides_no_slowdown() -> None:
    """Numbers that are not to be trusted prove no slowdown."""
    (verdict,) = baseline_verdicts(Limits(max_slowdown=5), TOP1, timed(1.2, 1.3, reasons=("too few rounds",)), ACCEPTED)
    assert verdict.status is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("allowed", "status"), [(40, Status.PASS), (15, Status.INCONCLUSIVE), (25, Status.INCONCLUSIVE), (5, Status.FAIL)]
)
def test_a_slowdown_far_from_its_limit_is_decided_beside_an_off_null(allowed: float, status: Status) -> None:
    """A slowdown of 20 %, beside sessions that lie 6.4 % apart, is more than 5 and less than 40 %."""
    beside = off(timed(1.24, 1.26), Interval(1.048, 1.064))
    (verdict,) = baseline_verdicts(Limits(max_slowdown=allowed), TOP1, beside, ACCEPTED)
    assert verdict.status is status
    assert verdict.reason.endswith("; the interval is 6.4 % wider to either side, for the null is off")


@given(drop=st.floats(-50, 50), before=st.floats(-50, 50))
def test_drop_increase_is_the_difference_of_the_drops(drop: float, before: float) -> None:
    """A drop of 0.5 after one of 0.4 increased by 0.1."""
    (verdict,) = baseline_verdicts(
        Limits(max_drop_increase=1000), replace(TOP1, drop=drop), None, replace(ACCEPTED, drop=before)
    )
    assert verdict.observed == drop - before


@given(statuses=st.lists(st.sampled_from(list(Status))))
def test_the_worst_verdict_is_the_status(statuses: list[Status]) -> None:
    """ERROR before FAIL before UNAVAILABLE before INCONCLUSIVE before NO_BASELINE before PASS."""
    order = ["ERROR", "FAIL", "UNAVAILABLE", "INCONCLUSIVE", "NO_BASELINE", "PASS"]
    expected = next((word for word in order if word in statuses), "PASS")
    assert worst([Verdict("x", None, None, status, "") for status in statuses]) == expected
