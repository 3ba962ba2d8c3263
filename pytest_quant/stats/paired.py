"""Right or wrong, twice, on the same samples: McNemar's test and Tango's interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

_BISECTIONS = 60
_NEGLIGIBLE = 1e-17


def mcnemar_p(lost: int, won: int) -> float:
    """Exact two-sided p that `lost` and `won` come from a fair coin (McNemar 1947, exact form).

    Twice the binomial tail P(X <= min(lost, won)), at most 1; the tail is summed from its largest term down.

    Parameters
    ----------
    lost : samples that only the reference gets right.
    won : samples that only the candidate gets right.
    """
    n, k = lost + won, min(lost, won)
    log_largest = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2.0)
    term = tail = 1.0
    while k > 0 and term > _NEGLIGIBLE * tail:
        term *= k / (n - k + 1)
        tail += term
        k -= 1
    return min(1.0, 2.0 * math.exp(log_largest) * tail)


def tango_interval(lost: int, won: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval of the difference (lost - won) / n of two paired proportions, within -1..1.

    Inverts the score test of Tango (1998), Statistics in Medicine 17, 891-908. Unlike the Wald interval it keeps
    its level for few discordant samples, and is not empty when there are none.
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    estimate = (lost - won) / n

    def excess(delta: float) -> float:
        return abs(_score(lost, won, n, delta)) - z

    return _crossing(estimate, -1.0, excess), _crossing(estimate, 1.0, excess)


def _score(lost: int, won: int, n: int, delta: float) -> float:
    """Tango's statistic: the estimate's distance from `delta` in standard errors under `delta`."""
    b = -lost - won + (2 * n - lost + won) * delta
    c = -won * delta * (1.0 - delta)
    q = (math.sqrt(max(0.0, b * b - 8.0 * n * c)) - b) / (4.0 * n)
    variance = n * (2.0 * q + delta * (1.0 - delta))
    distance = lost - won - n * delta
    if variance <= 0.0:
        return 0.0 if distance == 0.0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


def _crossing(inside: float, outside: float, excess: Callable[[float], float]) -> float:
    """Bisect between a difference that the test accepts and the end of the range."""
    if excess(outside) <= 0.0:
        return outside
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2.0
        if excess(middle) <= 0.0:
            inside = middle
        else:
            outside = middle
    return inside
