"""What deserves a line of its own is said below the table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_quant.record import Record, from_json, to_json
from pytest_quant.report.junit import junit_properties
from pytest_quant.report.summary import summary
from pytest_quant.result import Interval, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.latency import latency_verdicts
from tests.unit.record.examples import ACCURACY, COVERAGE, LATENCY, NODEID, a_check, a_pass, a_record, unavailable
from tests.unit.record.strategies import records
from tests.unit.verdict.test_latency import OFF, off, timed


def test_the_first_line_counts_every_status() -> None:
    """Only those that occur."""
    first = summary([a_record(), a_pass(), a_pass(), unavailable()]).splitlines()[0]
    assert first == "4 checks: 2 PASS, 1 UNAVAILABLE, 1 FAIL"


def test_expected_failures_are_counted_apart() -> None:
    """A run that is green as a whole does not say FAIL."""
    first = summary([a_record(), a_pass()], expected={NODEID}).splitlines()[0]
    assert first == "2 checks: 1 PASS, 1 XFAIL"


def test_what_did_not_run_is_said_loudly() -> None:
    """Once for each reason, with the fix."""
    (line,) = [line for line in summary([unavailable(), unavailable()]).splitlines() if line.startswith("UNAV")]
    assert "2 checks NOT RUN" in line
    assert "pip install onnxruntime-gpu" in line


def test_simulations_are_counted() -> None:
    """One line for all of them, in the JUnit properties too, and no word of it where there is none."""
    simulated = a_record(accuracy=replace(ACCURACY, simulated=True))
    lines = summary([simulated, simulated, a_pass()]).splitlines()
    assert "SIMULATED: 2 checks judged by float simulation; nothing of them ran on the device" in lines
    assert ("quant.simulated", "true") in junit_properties(simulated)
    assert "SIMULATED" not in summary([a_pass()])
    assert "quant.simulated" not in dict(junit_properties(a_pass()))


def test_the_cache_says_what_it_saved() -> None:
    """Checks that never came to be count for nothing."""
    lines = summary([a_record(), a_pass(), a_pass(), unavailable()]).splitlines()
    assert lines[-1] == "1 engine built, 2 from cache; 1 reference evaluated, 2 from cache"
    assert "cache" not in summary([unavailable()])


def test_an_improvement_is_listed() -> None:
    """A candidate that scores better than FP32; equal is not better."""
    better = a_record(accuracy=replace(ACCURACY, candidate=97.9, drop=-0.12))
    assert "better than FP32: digits ort-int8-static: top1 97.78 -> 97.90 %" in summary([better]).splitlines()
    equal = a_record(accuracy=replace(ACCURACY, candidate=97.78, drop=0.0))
    assert "better" not in summary([equal])


@pytest.mark.parametrize("status", [Status.INCONCLUSIVE, Status.NO_BASELINE])
def test_a_limit_that_was_not_judged_gives_its_reason(status: Status) -> None:
    """It passed without having been shown to hold."""
    verdict = Verdict("min_speedup", 1.5, 1.6, status, "[1.4, 1.8] encloses 1.5")
    lines = summary([a_record(verdicts=(verdict,), status=status)]).splitlines()
    assert f"{status.value}: digits ort-int8-static: min_speedup: [1.4, 1.8] encloses 1.5" in lines


@pytest.mark.parametrize(
    ("pct", "status", "says"), [(8.25, "PASS", True), (8.25, "FAIL", False), (60.0, "PASS", False)]
)
def test_an_engine_that_passes_mostly_in_float_says_so(pct: float, status: str, says: bool) -> None:
    """Where the column of the table has no room too; a broken limit says it itself."""
    found = replace(COVERAGE, pct=pct, not_quantizable={"Conv": 100.0 - pct})
    verdict = Verdict("min_coverage", 5.0, pct, Status(status), "")
    record = a_record(a_check(scheme="dynamic"), coverage=found, verdicts=(verdict,))
    line = "mostly float: digits ort-int8-dynamic: 8.25 % of MACs ran in int8; dynamic cannot quantize Conv (91.75 %)"
    assert (line in summary([record]).splitlines()) is says
    assert ("mostly float" in summary([record])) is says


def test_a_question_mark_of_the_table_is_explained() -> None:
    """Where no limit on latency does it already."""
    doubtful = replace(LATENCY, reasons=("the A/A null is off",))
    assert "digits ort-int8-static: the A/A null is off" in summary([a_record(latency=doubtful)])


def test_an_off_null_is_told_once_and_not_for_each_limit() -> None:
    """Each open limit says by how much its interval is wider; what the null took is one line of the check."""
    tails = ((50.0, 2.0), (90.0, 2.3))
    verdicts = tuple(
        latency_verdicts(Limits(min_speedup=0.8, max_latency_ms=tails), off(timed(0.79, 0.83), Interval(1.048, 1.064)))
    )
    latency = replace(LATENCY, reasons=(OFF,))
    text = summary([a_record(latency=latency, verdicts=verdicts, status=Status.INCONCLUSIVE)])
    assert text.count("the null is off") == 4
    assert text.count(OFF) == 1
    assert f"timing in doubt (?): digits ort-int8-static: {OFF}" in text.splitlines()


def test_a_mark_without_limits_says_so() -> None:
    """PASS alone would look like a promise."""
    assert "no limit set: digits ort-fp32" in summary(
        [a_record(a_check(precision="fp32", scheme=None), verdicts=(), status=Status.PASS)]
    )
    assert "no limit set" not in summary([a_pass(), unavailable()])


def test_a_long_list_is_cut() -> None:
    """A thousand checks do not scroll the table away."""
    better = a_record(accuracy=replace(ACCURACY, drop=-0.12))
    lines = summary([better] * 30).splitlines()
    assert sum(line.startswith("better") for line in lines) == 10
    assert "... and 20 more of these" in lines


def test_no_records_no_summary() -> None:
    """A run without checks says nothing."""
    assert summary([]) == ""


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(records.map(lambda record: from_json(to_json(record))), min_size=1, max_size=3))
def test_any_summary_is_safe_to_print(kept: list[Record]) -> None:
    """Whatever names and messages hold."""
    assert all(line.isprintable() for line in summary(kept).split("\n"))


def test_properties_are_the_figures_of_the_record() -> None:
    """Full precision, named `quant.*`; what was not measured is left out."""
    properties = dict(junit_properties(a_record()))
    assert properties["quant.status"] == "FAIL"
    assert properties["quant.drop"] == 4.23
    assert (properties["quant.speedup_ci_low"], properties["quant.speedup_ci_high"]) == (1.9012, 1.9888)
    assert properties["quant.cache_engine"] == "built"
    assert "quant.candidate_p99_ms" not in properties


def test_a_check_that_never_came_to_be_has_no_figures() -> None:
    """Its status and what it is."""
    names = {name for name, _ in junit_properties(unavailable())}
    assert names == {f"quant.{name}" for name in ("status", "model", "backend", "precision", "scheme", "batch_size")}


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(records.map(lambda record: from_json(to_json(record))))
def test_properties_have_plain_types(record: Record) -> None:
    """They travel with xdist and end up in XML."""
    properties = junit_properties(record)
    assert all(name.startswith("quant.") and type(value) in (str, int, float) for name, value in properties)
    assert len({name for name, _ in properties}) == len(properties) or record.cache is not None


def test_what_speedups_are_relative_to_is_told_on_devices_with_tf32() -> None:
    """One line for each reference; on other devices FP32 is FP32, and nothing is said."""
    exact, half = replace(LATENCY, tf32=False), replace(LATENCY, reference_precision="fp16")
    rounding = replace(LATENCY, reference_precision="tf32", tf32=True)
    lines = summary([replace(a_record(latency=one), nodeid=str(n)) for n, one in enumerate((exact, exact, half))])
    assert lines.splitlines()[-3:-1] == [
        "latency reference fp32, TF32 off: 2 checks",
        "latency reference fp16: 1 check",
    ]
    assert "latency reference fp32 with TF32: 1 check" in summary([a_record(latency=rounding)])
    assert "latency reference" not in summary([a_record()])
