"""What Bencher's adapter ``json`` reads: its published schema, the lengths of its names, and the units it knows."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings

from pytest_quant.record import Record
from pytest_quant.report.exports.bencher import MOST_MEASURE_BYTES, MOST_NAME_BYTES, bencher
from pytest_quant.report.exports.figures import check_name, figures_of
from pytest_quant.result import Interval
from tests.unit.record.examples import ACCURACY, a_record, unavailable
from tests.unit.report.exports.kept import suites

BMF = {
    "$schema": "http://json-schema.org/draft-07/schema",
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "number"},
                        "lower_value": {"type": "number"},
                        "upper_value": {"type": "number"},
                    },
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        }
    },
    "additionalProperties": False,
}
"""As bencher.dev publishes it, but that nothing beside what it names is taken."""

NAME = "tests/test_digits.py::test_int8[ort-int8-static] digits ort-int8-static"


def read(text: str) -> dict[str, Any]:
    """Return the document, after what Bencher checks when it reads one; a name that is there twice is refused too."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    document: dict[str, Any] = json.loads(text, object_pairs_hook=once, parse_constant=_refused)
    jsonschema.validate(document, BMF)
    for name, measures in document.items():
        assert 0 < len(name.encode()) <= MOST_NAME_BYTES
        assert all(0 < len(measure.encode()) <= MOST_MEASURE_BYTES for measure in measures)
    return document


def _refused(constant: str) -> float:
    raise AssertionError(f"{constant} is no JSON")


def test_built_in_measures_are_in_their_units() -> None:
    """Latency in nanoseconds, sizes in bytes, times of builds in seconds; an interval is lower and upper value."""
    found = read(bencher([a_record()]))[NAME]
    assert found["latency"] == pytest.approx({"value": 234_500, "lower_value": 230_100, "upper_value": 238_900})
    assert found["speedup"] == {"value": 1.9475, "lower_value": 1.9012, "upper_value": 1.9888}
    assert found["accuracy"] == {"value": 93.55}
    assert found["drop"] == {"value": 4.23, "lower_value": 3.18, "upper_value": 5.31}
    assert found["file-size"] == pytest.approx({"value": 45_600})
    assert found["build-time"] == {"value": 1.25}
    assert (found["coverage"], found["agreement"], found["sqnr"]) == (
        {"value": 87.5},
        {"value": 94.83},
        {"value": 21.37},
    )


def test_a_metric_of_another_unit_or_direction_is_a_measure_of_its_own() -> None:
    """A threshold on accuracies would alarm when the error rate falls."""
    worse = a_record(accuracy=replace(ACCURACY, metric="wer", better="lower"))
    found = read(bencher([worse]))[NAME]
    assert found["wer-score"] == {"value": 93.55}
    assert found["wer-drop"]["value"] == 4.23
    assert not {"accuracy", "drop"} & found.keys()


def test_a_check_without_figures_is_left_out() -> None:
    """Bencher would draw nothing for it; a run of such checks is an empty document."""
    assert read(bencher([unavailable()])) == {}
    assert list(read(bencher([unavailable(), a_record()]))) == [NAME]


def test_names_that_are_too_long_stay_apart() -> None:
    """Bencher refuses a file with one of more than 1024 bytes."""
    long = [replace(a_record(), nodeid=f"{'ü' * 600}{number}") for number in range(2)]
    assert len(read(bencher(long))) == 2
    metric = a_record(accuracy=replace(ACCURACY, metric="m" * 100, unit="", better="higher"))
    assert len([name for name in read(bencher([metric]))[NAME] if name.startswith("mmm")]) == 2


def test_a_number_that_grows_beyond_all_bounds_is_left_out() -> None:
    """In nanoseconds it would be infinite."""
    latency = a_record().latency
    assert latency is not None
    far = replace(latency, candidate_p50_ms=1e305, percentile_bounds=(), speedup_ci=Interval(1.0, 2.0))
    found = read(bencher([replace(a_record(), latency=far)]))[NAME]
    assert "latency" not in found
    assert found["speedup"]["upper_value"] == 2.0


UNITS = {"latency": 1e6, "size": 1e6, "memory": 1e6}
"""How many nanoseconds a millisecond is, and how many bytes a megabyte; all other figures keep their unit."""


@settings(max_examples=30)
@given(suites)
def test_every_figure_of_any_run_is_there(suite: list[Record]) -> None:
    """Each once, with the number of the record in the measure's unit, under the name of its check and no other."""
    document = read(bencher(suite))
    written = sorted(one["value"] for measures in document.values() for one in measures.values())
    numbers = [one.value * UNITS.get(one.name, 1.0) for record in suite for one in figures_of(record)]
    assert written == sorted(one for one in numbers if math.isfinite(one))
    for record in suite:
        name = check_name(record)
        speedup = next((one for one in figures_of(record) if one.name == "speedup"), None)
        if speedup is not None and len(name.encode()) <= MOST_NAME_BYTES:
            found = document[name]["speedup"]
            ends = found.get("lower_value"), found.get("upper_value")
            assert (found["value"], *ends) == (speedup.value, speedup.low, speedup.high)
