"""A record survives JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import execnet
import pytest
from hypothesis import HealthCheck, given, settings

from pytest_quant.errors import HistoryError
from pytest_quant.history.rows import pack
from pytest_quant.record import Record, from_json, to_json
from pytest_quant.result import ClassScore, Status, Verdict
from tests.unit.record.examples import ACCURACY, COVERAGE, a_record, unavailable
from tests.unit.record.strategies import records


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(records)
def test_no_field_is_lost(record: Record) -> None:
    """Reading back what was written, and writing it again, gives the same JSON."""
    written = to_json(record)
    again = to_json(from_json(json.loads(json.dumps(written, allow_nan=False))))
    assert again == written


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(records)
def test_a_record_that_was_read_equals_itself_read_again(record: Record) -> None:
    """JSON is where infinity and lone surrogates go; nothing else changes after."""
    once = from_json(to_json(record))
    assert from_json(to_json(once)) == once


def test_names_of_nodes_that_ran_as_asked_are_not_kept() -> None:
    """A large model has thousands of them; what is read back of the record equals it all the same."""
    record = a_record(coverage=replace(COVERAGE, asked_nodes=("conv", "fc")))
    assert "asked_nodes" not in str(to_json(record))
    assert from_json(to_json(record)) == record


@pytest.mark.parametrize("record", [a_record(), unavailable()], ids=["measured", "unavailable"])
def test_built_records_round_trip_exactly(record: Record) -> None:
    """What a session builds is already in its final form."""
    assert from_json(to_json(record)) == record


def test_xdist_carries_a_record() -> None:
    """The transport of pytest-xdist knows exact types only."""
    written = to_json(a_record())
    assert execnet.loads(execnet.dumps(written)) == written


def test_sections_of_a_check_that_never_came_to_be_are_null() -> None:
    """Null, not an empty section: nothing was measured."""
    written = to_json(unavailable())
    sections = ("accuracy", "latency", "coverage", "resources", "cache", "verdicts")
    assert {written[name] for name in sections} == {None}


def test_a_record_from_before_outputs_were_told_apart_is_read() -> None:
    """It has figures of all outputs together, and none by output."""
    data: dict[str, Any] = to_json(a_record())
    del data["accuracy"]["by_output"], data["accuracy"]["worst_output"]
    found = from_json(data).accuracy
    assert found is not None
    assert (found.by_output, found.worst_output, found.sqnr_db) == ((), None, 21.37)


def test_a_class_is_a_list_of_its_four_values() -> None:
    """In the order of the fields; a later version may add values to it, and an earlier one kept no classes."""
    data: dict[str, Any] = to_json(a_record())
    assert data["accuracy"]["by_class"] == [[0, 182, 99.4505, 98.3516], [7, 178, 98.3146, 71.9101]]
    data["accuracy"]["by_class"][0].append("new")
    assert from_json(data) == a_record()
    del data["accuracy"]["by_class"]
    found = from_json(data).accuracy
    assert found is not None
    assert found.by_class == ()


def test_ten_classes_take_little_room() -> None:
    """At most 155 bytes of a record as a history stores it, however many digits their shares have."""
    shares = [round(100.0 * right / 178, 4) for right in range(150, 170)]
    classes = tuple(ClassScore(label, 171 + label, *shares[2 * label :][:2]) for label in range(10))
    sizes = [len(pack(a_record(accuracy=replace(ACCURACY, by_class=rows)))) for rows in ((), classes)]
    assert sizes[1] - sizes[0] <= 155


def test_unknown_fields_are_ignored() -> None:
    """A later version may add fields."""
    data: dict[str, Any] = to_json(a_record())
    data["new"] = 1
    data["accuracy"]["new"] = {"x": 2}
    assert from_json(data) == a_record()


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("nodeid",), None, "check.nodeid"),
        (("batch_size",), 1.5, "check.batch_size"),
        (("batch_size",), True, "check.batch_size"),
        (("status",), "PASSED", "did you mean 'PASS'"),
        (("accuracy",), [], "check.accuracy"),
        (("accuracy", "drop"), "1", "check.accuracy.drop"),
        (("accuracy", "drop_ci"), [1.0], "check.accuracy.drop_ci"),
        (("accuracy", "drop_ci"), [1.0, None], "check.accuracy.drop_ci"),
        (("accuracy", "identical"), 1, "check.accuracy.identical"),
        (("coverage", "by_op"), {"Conv": 3}, "check.coverage.by_op.Conv"),
        (("accuracy", "by_output"), {"y": 3}, "check.accuracy.by_output.y"),
        (("accuracy", "by_class"), [[0, 182, 99.5]], r"(?s)by_class\[0\].*\[label, n, reference, candidate\]"),
        (("accuracy", "by_class"), [[0, 182, 99.5, None]], r"check.accuracy.by_class\[0\]"),
        (("latency", "reasons"), [1], "check.latency.reasons"),
        (("latency", "rounds"), None, "check.latency.rounds"),
        (("verdicts",), {"a": 1}, "check.verdicts"),
        (("verdicts", 0, "reason"), 1, r"check.verdicts\[0\].reason"),
        (("cache", "engine"), None, "check.cache.engine"),
        (("status",), "half a character: \ud800", "check.status"),
        (("accuracy", "\udfff"), 1, "check.accuracy"),
    ],
)
def test_a_wrong_field_is_named(path: tuple[str | int, ...], value: object, named: str) -> None:
    """The message says where, what was found and what is allowed."""
    data: Any = to_json(a_record())
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(HistoryError, match=named):
        from_json(data)


@pytest.mark.parametrize("data", [None, [], "x", 3])
def test_what_is_no_object_is_no_record(data: object) -> None:
    """Any JSON may come along."""
    with pytest.raises(HistoryError, match="check is not"):
        from_json(data)


@pytest.mark.parametrize("allowed", [1, 1.0, 0.9999999])
def test_a_limit_comes_back_as_its_mark_has_it(allowed: float) -> None:
    """A message after reading writes what it wrote before."""
    verdict = Verdict("max_drop", allowed, 4.23, Status.FAIL, "too much")
    (found,) = from_json(json.loads(json.dumps(to_json(a_record(verdicts=(verdict,)))))).verdicts or ()
    assert repr(found.allowed) == repr(allowed)
