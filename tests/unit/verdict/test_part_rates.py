"""How often a check of many labels or groups fails by luck: simulated answers, judged as in a check."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_quant.metrics.builtin import BUILTIN
from pytest_quant.metrics.parts import score_parts
from pytest_quant.result import AccuracyResult, Status, TaskScore
from pytest_quant.spec import Limits
from pytest_quant.verdict.accuracy_limits import accuracy_verdicts

DRAWS = 400
"""Of each family; with 2000 and sizes drawn anew they fail in at most 0.3 and 1.9 %."""

WHOLE = AccuracyResult(n=1, metric="top1", unit="%", better="higher")
FAMILIES = [("label", 12, 3.0), ("label", 12, 1.0), ("group", 8, 2.0)]
"""Parts, their number, and the limit on each in percentage points."""


@cache
def row(lost: int, won: int, n: int, allowed: float) -> TaskScore:
    """Return the row of a part by its numbers; few are drawn, so that each is computed once."""
    reference, candidate = np.ones((2, n), bool)
    candidate[:lost] = False
    reference[lost : lost + won] = False
    return score_parts(WHOLE, BUILTIN["top1"], (reference, candidate), np.full(n, "part"), allowed)[0]


def failing_pct(part: str, parts: int, allowed: float, won: float, drop: float, draws: int = DRAWS) -> float:
    """Return how many of the checks fail, in percent, if each part truly loses `drop` of its samples.

    The parts have 30 to 300 samples, in all sizes between. Of the samples of each a share `won` is wrong by the
    reference alone, and `won` + `drop` by the candidate alone.
    """
    random = np.random.default_rng(1)
    sizes: NDArray[np.int64] = np.geomspace(30, 300, parts).round().astype(int)
    failed = 0
    for _ in range(draws):
        counts = random.multinomial(sizes, [won + drop, won, 1.0 - 2.0 * won - drop])
        rows = tuple(
            replace(row(int(lost), int(gained), int(n), allowed), name=str(place))
            for place, (n, (lost, gained, _)) in enumerate(zip(sizes, counts, strict=True))
        )
        whole = replace(WHOLE, n=int(sizes.sum()), sample_weight=100.0 / int(sizes.sum()))
        accuracy = replace(whole, by_label=rows) if part == "label" else replace(whole, by_group=rows)
        (verdict,) = accuracy_verdicts(Limits(max_drop=((part, allowed),)), accuracy, None)
        failed += verdict.status is Status.FAIL
    return 100.0 * failed / draws


@pytest.mark.parametrize(("part", "parts", "allowed"), FAMILIES)
@pytest.mark.parametrize("won", [0.02, 0.05])
def test_no_change_fails_in_at_most_1_percent(part: str, parts: int, allowed: float, won: float) -> None:
    """As many answers are won as lost."""
    assert failing_pct(part, parts, allowed, won, 0.0) <= 1.0


@pytest.mark.parametrize(("part", "parts", "allowed"), FAMILIES)
@pytest.mark.parametrize("won", [0.0, 0.05])
def test_each_part_at_its_limit_fails_in_at_most_5_percent(part: str, parts: int, allowed: float, won: float) -> None:
    """Any of them, after Holm."""
    assert failing_pct(part, parts, allowed, won, allowed / 100.0) <= 5.0


def test_four_times_the_limit_is_seen() -> None:
    """Or such rates would be reached by a check that never fails."""
    assert failing_pct("label", 12, 3.0, 0.02, 0.12, draws=200) >= 90.0
