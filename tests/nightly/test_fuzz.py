"""Hostile input of every kind, drawn by hypothesis: nothing but our own errors comes out, and they can be printed.

The same inputs each night. ``FUZZ_TIMES=20 FUZZ_SEED=7`` in the environment draws others, and twenty times as many.
"""

from __future__ import annotations

import os

import hypothesis
import pytest

from tests.nightly.fuzz import on_data, on_files, on_marks, on_models

TARGETS = {
    "marks": on_marks.READ,
    "data": on_data.DATA,
    "model-files": on_models.READ,
    "models": on_models.MEASURE,
    "runs": on_files.RUNS,
    "baselines": on_files.BASELINES,
}
TIMES, SEED = (int(os.environ.get(name, usual)) for name, usual in (("FUZZ_TIMES", "1"), ("FUZZ_SEED", "0")))


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_our_errors_comes_out(name: str) -> None:
    """Whatever it is; hypothesis tells the smallest input that breaks us."""
    target = TARGETS[name]
    settings = hypothesis.settings(
        max_examples=TIMES * target.examples, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    settings(hypothesis.seed(SEED)(hypothesis.given(case=target.cases)(lambda case: target.meets(case))))()
