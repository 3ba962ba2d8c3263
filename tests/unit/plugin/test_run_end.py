"""What becomes of a run at its end: backends that must be used."""

from __future__ import annotations

import pytest

from pytest_quant.plugin.run_end import faults_of_required

_UNUSED = "--quant-require: no test used 'trt'"


@pytest.mark.parametrize(("all_ran", "faults"), [(True, [_UNUSED]), (False, [])])
def test_a_backend_that_no_test_used_is_a_fault_of_a_whole_run(all_ran: bool, faults: list[str]) -> None:
    """A part of a suite may have no test for it."""
    assert faults_of_required(["ort", "trt"], {"ort"}, all_ran=all_ran) == faults


@pytest.mark.parametrize("all_ran", [True, False])
def test_an_unknown_name_is_a_fault_of_any_run(all_ran: bool) -> None:
    """It is told once, with the nearest name."""
    (line,) = faults_of_required(["otr"], {"ort"}, all_ran=all_ran)
    assert line.startswith("--quant-require: unknown backend 'otr'; did you mean 'ort'?")
