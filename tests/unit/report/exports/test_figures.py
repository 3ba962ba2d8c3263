"""The figures that other tools draw are those of the record, each once, with its unit and its direction."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from pytest_quant.record import PercentileBound, Record
from pytest_quant.report.exports.figures import Figure, check_name, figures_of, one_each
from pytest_quant.result import Interval, Resources, Status
from tests.unit.record.examples import ACCURACY, LATENCY, RESOURCES, a_pass, a_record, unavailable
from tests.unit.report.exports.kept import kept_records


def test_each_figure_has_its_unit_direction_and_interval() -> None:
    """As the record of a check with everything has them."""
    found = {one.name: one for one in figures_of(a_record())}
    assert found == {
        "latency": Figure("latency", "ms", "lower", 0.2345, 0.2301, 0.2389),
        "speedup": Figure("speedup", "x", "higher", 1.9475, 1.9012, 1.9888),
        "score": Figure("score", "%", "higher", 93.55),
        "drop": Figure("drop", "pp", "lower", 4.23, 3.18, 5.31),
        "agreement": Figure("agreement", "%", "higher", 94.83),
        "SQNR": Figure("SQNR", "dB", "higher", 21.37),
        "coverage": Figure("coverage", "%", "higher", 87.5),
        "size": Figure("size", "MB", "lower", 0.0456),
        "memory": Figure("memory", "MB", "lower", 12.5),
        "build time": Figure("build time", "s", "lower", 1.25),
    }


def test_a_metric_where_lower_is_better_is_told_as_such() -> None:
    """Its score goes where lower is better, and its drop is in its own unit."""
    record = a_record(accuracy=replace(ACCURACY, metric="wer", unit="words", better="lower"))
    found = {one.name: one for one in figures_of(record)}
    assert (found["score"].better, found["score"].unit) == ("lower", "words")
    assert (found["drop"].better, found["drop"].unit) == ("lower", "words")


def test_energy_has_the_interval_that_was_measured() -> None:
    """Only where a limit asked for it."""
    rough = a_record(resources=Resources(energy_mj=3.5))
    measured = a_record(resources=replace(RESOURCES, energy_mj=3.5, energy_mj_ci=Interval(3.1, 3.9)))
    energy = {one.name: one for one in (*figures_of(rough), *figures_of(measured))}["energy"]
    assert energy == Figure("energy", "mJ", "lower", 3.5, 3.1, 3.9)
    assert {one.low for one in figures_of(rough) if one.name == "energy"} == {None}


def test_what_was_not_measured_is_no_figure() -> None:
    """Neither a zero nor an entry; a check without labels has no score."""
    assert figures_of(unavailable()) == ()
    unlabelled = replace(ACCURACY, metric=None, unit=None, better=None, reference=None, candidate=None, drop=None)
    names = {one.name for one in figures_of(a_record(accuracy=unlabelled, latency=None))}
    assert not names & {"score", "drop", "latency", "speedup"}


def test_one_side_of_an_interval_may_be_unknown() -> None:
    """As too few runs leave it."""
    latency = replace(LATENCY, percentile_bounds_ms=((50.0, 0.2, None),))
    assert {(one.low, one.high) for one in figures_of(a_record(latency=latency)) if one.name == "latency"} == {
        (0.2, None)
    }


@settings(max_examples=30)
@given(kept_records)
def test_no_figure_is_changed_on_its_way(record: Record) -> None:
    """Value and interval are numbers that the record holds, at the places they are named after."""
    found = {one.name: one for one in figures_of(record)}
    assert len(found) == len(figures_of(record))
    accuracy, latency = record.accuracy, record.latency
    expected = {
        "score": accuracy.candidate if accuracy and accuracy.better else None,
        "drop": accuracy.drop if accuracy and accuracy.better else None,
        "agreement": accuracy.agreement_pct if accuracy else None,
        "SQNR": accuracy.sqnr_db if accuracy else None,
        "latency": latency.candidate_p50_ms if latency else None,
        "speedup": latency.speedup if latency else None,
        "coverage": record.coverage.pct if record.coverage else None,
        "size": record.resources.size_mb if record.resources else None,
        "memory": record.resources.peak_memory_mb if record.resources else None,
        "build time": record.resources.build_s if record.resources else None,
        "energy": record.resources.energy_mj if record.resources else None,
    }
    assert {name: one.value for name, one in found.items()} == {
        name: value for name, value in expected.items() if value is not None
    }
    if "speedup" in found and latency and latency.speedup_ci:
        assert (found["speedup"].low, found["speedup"].high) == (latency.speedup_ci.low, latency.speedup_ci.high)
    if "latency" in found and latency:
        bound = next(
            (one for one in latency.percentile_bounds if one.percentile == 50), PercentileBound(50, None, None)
        )
        assert (found["latency"].low, found["latency"].high) == (bound.low_ms, bound.high_ms)


def test_of_several_records_of_a_check_one_counts() -> None:
    """The worst of the workers that each ran it, the last of records with one name, each in the first one's place."""
    fine, broken = (replace(one, worker=name) for one, name in ((a_pass(), "gw0"), (a_record(), "gw1")))
    assert [one.status for one in one_each([fine, broken])] == [Status.FAIL]
    other = replace(a_pass(), nodeid="other")
    assert one_each([a_record(), other, a_pass()]) == [a_pass(), other]


def test_a_check_is_named_on_one_line() -> None:
    """By its test, its model and its engine."""
    assert check_name(a_record()) == "tests/test_digits.py::test_int8[ort-int8-static] digits ort-int8-static"
    assert check_name(replace(a_record(), model="a\nb")).endswith("a\\nb ort-int8-static")
