"""The record of one check whole, and the key of its series."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_quant.metrics import Metric
from pytest_quant.record import Record, build_failed_record, build_record, to_json
from pytest_quant.result import AccuracyResult, Blocks, Hint, LatencyFigures, LatencyResult, Status
from pytest_quant.spec import Calibration, Dataset, SeriesKey
from tests.unit.record.examples import (
    ACCURACY,
    COVERAGE,
    FAILED_DROP,
    LATENCY,
    NODEID,
    RESOURCES,
    a_check,
    a_measurement,
    a_record,
)

HINT = Hint("leave /conv1 in float", "exclude=['/conv1']", "max_drop", 4.23, 0.5)


def test_a_record_of_a_measured_check() -> None:
    """Each figure in its own field; only single runs are left out."""
    check = replace(a_check(), confidence=0.9, latency_off="why not", batch_size=3)
    measured = replace(a_measurement(check, cached=True), threads=5, notes=("a", "b"), builds={"engine": "first build"})
    record = build_record(measured, status=Status.FAIL, verdicts=[FAILED_DROP], hints=[HINT]).record
    assert record == replace(
        build_failed_record(replace(check, batch_size=1), status=Status.FAIL, message="").record,
        series=SeriesKey.from_check(check, "top1").text,
        metric="top1",
        accuracy=ACCURACY,
        latency=record.latency,
        coverage=COVERAGE,
        resources=RESOURCES,
        cache={"engine": "hit", "reference": "hit"},
        verdicts=(FAILED_DROP,),
        calibration_samples=64,
        threads=5,
        digests={"engine": "abc123", "data": "def456"},
        notes=("a", "b"),
        builds={"engine": "first build"},
        hints=(HINT,),
    )
    assert record.latency is not None
    names = {field.name for field in fields(LatencyFigures)} - {"round_p50_ms"}
    assert {name: getattr(record.latency, name) for name in names} == {name: getattr(LATENCY, name) for name in names}


def test_a_record_of_a_placeholder_says_so() -> None:
    """So that it never becomes a baseline."""
    stands_in = a_record(replace(a_check(), dataset=Dataset.placeholder([[0.0]])))
    assert (stands_in.stands_in, a_record().stands_in) == (True, False)


def test_each_engine_has_its_own_rounds() -> None:
    """Medians in milliseconds with four digits; a round without runs is none."""
    sides: dict[str, Any] = {
        name: Blocks(((ns, ns + 2, ns + 4), (), (ns * 2,)))
        for name, ns in (("reference", 1_234_567), ("null", 2_000_000), ("candidate", 999))
    }
    record = a_record(latency=replace(LATENCY, **sides))
    assert record.latency is not None
    assert record.latency.round_p50_ms == {
        "reference": (1.235, 2.469),
        "null": (2.0, 4.0),
        "candidate": (0.001001, 0.001998),
    }


def test_a_record_of_a_check_that_never_came_to_be() -> None:
    """What was asked for, and why there is nothing else."""
    check = replace(a_check(scheme=None, precision="fp16"), metric="mae", latency=None, batch_size=3)
    record = build_failed_record(check, status=Status.ERROR, message="broken\nin two lines").record
    assert record == Record(
        nodeid=NODEID,
        model="digits",
        backend="ort",
        precision="fp16",
        scheme=None,
        batch_size=3,
        status=Status.ERROR,
        series=json.dumps(["tests/test_digits.py::test_int8", "digits", "ort", "fp16", None, 3, "mae"]),
        reference="ort-fp32",
        metric="mae",
        isa=record.isa,
        message="broken\nin two lines",
        asked={},
    )
    assert a_record().engine_id == "ort-int8-static"


@pytest.mark.parametrize(("metric", "name"), [(None, None), ("top1", "top1"), (Metric(np.mean), "mean")])
def test_the_metric_of_such_a_check_has_the_name_that_the_mark_gives_it(
    metric: Metric | str | None, name: str | None
) -> None:
    """A name, or a metric that has one."""
    record = build_failed_record(replace(a_check(), metric=metric), status=Status.UNAVAILABLE, message="x").record
    assert (record.metric, json.loads(record.series)[-1]) == (name, name)


@pytest.mark.parametrize(("scheme", "method"), [("static", "entropy"), ("dynamic", None), ("weight-only", None)])
def test_only_a_static_scheme_has_a_method(scheme: str, method: str | None) -> None:
    """The one that the mark asks for."""
    check = a_check(scheme=scheme)
    check = replace(check, candidate=replace(check.candidate, calibration=Calibration("entropy")))
    assert a_record(check).calibration == method


def test_every_figure_of_the_latency_is_kept() -> None:
    """Only single runs, the time they took and what verdicts say are left out."""
    measured, written = ({field.name for field in fields(kind)} for kind in (LatencyResult, LatencyFigures))
    assert measured - written == {"reference", "null", "candidate", "rounds_by_set", "spent_s", "over", "disturbances"}
    record = a_record(latency=replace(LATENCY, notes=("the clock was adjusted",)))
    assert record.latency is not None
    assert record.latency.notes == ("the clock was adjusted",)


@example(79, 1_000_000)
@given(st.integers(0, 200), st.integers(1, 10**10))
def test_rounds_stay_small(rounds: int, runs_ns: int) -> None:
    """The history keeps 40 medians of each engine at the most, evenly spaced, the first and the last among them."""
    blocks = Blocks(tuple((runs_ns + i,) for i in range(rounds)))
    record = a_record(latency=replace(LATENCY, reference=blocks, null=blocks, candidate=blocks))
    assert record.latency is not None
    medians = record.latency.round_p50_ms["null"]
    assert len(medians) == min(rounds, 40)
    if rounds == 79:
        assert list(medians) == pytest.approx([(runs_ns + i) / 1e6 for i in range(0, 79, 2)], rel=1e-3)
    if rounds:
        assert [medians[0], medians[-1]] == pytest.approx([runs_ns / 1e6, (runs_ns + rounds - 1) / 1e6], rel=1e-3)
    assert len(json.dumps(to_json(record)["latency"])) <= 4096


def test_accuracy_that_is_off_is_null() -> None:
    """The series has its metric all the same, so that both passes are of one."""
    check = replace(a_check(), accuracy_off="why not")
    record = build_record(
        a_measurement(check, accuracy=AccuracyResult(0, "top1")), status=Status.PASS, verdicts=()
    ).record
    assert (record.accuracy, record.accuracy_off, record.metric) == (None, "why not", "top1")
    assert record.series == SeriesKey.from_check(a_check(), "top1").text
    assert record.latency is not None
