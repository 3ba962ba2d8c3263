"""A trial of each kind, the real ones on the machine that runs this."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.detection import launches, peers
from tests.benchmarks.detection.__main__ import FAMILIES
from tests.benchmarks.detection.ledger import Ledger
from tests.benchmarks.detection.models import WRITERS


@pytest.mark.parametrize("load", launches.LOADS)
def test_a_launch_finds_a_slow_down_of_a_quarter(load: str, tmp_path: Path) -> None:
    """Five more layers of twenty, at a limit of 3 %."""
    result = launches.trial(tmp_path, "products", load, 25.0, 1)
    assert result["status"] == "FAIL"
    assert result["repeated"]


def test_other_tools_say_something_of_each_model(tmp_path: Path) -> None:
    """Each rule of each model."""
    result = peers.pair(tmp_path, "quiet", 25.0, 1)
    answers = [result[name] for name in WRITERS]
    assert [set(answer) if isinstance(answer, dict) else answer for answer in answers] == [set(peers.RULES)] * len(
        WRITERS
    )


@pytest.mark.parametrize("family", ["worlds", "baseline", "compare", "accuracy", "scores", "changes"])
def test_what_a_simulated_trial_finds_is_read_by_its_rows(family: str, tmp_path: Path) -> None:
    """Of the first arm, in the family's table."""
    arm = FAMILIES[family].arms(tmp_path)[0]
    ledger = Ledger(tmp_path / "found.jsonl")
    before = [row.got for row in FAMILIES[family].rows(ledger)]
    ledger.add(arm.key, 0, arm.trial(1))
    assert [row.got for row in FAMILIES[family].rows(Ledger(tmp_path / "found.jsonl"))] != before
