"""Latency that could not be judged: only what the measurement itself tells is advised."""

from __future__ import annotations

from dataclasses import replace

from pytest_quant.diagnose.hints import timing_hints
from pytest_quant.spec import LatencyPlan
from tests.unit.record.examples import LATENCY

_PLAN = LatencyPlan(max_s=20.0)


def test_too_few_rounds_ask_for_more_time_than_there_was() -> None:
    """Six times what was spent; never the time that was given already."""
    few = replace(LATENCY, reasons=("too few rounds: 3 in the time allowed, and 95 % confidence needs 6",))
    (hint,) = timing_hints(few, _PLAN)
    assert hint.paste == "--quant-max-time=120"


def test_other_reasons_ask_for_a_quiet_machine() -> None:
    """The reason is said as it was found."""
    (hint,) = timing_hints(replace(LATENCY, reasons=("the null is off: 1.2 times",)), _PLAN)
    assert (hint.paste, hint.text) == ("", "measure on a quiet machine: the null is off: 1.2 times")


def test_figures_that_can_be_trusted_need_no_advice() -> None:
    """Nor does latency that was not measured."""
    assert timing_hints(LATENCY, _PLAN) == ()
    assert timing_hints(None, None) == ()
