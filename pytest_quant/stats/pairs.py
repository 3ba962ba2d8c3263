"""Two sides compared by pairs of processes: a t interval over pairs, with at most two looks at them.

One pair is one number, because the rounds within two processes share whatever those processes got: where their memory
lies, which core they run on (Kalibera and Jones 2013, ISMM). More rounds do not lower that noise; more pairs do.

Two looks at a test of level 2.5 % would be wrong more often than that (4 % of the time). The level is spent evenly
instead (linear spending, Lan and DeMets 1983, Biometrika 70, 659-663): 1.25 % at the first look, the rest at the
second.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

FIRST_LOOK, LAST_LOOK = 5, 10
"""Numbers of pairs at which a decision may be made."""

_CRITICAL = {FIRST_LOOK: 3.4954, LAST_LOOK: 2.562}
"""Of the t statistic at each look.

The first is Student's quantile for 4 degrees of freedom at 1.25 %. At the second, of normal pairs that are not decided
at the first, 1.25 % of all lie beyond 2.562 (32 million simulated, standard error 0.001).
"""

LimitSide = Literal["above", "within", "open"]
"""Of a limit: the shift lies above it, within it, or cannot be told."""


@dataclass(frozen=True, slots=True)
class PairedShift:
    """Mean over pairs of a natural logarithm of a ratio, with its interval: both ends hold at all looks together.

    Attributes
    ----------
    value, low, high : in natural logarithm units.
    sd : standard deviation between pairs, in the same units.
    pairs : number of pairs.
    """

    value: float
    low: float
    high: float
    sd: float
    pairs: int

    def against(self, limit: float) -> LimitSide:
        """Return where the shift lies of `limit`, which has its units; each wrong answer has a level of 2.5 %."""
        if self.low > limit:
            return "above"
        return "within" if self.high <= limit else "open"


def paired_shift(values: Sequence[float]) -> PairedShift:
    """Estimate the mean of one number per pair of processes; between two looks the earlier one's bounds are used.

    Parameters
    ----------
    values : natural logarithms of a ratio, two at least.
    """
    pairs = len(values)
    mean, sd = statistics.fmean(values), statistics.stdev(values)
    reach = _CRITICAL[LAST_LOOK if pairs >= LAST_LOOK else FIRST_LOOK] * sd / math.sqrt(pairs)
    return PairedShift(mean, mean - reach, mean + reach, sd, pairs)
