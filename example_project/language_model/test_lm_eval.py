"""What lm-eval logged of a small language model that adds, in three precisions; the files are in `runs`."""

from __future__ import annotations

import pytest

from pytest_quant import Scores


@pytest.fixture
def greedy_int4() -> Scores:
    """Two tasks, sums with a carry and sums without, whose answers are the same in each run."""
    return Scores.from_lm_eval("runs/fp32", "runs/int4", task=["carry", "no_carry"], deterministic=True)


@pytest.fixture
def greedy_int2() -> Scores:
    return Scores.from_lm_eval("runs/fp32", "runs/int2", task=["carry", "no_carry"], deterministic=True)


@pytest.fixture
def sampled_int4() -> Scores:
    """One task whose answers are drawn anew in each run: two runs of each side, with the same two seeds."""
    return Scores.from_lm_eval("runs/fp32", "runs/int4", task="sums")


@pytest.mark.quant(scores="greedy_int4", max_drop=5.0)
def test_greedy_int4() -> None:
    """On these questions, no more than that: one sum with a carry is won, and one without is lost."""


@pytest.mark.xfail(strict=True, raises=pytest.fail.Exception, reason="2 bits are too few: most sums are wrong")
@pytest.mark.quant(scores="greedy_int2", max_drop=5.0)
def test_greedy_int2() -> None:
    """Must be caught."""


@pytest.mark.quant(scores="sampled_int4", max_drop=2.0)
def test_sampled_int4() -> None:
    """INCONCLUSIVE, which passes with a warning: 30 questions are too few to show a loss of two points, or none."""
