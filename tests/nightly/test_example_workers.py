"""Two workers find in the example project what one process finds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.integration.test_example_project import CAUGHT, CHECKS, facts
from tests.support.example import ExampleRun, run_example


def test_two_workers_find_the_same(example: Path, first_run: ExampleRun) -> None:
    """Under ``-n 2`` every verdict but those on time is the same, no good engine fails, each record is there once."""
    run = run_example(example, "-n", "2", "--quant-max-time=1", "--quant-diagnose-time=0")
    assert Counter(check["nodeid"] for check in run.document["checks"]) == Counter(CHECKS)
    assert facts(run) == facts(first_run)
    for name, check in run.checks.items():
        assert check["status"] != "FAIL" or name in CAUGHT, run.output
