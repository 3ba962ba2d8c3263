"""What a page draws is what its records have: intervals beside limits, rounds, engines of a model, and histories."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.record import Record
from pytest_quant.report.page.charts import (
    FIGURES,
    describe_accepted,
    describe_changes,
    interval_bar,
    interval_of,
    pareto_charts,
    rounds_chart,
    series_chart,
)
from pytest_quant.result import AccuracyResult, Interval, LaunchFigures, PercentileBound, Status, Verdict
from tests.support.pages import STEP, history_of, ladder, points, rich_record
from tests.unit.history.compare.launched import timed
from tests.unit.record.examples import ACCURACY, FAILED_DROP, RESOURCES, a_check, a_record, unavailable, with_latency


def _bar(record: Record, verdict: Verdict) -> dict[str, Any]:
    bar = interval_bar(record, verdict)
    assert bar is not None
    return bar


def test_lengths_of_a_bar_are_those_of_the_figures() -> None:
    """A maximum allows what is left of it, a minimum what is right; the interval is at its share of the way."""
    bar = _bar(a_record(), FAILED_DROP)
    low, high = bar["span"]
    assert bar["limit"] < low < bar["value"] < high
    assert bar["allowed"] == (0.0, bar["limit"])
    assert (low - bar["limit"]) / (high - bar["limit"]) == pytest.approx((3.18 - 1.0) / (5.31 - 1.0), abs=0.002)
    assert "3.18 to 5.31" in bar["about"]
    for allowed, observed in ((1.0, None), (None, None), (1.0, float("inf"))):
        assert interval_bar(a_record(), Verdict("max_drop", allowed, observed, Status.FAIL, "")) is None
    bar = _bar(a_record(), Verdict("min_speedup", 1.2, 1.9475, Status.PASS, ""))
    assert bar["limit"] < bar["value"]
    assert bar["allowed"] == (bar["limit"], 300.0)


@given(*[st.floats(allow_nan=False, allow_infinity=False)] * 2)
def test_every_figure_has_a_place(allowed: float, observed: float) -> None:
    """Within the drawing, in the order of the figures, however large, small or equal they are."""
    bar = _bar(a_record(), Verdict("max_size_mb", allowed, observed, Status.FAIL, ""))
    assert 0.0 < bar["limit"] < 300.0
    assert 0.0 < bar["value"] < 300.0
    assert (bar["limit"] <= bar["value"]) is (allowed <= observed) or bar["limit"] == bar["value"]


def test_an_interval_is_the_one_the_limit_was_judged_on() -> None:
    """Of drop, speedup, energy or percentile; none where a side is not known, or where several launches were judged."""
    record = a_record()
    assert interval_of(record, "max_drop") == Interval(3.18, 5.31)
    assert interval_of(record, "min_speedup") == Interval(1.9012, 1.9888)
    assert interval_of(record, "max_latency_ms") == Interval(0.2301, 0.2389)
    assert interval_of(record, "max_latency_ms[p99]") is None
    assert interval_of(record, "max_size_mb") is None
    tail = with_latency(record, percentile_bounds=(PercentileBound(99.9, 0.3, 0.4),))
    assert interval_of(tail, "max_latency_ms[p99.9]") == Interval(0.3, 0.4)
    energy = replace(RESOURCES, energy_mj=2.0, energy_mj_ci=Interval(1.9, 2.1))
    assert interval_of(replace(record, resources=energy), "max_energy_mj") == Interval(1.9, 2.1)
    several = with_latency(record, launches=(LaunchFigures("", 1.9, 0.2),))
    assert [interval_of(several, limit) for limit in ("min_speedup", "max_latency_ms")] == [None, None]


def test_rounds_are_lines_of_their_engines() -> None:
    """The first round is left and the last right, a longer time further up, in one scale for all engines."""
    rounds = {"reference": (0.5, 0.4, 0.3), "candidate": (0.1, 0.2)}
    chart = rounds_chart(with_latency(a_record(), round_p50_ms=rounds))
    lines = [("reference", "0.0,4.0 150.0,27.0 300.0,50.0"), ("candidate", "0.0,96.0 150.0,73.0")]
    assert chart == {"lines": lines, "rounds": 3, "low": 0.1, "high": 0.5}
    assert rounds_chart(a_record(latency=None)) is None


def _charts(records: list[Record]) -> list[dict[str, Any]]:
    return pareto_charts(records, [record.nodeid for record in records])


def test_every_engine_has_its_figures_and_the_reference_is_there_once() -> None:
    """Three candidates share a reference; faster is left, better is up, and the slower and worse one is beaten."""
    (chart,) = _charts(ladder())
    engines = {engine["engine"]: engine for engine in chart["engines"]}
    assert list(engines) == ["ort-int8-static", "ort-int8-dynamic", "ort-int8-qat", "ort-fp32"]
    assert [engine["number"] for engine in chart["engines"]] == [0, 1, 2, 0]
    static, dynamic, reference = (engines[name] for name in ("ort-int8-static", "ort-int8-dynamic", "ort-fp32"))
    figures = (dynamic["score"], dynamic["shown"], dynamic["ms"], dynamic["size_mb"])
    assert figures == (97.0, "97.00", 0.4, 0.0456)
    assert (reference["score"], reference["reference"], reference["size_mb"]) == (ACCURACY.reference, True, 0.1712)
    assert static["x"] < dynamic["x"] < reference["x"]
    assert reference["y"] < dynamic["y"] < static["y"]
    assert [engine["best"] for engine in chart["engines"]] == [True, True, False, True]


def test_where_lower_is_better_low_is_up() -> None:
    """And the front is of the least errors."""
    records = [
        replace(record, accuracy=replace(ACCURACY, metric="wer", better="lower", reference=5.0, candidate=score))
        for record, score in zip(ladder(), (9.0, 6.0, 9.5), strict=True)
    ]
    (chart,) = _charts(records)
    assert not chart["higher"]
    by_place = sorted(chart["engines"], key=lambda engine: float(engine["y"]))
    assert [engine["score"] for engine in by_place] == [5.0, 6.0, 9.0, 9.5]
    assert not by_place[-1]["best"]


def test_models_metrics_and_batches_have_charts_of_their_own() -> None:
    """Only what can be compared stands in one; what was not timed or not compared has none, nor has one engine."""
    first, second, third = ladder()
    charts = _charts([first, replace(second, model="other"), replace(third, batch_size=8)])
    assert [(chart["model"], chart["batch_size"]) for chart in charts] == [("digits", 1), ("other", 1), ("digits", 8)]
    assert _charts([unavailable(), a_record(latency=None), a_record(accuracy=AccuracyResult(n=3))]) == []


def test_without_a_metric_agreement_is_the_score() -> None:
    """Of candidates alone, for the reference agrees with itself; without it the SQNR is."""
    shares = (90.0, 95.0, 99.0)
    agreeing = [AccuracyResult(n=10, agreement_pct=share) for share in shares]
    other = [AccuracyResult(n=10, sqnr_db=share) for share in shares]
    for accuracies, label in ((agreeing, "same top class as the reference %"), (other, "SQNR dB")):
        records = [replace(record, accuracy=accuracy) for record, accuracy in zip(ladder(), accuracies, strict=True)]
        (chart,) = _charts(records)
        assert chart["score"] == label
        assert [(engine["score"], engine["reference"]) for engine in chart["engines"]] == [(s, False) for s in shares]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=2, max_size=9))
def test_the_front_agrees_with_its_definition(figures: list[tuple[int, int]]) -> None:
    """An engine is off it exactly when another is no slower and no worse, and one of both is better."""
    records = []
    for place, (ms, score) in enumerate(figures):
        record = timed(a_record(a_check(scheme="static")), float(ms), 100.0)
        accuracy = replace(ACCURACY, reference=None, candidate=float(score))
        records.append(replace(record, nodeid=str(place), accuracy=accuracy))
    (chart,) = _charts(records)
    pairs = [(engine["ms"], -engine["score"]) for engine in chart["engines"]]
    for engine, own in zip(chart["engines"], pairs, strict=True):
        assert engine["best"] is not any(other != own and other[0] <= own[0] and other[1] <= own[1] for other in pairs)


def test_every_figure_of_a_series_is_that_of_its_point() -> None:
    """With its interval, where both ends are known; nothing where nothing was measured."""
    measured = points(15)
    measured[3] = replace(measured[3], speedup=None, candidate=None)
    data: Any = series_chart(history_of(measured))
    for drawn, point in zip(data["points"], measured, strict=True):
        for quantity, names in FIGURES.items():
            figure, *interval = (getattr(point, name) for name in names)
            shown = None if figure is None else [figure] if None in interval else [figure, *interval]
            assert drawn[quantity] == shown


def test_lines_are_of_one_machine_and_one_version_of_the_data() -> None:
    """Machines have letters and versions numbers, in the order in which they come; an unknown version has none."""
    drawn = zip(points(6, machines=3), ("v", "v", "w", "", "w", "v"), strict=True)
    data: Any = series_chart(history_of([replace(point, version=version) for point, version in drawn]))
    assert [point["data"] for point in data["points"]] == [1, 1, 2, 0, 2, 1]
    assert [point["timed"] for point in data["points"]] == [
        "machine A, data 1", "machine B, data 1", "machine C, data 2", "machine A", "machine B, data 2",
        "machine C, data 1",
    ]  # fmt: skip
    assert [point["scored"] for point in data["points"]][1:4] == ["avx2, data 1", "avx2, data 2", "avx2"]


def test_a_figure_has_its_unit() -> None:
    """That of a score is the one of the newest point that has one; a drop of percentages is in points of them."""
    measured = points(3)
    logits = [measured[0], replace(measured[1], unit="logit"), replace(measured[2], unit=None)]
    data: Any = series_chart(history_of(logits))
    assert data["units"] == {"speedup": "x", "latency": "ms", "score": "logit", "drop": "logit"}
    data = series_chart(history_of(measured))
    assert (data["units"]["score"], data["units"]["drop"]) == ("%", "pp")
    measured = [replace(point, candidate=97.0 if place < 5 else 68.0) for place, point in enumerate(points(10))]
    data = series_chart(history_of(measured))
    assert [mark["text"] for mark in data["changes"] if mark["quantity"] == "score"] == ["-29 pp at 00000005cccc"]


def test_a_change_stands_at_its_first_point() -> None:
    """The planted step is there where it was planted, and said in words; a dirty point of its commit is not it."""
    measured = points(60)
    data: Any = series_chart(history_of(measured))
    (mark,) = data["changes"]
    assert (mark["at"], mark["quantity"]) == (30, "speedup")
    assert math.isclose(float(mark["text"].split()[0]), 100.0 * (STEP - 1.0), abs_tol=1.5)
    ((at, commit, text),) = describe_changes(history_of(measured))
    assert (at, commit) == (measured[30].started_at, "0000001ecccc")
    assert text.startswith("WORSE, speedup ")
    assert "  " not in text
    dirty = replace(measured[30], dirty=True, run_id="dirty")
    data = series_chart(history_of([*measured[:30], dirty, *measured[30:]]))
    assert [mark["at"] for mark in data["changes"]] == [31]


def test_a_chart_has_the_limits_of_this_run() -> None:
    """It begins with a broken one; those on another series or percentile are not on it."""
    tail, slow = (Verdict(limit, 1.5, 1.9, Status.PASS, "") for limit in ("max_latency_ms[p99]", "min_speedup"))
    records = [rich_record("test_other"), replace(rich_record(), verdicts=(tail, slow, FAILED_DROP))]
    data: Any = series_chart(history_of(points(3)), records=records)
    assert (data["limits"], data["broken"]) == ({"speedup": 1.5, "drop": 1.0}, ["drop"])


def test_what_was_accepted_is_a_level_and_a_line() -> None:
    """Of score, drop, speedup and time."""
    accepted = history_of(points(5), accepted=True)
    levels = {"score": [93.5], "drop": [4.25], "speedup": [1.95], "latency": [0.51]}
    assert series_chart(accepted)["accepted"] == levels
    assert describe_accepted(accepted) == "score 93.50 %, x1.95 of acce97edacce accepted on 2026-01-01: the release"
    assert describe_accepted(history_of(points(5))) == ""
