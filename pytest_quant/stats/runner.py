"""The noise of a machine that times engines, and what limits it can hold: pure numbers.

A draw is one number of two sessions in one process: the median over rounds of a log ratio whose true value is known, or
cancels. Everything is in natural logarithms, where 0.01 is 1 %.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_quant.spec import Spread
from pytest_quant.stats.ratio import student_quantile

MEDIAN_EFFICIENCY = math.sqrt(math.pi / 2.0)
"""The standard error of a median of normal values, over that of their mean."""

NORMAL_MAD = 1.0 / 0.6744897501960817
"""The standard deviation of normal values, over their median absolute deviation, which is their upper quartile."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw of the noise between sessions: a log ratio that would be 0 without it, and its standard error."""

    log_ratio: float
    error: float


def draw_of(logs: Sequence[float]) -> Draw:
    """Return the median of the rounds' log ratios, at least two, with its standard error.

    The error is sqrt(pi / 2) / sqrt(n) times the rounds' standard deviation (Kendall and Stuart 1977, volume 1, section
    10.10), which comes from their median absolute deviation: one burst of load is no noise of every round.
    """
    return Draw(statistics.median(logs), MEDIAN_EFFICIENCY * robust_sd(logs) / math.sqrt(len(logs)))


def robust_sd(values: Sequence[float]) -> float:
    """Return the median absolute deviation as a standard deviation of normal values."""
    middle = statistics.median(values)
    return NORMAL_MAD * statistics.median(abs(value - middle) for value in values)


def session_spread(prior: Spread, draws: Iterable[Draw]) -> Spread:
    """Return the standard deviation between sessions, from a prior and draws with a mean of 0.

    A prior variance with its degrees of freedom is averaged with that of the draws, each weighed by its own (Smyth
    2004, Statistical Applications in Genetics and Molecular Biology 3, article 3, equation 3.4). What the rounds
    explain is taken off each draw: the variance of one is that between sessions plus its squared error. Its weight
    is the information that it has about the first of them, where that is the prior one: 1 for a draw without error,
    a quarter where both are equal (one step of scoring; Harville 1977, Journal of the American Statistical
    Association 72, 320-338).

    Parameters
    ----------
    prior : what is known without the draws.
    draws : any number of independent ones.
    """
    variance = prior.sd**2
    found, freedom = prior.freedom * variance, prior.freedom
    for draw in draws:
        weight = (variance / (variance + draw.error**2)) ** 2
        found += weight * (draw.log_ratio**2 - draw.error**2)
        freedom += weight
    # Rounds that scatter more than they should would take the variance below 0.
    floor = prior.freedom * variance / freedom
    return Spread(math.sqrt(max(found / freedom, floor * _LEAST_SHARE)), freedom)


_LEAST_SHARE = 0.1
"""Of what the prior alone would leave of its variance beside so many draws of 0."""


@dataclass(frozen=True, slots=True)
class Held:
    """The smallest limits that a machine can hold, in percent, and what was assumed.

    Attributes
    ----------
    one_pct : judged in one launch.
    five_pct : judged over five launches, against a number that is known.
    five_each_pct : five launches against a baseline of five.
    """

    one_pct: float
    five_pct: float
    five_each_pct: float


FALSE_ALARMS = 0.01
POWER = 0.80
_LAUNCHES = 5


def held_limits(launch: Spread, half_width: float, *, confidence: float = 0.95) -> Held:
    """Return the smallest limits L at which verdicts are worth something on a machine.

    A limit is held where code that did not change passes in at least 80 % of the runs and fails in at most 1 %, and
    code that became slower by twice the limit fails in at least 80 %. A run says log ratio +- w, passes where all of
    that lies within L, and fails where all of it lies beyond; the log ratio has the standard deviation s. Unchanged
    code passes in 80 % of the runs where L >= w + t(0.80) s, and fails in 1 % where L >= t(0.99) s - w; what lost twice
    the limit is the first case mirrored. Over m launches s is divided by sqrt(m), and w is t(0.975) times that.

    Parameters
    ----------
    launch : the spread of one launch's log ratio: between processes, rounds included.
    half_width : w of one launch, as a natural logarithm.
    confidence : of the interval over launches, 0..1.
    """
    passes, fails = _one_sided(POWER, launch.freedom), _one_sided(1.0 - FALSE_ALARMS, launch.freedom)

    def held(sd: float, width: float) -> float:
        return 100.0 * math.expm1(max(width + passes * sd, fails * sd - width))

    of_five = launch.sd / math.sqrt(_LAUNCHES)
    reach = student_quantile(confidence, launch.freedom)
    both = math.sqrt(2.0) * of_five
    return Held(held(launch.sd, half_width), held(of_five, reach * of_five), held(both, reach * both))


def _one_sided(share: float, freedom: float) -> float:
    """Return the t with P(T <= t) = `share`, above one half."""
    return student_quantile(2.0 * share - 1.0, freedom)


_STEPS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0)


def to_write(limit_pct: float) -> float:
    """Return the next round number of percent that is not below a limit; whole tens above 50."""
    return next((step for step in _STEPS if step >= limit_pct), 10.0 * math.ceil(limit_pct / 10.0))
