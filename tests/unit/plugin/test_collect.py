"""Checks as the options of a run want them."""

from __future__ import annotations

import pytest

from pytest_quant.marks.check import checks_of
from pytest_quant.marks.keys import read
from pytest_quant.plugin.collect import with_settings
from pytest_quant.plugin.settings import read_settings
from pytest_quant.spec import Check, LatencyPlan


def _check(pytester: pytest.Pytester, *args: str) -> Check:
    (check,) = checks_of(read({"batch_size": 4}), "ort")
    return with_settings(check, read_settings(pytester.parseconfig(*args)))


def test_the_options_say_how_latency_is_measured(pytester: pytest.Pytester) -> None:
    """The batch size stays that of the mark."""
    plan = LatencyPlan(batch_size=4, max_s=3.0, pages="small")
    assert _check(pytester, "--quant-max-time=3", "--quant-pages=small").latency == plan


def test_latency_that_is_off_says_why(pytester: pytest.Pytester) -> None:
    """No plan, and the reason in words."""
    check = _check(pytester, "--quant-no-latency")
    assert (check.latency, check.latency_off) == (None, "--quant-no-latency is set")


def test_proof_is_asked_for_a_whole_run(pytester: pytest.Pytester) -> None:
    """Not for one mark."""
    assert (_check(pytester).confidence, _check(pytester, "--quant-confidence=0.9").confidence) == (None, 0.9)
