"""A record holds what the check asked for and what was found."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.errors import UsageError
from pytest_quant.record import LatencyFigures, Record, build_record, failed_record, series_key, to_json
from pytest_quant.result import Blocks, LatencyResult, Measured, Status, Verdict
from pytest_quant.spec import Check, LatencyPlan, Model
from tests.unit.record.examples import ACCURACY, COVERAGE, LATENCY, RESOURCES, a_check, a_record


def test_the_record_says_what_was_asked() -> None:
    """Node id, model, engine, reference, batch size and calibration are those of the check."""
    record = a_record()
    asked = (record.model, record.backend, record.precision, record.scheme, record.batch_size)
    assert asked == ("digits", "ort", "int8", "static", 1)
    assert (record.engine_id, record.reference) == ("ort-int8-static", "ort-fp32")
    assert (record.calibration, record.calibration_samples) == ("minmax", 64)


def test_the_record_says_what_was_found() -> None:
    """The sections are what the parts returned; of latency the single runs are left out."""
    record = a_record()
    assert (record.accuracy, record.coverage, record.resources) == (ACCURACY, COVERAGE, RESOURCES)
    assert record.latency is not None
    assert record.latency.speedup_ci == LATENCY.speedup_ci
    assert record.latency.round_p50_ms["candidate"] == (0.11, 0.102)


def test_every_figure_of_the_latency_is_kept() -> None:
    """Only single runs, the time they took and what verdicts say are left out; bounds name each of their numbers."""
    found, kept = ({field.name for field in fields(kind)} for kind in (LatencyResult, LatencyFigures))
    assert found - kept == {"reference", "null", "candidate", "percentile_bounds_ms", "spent_s", "over"}
    record = a_record(latency=replace(LATENCY, notes=("the clock was adjusted",)))
    assert record.latency is not None
    assert record.latency.notes == ("the clock was adjusted",)


def test_a_second_measurement_is_kept() -> None:
    """Whoever doubts a FAIL sees both."""
    record = a_record(latency=replace(LATENCY, repeat=replace(LATENCY, speedup=1.5)))
    assert record.latency is not None
    assert record.latency.repeat is not None
    assert record.latency.repeat.speedup == 1.5


def test_only_a_static_scheme_is_calibrated() -> None:
    """A dynamic check names no calibration method."""
    assert a_record(a_check(scheme="dynamic")).calibration is None


def test_the_batch_size_is_the_one_that_was_timed() -> None:
    """A model with a fixed batch size is timed at that one."""
    assert a_record(latency=replace(LATENCY, batch_size=8)).batch_size == 8


def test_infinite_sqnr_is_null_and_identical() -> None:
    """Identical outputs have no noise to compare with."""
    verdict = Verdict("min_sqnr_db", 20.0, math.inf, Status.PASS, "inf dB reaches 20 dB")
    same = replace(ACCURACY, sqnr_db=None, identical=True)
    written: Any = to_json(a_record(accuracy=same, verdicts=(verdict,), status=Status.PASS))
    assert (written["accuracy"]["sqnr_db"], written["accuracy"]["identical"]) == (None, True)
    assert written["verdicts"][0]["observed"] is None


def test_a_numpy_scalar_in_a_figure_is_converted() -> None:
    """A third party's metric may return one; xdist would die of it."""
    figures: dict[str, Any] = {"candidate": np.float32(0.5), "n": np.int64(10), "identical": np.bool_(False)}
    accuracy = replace(ACCURACY, **figures)
    written: Any = to_json(a_record(accuracy=accuracy))
    assert [type(written["accuracy"][name]) for name in ("candidate", "n", "identical")] == [float, int, bool]


def test_an_array_in_a_figure_is_a_usage_error() -> None:
    """The message names the figure."""
    accuracy = replace(ACCURACY, candidate=np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"record\.accuracy\.candidate"):
        a_record(accuracy=accuracy)


def test_a_failed_check_keeps_its_message() -> None:
    """And the metric that was asked for, by its name."""

    def my_metric() -> None: ...

    check = replace(a_check(), metric=my_metric)
    record = failed_record(check, status=Status.ERROR, message="broken\n  next: repair it").record
    assert (record.status, record.message, record.metric) == (Status.ERROR, "broken\n  next: repair it", "my_metric")


def _changed(check: Check) -> list[Check]:
    candidate = check.candidate
    return [
        replace(check, series_nodeid="other"),
        replace(check, candidate=replace(candidate, model=Model("other"))),
        replace(check, candidate=replace(candidate, backend="other")),
        replace(check, candidate=replace(candidate, precision="int4")),
        replace(check, candidate=replace(candidate, scheme="dynamic")),
        replace(check, latency=LatencyPlan(batch_size=8)),
    ]


def test_every_part_of_the_key_makes_another_series() -> None:
    """Records of int4 and int8 must not be compared."""
    check = a_check()
    keys = {series_key(other, "top1") for other in [check, *_changed(check)]} | {series_key(check, "mae")}
    assert len(keys) == 8


def test_the_batch_size_counts_when_latency_is_off() -> None:
    """A run without latency adds to the series of the runs with it."""
    timed = replace(a_check(), batch_size=8, latency=LatencyPlan(batch_size=8))
    assert series_key(replace(timed, latency=None), "top1") == series_key(timed, "top1")
    assert a_record(replace(timed, latency=None), latency=None).batch_size == 8


def test_what_does_not_belong_to_the_key_leaves_the_series_as_it_is() -> None:
    """The id that our own lists add, and digests, say what differs, not what is comparable."""
    renamed = replace(a_check(), nodeid="tests/test_digits.py::test_int8")
    assert series_key(renamed, "top1") == series_key(a_check(), "top1")


@given(st.text(), st.text(), st.text(), st.text())
def test_no_two_series_share_a_key(node: str, model: str, other_node: str, other_model: str) -> None:
    """Whatever separators the names contain."""
    one = series_key(replace(a_check(model=model), series_nodeid=node), None)
    two = series_key(replace(a_check(model=other_model), series_nodeid=other_node), None)
    assert (one == two) is ((node, model) == (other_node, other_model))


@given(st.integers(0, 200), st.integers(1, 10**10))
def test_rounds_stay_small(rounds: int, runs_ns: int) -> None:
    """The history keeps 40 medians of each engine at the most, the first and the last among them."""
    blocks = Blocks(tuple((runs_ns + i,) for i in range(rounds)))
    record = a_record(latency=replace(LATENCY, reference=blocks, null=blocks, candidate=blocks))
    assert record.latency is not None
    kept = record.latency.round_p50_ms["null"]
    assert len(kept) == min(rounds, 40)
    if rounds:
        assert [kept[0], kept[-1]] == pytest.approx([runs_ns / 1e6, (runs_ns + rounds - 1) / 1e6], rel=1e-3)
    assert len(json.dumps(to_json(record)["latency"])) <= 4096


def test_notes_and_digests_are_kept() -> None:
    """They say what differs between two records."""
    measured = Measured(
        check=a_check(),
        accuracy=ACCURACY,
        latency=None,
        coverage=COVERAGE,
        resources=RESOURCES,
        cache={"engine": "hit", "reference": "hit"},
        digests={"data": "x"},
        notes=("a note",),
    )
    record: Record = build_record(measured, status=Status.PASS, verdicts=()).record
    assert (record.notes, record.digests, record.latency, record.verdicts) == (("a note",), {"data": "x"}, None, ())


def test_the_record_knows_the_key_of_its_series() -> None:
    """With the metric that was computed, or else the one that the mark names."""
    assert a_record().series == series_key(a_check(), "top1")
    named = replace(a_check(), metric="mae")
    assert failed_record(named, status=Status.ERROR, message="x").record.series == series_key(named, "mae")
