"""How many samples it takes to tell a drop from its limit."""

from __future__ import annotations

import math
from statistics import NormalDist


def samples_to_resolve(
    variance: float, drop: float, limit: float, *, confidence: float = 0.95, power: float = 0.8
) -> int | None:
    """Samples n at which a one-sided test tells `drop` from `limit`; ``None`` when they are equal.

    n = (z_confidence + z_power)^2 variance / (limit - drop)^2, the normal sample size for a paired difference; for
    right or wrong answers the variance is (discordant share) - drop^2 (Connor 1987, Biometrics 43, 207-211).

    Parameters
    ----------
    variance : of one sample's difference, in the squared unit of `drop` and `limit`.
    """
    distance = limit - drop
    if distance == 0.0 or variance <= 0.0:
        return None
    z = NormalDist().inv_cdf(confidence) + NormalDist().inv_cdf(power)
    return math.ceil(z * z * variance / (distance * distance))
