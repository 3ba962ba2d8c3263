"""A real trial of each kind, on the machine that runs this."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.detection import launches, peers
from tests.benchmarks.detection.models import WRITERS


@pytest.mark.parametrize("load", launches.LOADS)
def test_a_launch_finds_a_slow_down_of_a_quarter(load: str, tmp_path: Path) -> None:
    """Five more layers of twenty, at a limit of 3 %."""
    found = launches.trial(tmp_path, "products", load, 25.0, 1)
    assert found["status"] == "FAIL"
    assert found["repeated"]


def test_other_tools_say_something_of_each_model(tmp_path: Path) -> None:
    """Each rule of each model."""
    found = peers.pair(tmp_path, "quiet", 25.0, 1)
    answers = [found[name] for name in WRITERS]
    assert [set(one) if isinstance(one, dict) else one for one in answers] == [set(peers.RULES)] * len(WRITERS)
