"""A failure says what was timed, against what, and by which clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.report.failure import failure
from pytest_quant.result import LatencyResult, Status, Verdict
from tests.unit.record.examples import LATENCY, a_record


def _told(latency: LatencyResult) -> str:
    """The message about a broken limit on the speedup, with its line breaks undone."""
    broken = Verdict("min_speedup", 3.0, 1.95, Status.FAIL, "because of this")
    return " ".join(failure(a_record(latency=latency, verdicts=(broken,))).split())


@pytest.mark.parametrize(
    ("precision", "tf32", "state", "named"),
    [
        ("fp32", None, "", "FP32"),
        ("fp32", False, "latency reference: fp32, TF32 off", "FP32"),
        ("tf32", True, "latency reference: fp32 with TF32", "FP32 with TF32"),
        ("fp16", None, "latency reference: fp16", "fp16"),
    ],
)
def test_what_latency_is_compared_with_is_told(precision: str, tf32: bool | None, state: str, named: str) -> None:
    """On a device without TF32 there is one FP32 only, and no line about it."""
    latency = replace(LATENCY, reference_precision=precision, tf32=tf32)
    text = _told(latency)
    assert f"the candidate is faster than {named}, and that is not enough" in text
    assert state in text
    assert ("latency reference" in text) is bool(state)
