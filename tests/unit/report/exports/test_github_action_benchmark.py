"""The list that github-action-benchmark reads; ``tests/integration/test_consumers.py`` has its own parser read it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings

from pytest_quant.record import Record
from pytest_quant.report.exports.figures import figures_of
from pytest_quant.report.exports.github_action_benchmark import github_action_benchmark
from pytest_quant.result import Better
from tests.unit.record.examples import ACCURACY, RUN, a_pass, a_record, unavailable
from tests.unit.report.exports.kept import suites

ENTRIES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "unit": {"type": "string"},
            "value": {"type": "number"},
            "range": {"type": "string", "minLength": 1},
            "extra": {"type": "string"},
        },
        "required": ["name", "unit", "value"],
        "additionalProperties": False,
    },
}
"""What its README says of customSmallerIsBetter and customBiggerIsBetter."""

NAME = "tests/test_digits.py::test_int8[ort-int8-static] digits ort-int8-static"


def read(text: str) -> list[dict[str, Any]]:
    """Return the entries; the action finds the earlier one by its name, so that no name is there twice."""
    entries: list[dict[str, Any]] = json.loads(text)
    jsonschema.validate(entries, ENTRIES)
    assert len({entry["name"] for entry in entries}) == len(entries)
    return entries


def test_a_file_has_figures_of_one_direction() -> None:
    """The action alerts by it: what should fall in one, what should rise in the other."""
    lower, higher = (
        {
            entry["name"].removeprefix(f"{NAME} "): entry
            for entry in read(github_action_benchmark(RUN, [a_record()], one))
        }
        for one in get_args(Better)[::-1]
    )
    assert {name: (entry["value"], entry["unit"]) for name, entry in lower.items()} == {
        "latency": (0.2345, "ms"),
        "drop": (4.23, "pp"),
        "size": (0.0456, "MB"),
        "memory": (12.5, "MB"),
        "build time": (1.25, "s"),
    }
    assert {name: (entry["value"], entry["unit"]) for name, entry in higher.items()} == {
        "speedup": (1.9475, "x"),
        "top1 score": (93.55, "%"),
        "agreement": (94.83, "%"),
        "SQNR": (21.37, "dB"),
        "coverage": (87.5, "%"),
    }


def test_an_interval_is_the_range_and_the_rest_is_told() -> None:
    """The tooltip has the status, the reference, the run and the machine."""
    (latency,) = [
        one for one in read(github_action_benchmark(RUN, [a_record()], "lower")) if one["name"] == f"{NAME} latency"
    ]
    assert latency["range"] == "0.2301 to 0.2389"
    assert latency["extra"].split("\n") == ["status FAIL", "reference 0.4567 ms", f"run {RUN.id}", "on Some CPU"]
    (score,) = [one for one in read(github_action_benchmark(RUN, [a_record()], "higher")) if "score" in one["name"]]
    assert "range" not in score
    assert "reference 97.78 %" in score["extra"]


@pytest.mark.parametrize("better", get_args(Better))
def test_checks_without_figures_are_left_out(better: Better) -> None:
    """The action refuses an empty file by itself, and says so."""
    assert read(github_action_benchmark(RUN, [unavailable()], better)) == []
    assert len(read(github_action_benchmark(RUN, [a_pass(), a_pass(), unavailable()], better))) == 5


def test_no_text_is_a_command_to_the_log() -> None:
    """The file is shown there by those who look for a fault in it."""
    nasty = "##[error]x\n::error::y\x1b[2J"
    record = replace(a_record(accuracy=replace(ACCURACY, metric=nasty, unit=nasty)), nodeid=nasty, model=nasty)
    text = github_action_benchmark(replace(RUN, id=nasty), [record], "higher")
    assert "##" not in text
    assert text.replace("\n", "").isprintable()
    assert read(text)


@settings(max_examples=30)
@given(suites)
def test_every_figure_of_any_run_is_in_one_of_the_two(suite: list[Record]) -> None:
    """With its value and unit, in the order of the checks."""
    for better in get_args(Better):
        entries = read(github_action_benchmark(RUN, suite, better))
        expected = [one for record in suite for one in figures_of(record) if one.better == better]
        assert [(one["value"], one["unit"]) for one in entries] == [(one.value, one.unit) for one in expected]
