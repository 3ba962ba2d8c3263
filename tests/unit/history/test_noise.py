"""The noise of launches: of each series, and what all series on one machine share."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_quant.history.noise import NO_NOISE_KNOWN, noise_by_machine, shared_noise
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.result import NOTHING_KNOWN, Status


def test_series_on_one_machine_have_their_noise_in_common() -> None:
    """Twenty series of thirty days with 1 % between them; a step in one, and another machine, change nothing."""
    random = np.random.default_rng(5)
    points = [
        CheckSummary(
            f"r{day}", f"2026-03-{day:02}T12:00:00+00:00", f"c{day}", "main", False, f"s{series}", "v", machine, "avx2",
            Status.PASS, speedup=float(np.exp(random.normal(0.0, sd))) * (2.0 if series == 3 and day > 15 else 1.0),
        )
        for machine, sd in (("here", 0.01), ("there", 0.1))
        for day in range(1, 31)
        for series in range(20)
    ]  # fmt: skip
    found = noise_by_machine(points)
    here, there = (shared_noise(found[machine].values()) for machine in ("here", "there"))
    assert here.speedup.between.sd == pytest.approx(0.01, rel=0.12)
    assert there.speedup.between.sd == pytest.approx(0.1, rel=0.12)
    assert here.candidate == NOTHING_KNOWN
    assert noise_by_machine([]) == {}
    assert shared_noise([]) == NO_NOISE_KNOWN
