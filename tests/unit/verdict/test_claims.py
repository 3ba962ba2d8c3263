"""What a PASS claims about other samples is true as often as it says."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pytest_quant.result import AccuracyResult, Interval
from pytest_quant.spec import Limits
from pytest_quant.stats.paired import tango_interval
from pytest_quant.verdict.accuracy_limits import accuracy_verdicts

PLAIN = AccuracyResult(n=1, metric="top1", unit="%", better="higher", reference=90.0, candidate=89.0)


@cache
def claims(n: int, lost: int, won: int, allowed: float) -> bool:
    """Tell whether the verdict on so many answers says how sure it is."""
    low, high = tango_interval(lost, won, n)
    accuracy = replace(PLAIN, n=n, discordant=lost + won, lost=lost, sample_weight=100.0 / n)
    accuracy = replace(accuracy, drop=100.0 * (lost - won) / n, drop_ci=Interval(100.0 * low, 100.0 * high))
    (verdict,) = accuracy_verdicts(Limits(max_drop=allowed), accuracy, None)
    return "95 % sure" in verdict.reason


@pytest.mark.parametrize("n", [100, 400, 1500])
@pytest.mark.parametrize("allowed", [1.0, 3.0])
@pytest.mark.parametrize("won", [0.0, 0.01, 0.04])
def test_at_the_limit_a_claim_is_made_in_at_most_5_percent(n: int, allowed: float, won: float) -> None:
    """Summed over all numbers of lost and won answers that are likely if the true drop is the limit."""
    shares = np.array([won + allowed / 100.0, won, 1.0 - 2.0 * won - allowed / 100.0])
    most = [int(scipy_stats.binom.ppf(1.0 - 1e-7, n, share)) + 1 for share in shares[:2]]
    cells = np.array([(i, j, n - i - j) for i in range(most[0] + 1) for j in range(most[1] + 1) if i + j <= n])
    chances = scipy_stats.multinomial.pmf(cells, n, shares)
    likely = chances > 1e-9
    made = [claims(n, int(i), int(j), allowed) for i, j, _ in cells[likely]]
    assert float(np.sum(chances[likely][made])) <= 0.05
