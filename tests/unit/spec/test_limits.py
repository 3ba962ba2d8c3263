"""A row of the table of limits is all that a limit needs: reading, unit, direction and verdict follow from it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.result import AccuracyResult, Interval, LatencyFigures, OutputError, Resources, Status, Verdict
from pytest_quant.spec import LIMITS, Limits, limits_on
from tests.unit.record.examples import a_check, a_measurement, verdicts_on

NOT_IN_A_MARK = {"default_min_coverage"}
PLAIN = limits_on("accuracy", "output", "resources")
"""Limits that are judged by their rows alone."""

_OF = {"accuracy": AccuracyResult, "output": OutputError, "resources": Resources}
_SECTIONS = _OF | {"latency": LatencyFigures}


def _limits(name: str, value: object) -> Limits:
    values: dict[str, Any] = {name: value}
    return Limits(**values)


def _found(name: str, figure: float | None) -> Verdict:
    """Judge a check whose only figure is this one, with 3.0 as its only limit."""
    row = LIMITS[name]
    attribute = "run_memory_mb" if row.attribute == "peak_memory_mb" else row.attribute
    figures: dict[str, Any] = {attribute: figure}
    if row.interval and figure is not None:
        figures[row.interval.partition(".")[2]] = Interval(figure, figure)
    accuracy = AccuracyResult(n=10, **figures if row.figure.startswith("accuracy.") else {})
    if row.figure.partition(".")[0] == "output":
        accuracy = replace(accuracy, by_output=(OutputError("y", **figures),))
    resources = Resources(**figures if row.figure.partition(".")[0] == "resources" else {})
    check = replace(a_check(), limits=_limits(name, 3.0))
    (verdict,) = verdicts_on(replace(a_measurement(check), accuracy=accuracy, resources=resources))
    return verdict


def test_every_field_is_a_row_but_the_default_that_no_mark_sets() -> None:
    """A field without a row could not be written."""
    assert {field.name for field in fields(Limits)} - set(LIMITS) == NOT_IN_A_MARK


@pytest.mark.parametrize("name", LIMITS)
def test_a_row_is_whole(name: str) -> None:
    """Its name says the direction, and its figure is one that is measured."""
    row = LIMITS[name]
    assert row.name == name
    assert name.startswith(("max_", "min_"))
    assert row.help
    assert row.called
    about = row.figure.partition(".")[0]
    assert about in {"score", "reference", "accuracy", "output", "latency", "resources", "coverage"}
    if name in PLAIN:
        assert hasattr(_OF[about], row.attribute)
    else:
        assert row.attribute == ""
    assert (row.equal is not None) is (row.figure.partition(".")[0] == "output")
    section, _, attribute = row.interval.partition(".")
    assert not section or attribute in {field.name for field in fields(_SECTIONS[section])}


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_is_judged_once_where_a_mark_sets_it(name: str) -> None:
    """By its row, or by a rule of its own; none is forgotten, and none comes without being asked for."""
    check = a_check()
    value = ((50.0, 3.0),) if name == "max_latency_ms" else 3.0
    limited = replace(check, limits=_limits(name, value))
    assert [verdict.limit for verdict in verdicts_on(a_measurement(limited))] == [name]
    assert verdicts_on(a_measurement(replace(check, limits=Limits()))) == ()


@pytest.mark.parametrize("name", PLAIN)
@given(figure=st.floats(0.0, 6.0).filter(lambda figure: figure == 3.0 or abs(figure - 3.0) > 1e-6))
def test_its_name_says_which_side_is_broken(name: str, figure: float) -> None:
    """More than a maximum, less than a minimum; the limit itself is within it."""
    verdict = _found(name, figure)
    holds = figure <= 3.0 if name.startswith("max_") else figure >= 3.0
    assert (verdict.status, verdict.observed) == (Status.PASS if holds else Status.FAIL, figure)


@pytest.mark.parametrize("name", PLAIN)
def test_its_unit_follows_both_figures(name: str) -> None:
    """Percents without a space, as everywhere in verdicts."""
    row, verdict = LIMITS[name], _found(name, 4.0)
    unit = row.unit if row.unit in ("", "%") else f" {row.unit}"
    span = " [4, 4]" if row.interval else ""
    assert verdict.reason.startswith(f"4{span}{unit} ")
    assert verdict.reason.endswith(f" 3.0{unit}")


@pytest.mark.parametrize("name", PLAIN)
def test_a_figure_that_is_missing_is_never_a_pass(name: str) -> None:
    """The row says why it may be missing."""
    verdict = _found(name, None)
    assert (verdict.status, verdict.observed) == (Status.INCONCLUSIVE, None)
    assert verdict.reason.startswith("not measured: ")
    assert verdict.reason.endswith(LIMITS[name].missing)


@pytest.mark.parametrize("name", limits_on("output"))
def test_equal_outputs_are_within_every_limit(name: str) -> None:
    """Whatever they hold: there may be no SQNR or cosine of them."""
    accuracy = AccuracyResult(n=10, by_output=(OutputError("y", identical=True),))
    check = replace(a_check(), limits=_limits(name, 0.0 if name.startswith("max_") else 1.0))
    (verdict,) = verdicts_on(replace(a_measurement(check), accuracy=accuracy))
    assert verdict.status is Status.PASS


def test_limits_that_need_the_latency_are_told() -> None:
    """Those are on times, or on times against a baseline's."""
    values = {name: ((50.0, 1.0),) if name == "max_latency_ms" else 1.0 for name in LIMITS}
    needing = {name for name, value in values.items() if _limits(name, value).judges_latency}
    assert needing == {
        *("max_latency_ms", "max_ttft_ms", "max_tpot_ms"),
        *("min_speedup", "max_slowdown", "max_p50_increase"),
    }
    assert not Limits().judges_latency


def test_limits_that_name_outputs_are_told() -> None:
    """A limit on all outputs names none."""
    limits = Limits(min_sqnr_db=(("a", 1.0), ("b", 2.0)), min_cosine=0.9, max_abs_error=(("a", 1.0),))
    assert limits.by_output == (("min_sqnr_db", "a"), ("min_sqnr_db", "b"), ("max_abs_error", "a"))


def test_a_drop_is_limited_by_parts() -> None:
    """Only `overall` is on all samples, and a key that is none of the reserved words names an output."""
    by_part = Limits(max_drop=(("overall", 1.0), ("label", 3.0), ("group", 2.0), ("mask", 0.5)))
    assert by_part.drops == {"overall": 1.0, "label": 3.0, "group": 2.0, "mask": 0.5}
    assert by_part.by_output == (("max_drop", "mask"),)
    margins = [
        limits.margin for limits in (by_part, Limits(max_drop=2.0), Limits(max_drop=(("label", 3.0),)), Limits())
    ]
    assert margins == [1.0, 2.0, None, None]
