"""From raw runs to the figures of a result."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_quant.measure.block import Block
from pytest_quant.measure.latency_figures import latency_figures
from pytest_quant.result import LatencyResult
from pytest_quant.spec import LatencyPlan
from pytest_quant.stats.ratio import runs_needed

ROUNDS = 10


def of_runs(runs_ns: np.ndarray) -> LatencyResult:
    """The figures of three engines that took the same times in rounds of equal length."""
    blocks = [Block(9, tuple(int(one) for one in part)) for part in np.split(runs_ns, ROUNDS)]
    return latency_figures(blocks, blocks, blocks, LatencyPlan())


@pytest.mark.parametrize(("runs", "p90", "p99"), [(20, False, False), (30, True, False), (300, True, True)])
def test_a_percentile_is_stated_from_enough_runs(runs: int, *, p90: bool, p99: bool) -> None:
    """It is numpy's, in milliseconds; fewer runs do not bound it from above, and then there is none."""
    assert ((runs >= runs_needed(90)), (runs >= runs_needed(99))) == (p90, p99)
    times_ns = np.random.default_rng(0).integers(1_000_000, 9_000_000, runs)
    found = of_runs(times_ns)
    for percentile, stated, value in ((90, p90, found.candidate_p90_ms), (99, p99, found.candidate_p99_ms)):
        expected = float(np.percentile(times_ns / 1e6, percentile))
        assert value == (pytest.approx(expected) if stated else None)
