"""One launch: a fresh process that times a check as the plugin does, judges it, and prints what it found as JSON.

Its arguments are a file of `TimingJob.save`, the least speedup, a seed and the seconds it may take.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from pytest_quant.cache import Cache
from pytest_quant.measure.build import Tools
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.steps import Steps
from pytest_quant.measure.timing import time_check
from pytest_quant.measure.timing_process import TimingJob
from pytest_quant.spec import Check, Dataset, LatencyPlan, Limits
from pytest_quant.verdict import Judge
from pytest_quant.verdict.latency_limits import latency_verdicts


def launch(file: Path, min_speedup: float, seed: int, max_s: float) -> dict[str, object]:
    """Time and judge once; the second measurement before a FAIL included."""
    timed = TimingJob.load(file)
    check = Check(
        nodeid=f"test_detection.py::test_{seed}",
        series_nodeid="test_detection.py::test",
        candidate=timed.candidate.built.spec,
        reference=timed.reference.built.spec,
        dataset=Dataset("arrays", None),
        limits=Limits(min_speedup=min_speedup),
    )
    with tempfile.TemporaryDirectory() as folder:
        locks = DeviceLocks(lambda _: None)
        tools = Tools(Cache(Path(folder)), Steps(lambda _: None), locks)
        plan, judge = LatencyPlan(max_s=max_s), Judge(check.limits)
        latency = time_check(check, plan, timed.reference, timed.candidate, tools, judge)
    (verdict,) = latency_verdicts(check.limits, latency)
    return {
        "status": verdict.status.value,
        "reason": verdict.reason,
        "rounds": latency.rounds,
        "spent_s": latency.spent_s,
        "speedup": latency.speedup,
        "speedup_ci": [latency.speedup_ci.low, latency.speedup_ci.high],
        "null_ratio_ci": [latency.null_ratio_ci.low, latency.null_ratio_ci.high],
        "repeated": latency.repeat is not None,
    }


if __name__ == "__main__":
    result = launch(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    sys.stdout.write(json.dumps(result) + "\n")
