"""What a command takes, told as on a machine where its limit holds: each turn over that of a yardstick beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pytest_quant.stats.ratio import Estimate

TURNS = 7
"""At least 6 give an interval of 95 %."""

_YARDSTICK = "import sqlalchemy"
"""What commands start with. On a slower machine, or beside others, it takes longer as they do."""


def median_interval(values: Sequence[float]) -> Estimate:
    """Return the median of `values` with its percentile bootstrap interval of 95 %, in their unit."""
    turns = np.random.default_rng(0).integers(0, len(values), size=(2000, len(values)))
    low, high = np.quantile(np.median(np.asarray(values)[turns], axis=1), [0.025, 0.975])
    return Estimate(float(np.median(values)), float(low), float(high))


def beside_yardstick(
    run: Callable[[], object], environment: Mapping[str, str], yardstick_s: float, *, clock: Callable[[], float]
) -> Estimate:
    """Return the seconds of `run`, the median of all turns with its interval; each turn is divided by its slowness.

    Parameters
    ----------
    run : what is timed.
    environment : variables of the yardstick's process.
    yardstick_s : seconds of the yardstick where the limit holds; a faster machine counts as one where it does.
    clock : seconds, of the clock or of processors.
    """
    taken: list[float] = []
    for _ in range(TURNS):
        began = clock()
        run()
        between = clock()
        subprocess.run([sys.executable, "-c", _YARDSTICK], env=environment, check=True)
        slowness = max(1.0, (clock() - between) / yardstick_s)
        taken.append((between - began) / slowness)
    return median_interval(taken)
