"""Draws of noise: one number with its error from each session or launch, what they scatter by, and their mean.

Everything is in natural logarithms, where 0.01 is 1 %. What draws differ by beyond their own errors is known beforehand
from the runner, roughly, and shown by the draws themselves, roughly. Both are averaged, each by its degrees of freedom.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_quant.spec import Spread
from pytest_quant.stats.ratio import Estimate, student_quantile

MEDIAN_EFFICIENCY = math.sqrt(math.pi / 2.0)
"""The standard error of a median of normal values, over that of their mean."""

NORMAL_MAD = 1.0 / 0.6744897501960817
"""The standard deviation of normal values, over their median absolute deviation, which is their upper quartile."""


@dataclass(frozen=True, slots=True)
class ValueWithError:
    """A natural logarithm, of a time or of a ratio of times, and its standard error."""

    value: float
    error: float


def median_with_error(logs: Sequence[float]) -> ValueWithError:
    """Return the median of the rounds' log ratios, at least two, with its standard error.

    The error is sqrt(pi / 2) / sqrt(n) times the rounds' standard deviation (Kendall and Stuart 1977, volume 1, section
    10.10), which comes from their median absolute deviation: one burst of load is no noise of every round.
    """
    return ValueWithError(statistics.median(logs), MEDIAN_EFFICIENCY * robust_sd(logs) / math.sqrt(len(logs)))


def robust_sd(values: Sequence[float]) -> float:
    """Return the median absolute deviation as a standard deviation of normal values."""
    middle = statistics.median(values)
    return NORMAL_MAD * statistics.median(abs(value - middle) for value in values)


def session_spread(prior: Spread, draws: Iterable[ValueWithError]) -> Spread:
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
    squares, freedom = prior.freedom * variance, prior.freedom
    for draw in draws:
        weight = (variance / (variance + draw.error**2)) ** 2
        squares += weight * (draw.value**2 - draw.error**2)
        freedom += weight
    # Rounds that scatter more than they should would take the variance below 0.
    floor = prior.freedom * variance / freedom
    return Spread(math.sqrt(max(squares / freedom, floor * _LEAST_SHARE)), freedom)


_LEAST_SHARE = 0.1
"""Of what the prior alone would leave of its variance beside so many draws of 0; of the mean variance of launches, for
one that claims next to none."""


LAUNCH_LOOKS = (3, 5, 10)
"""Numbers of launches at which it is asked whether they decide a limit, where they stop as soon as they do."""

LOOK_CONFIDENCE = 1.0 - 0.0213
"""Of the interval at each of these looks, so that all three together err in 5 %: the same level at each look (Pocock
1977, Biometrika 64, 191-199, where it is 0.0221 for looks that are equally far apart, and holds for t tests too)."""


def mean_of_launches(
    values: Sequence[float], errors: Sequence[float], spread: Spread, *, confidence: float = 0.95, draws: int = 0
) -> Estimate:
    """Estimate the mean that launches have in the long run.

    Each of m launches weighs by s0^2 / (known.sd^2 + its error^2), where s0^2 is the mean of these variances, so that
    one whose rounds were few or restless counts for less (DerSimonian and Laird 1986, Controlled Clinical Trials 7,
    177-188). Around the weighted mean they show a variance s^2 of a launch of weight 1, which is taken to be
    (d0 s0^2 + (m - 1) s^2) / (d0 + m - 1), and the interval is that of Student's t with d0 + m - 1 degrees of freedom
    (Smyth 2004, Statistical Applications in Genetics and Molecular Biology 3, article 3). With fewer than six launches,
    or draws in them, neither end lies nearer than where the most telling single launch would put it, by its
    error and `known.sd`: a limit is never broken that no one launch lies beyond.

    Simulated, a limit of 3 % and looks only where one launch left doubt, 2000 checks in each world of
    `tests.support.worlds`: +5 % is caught in 99.9 % or more, +4 % passes in at most 1.0 %, +2 % fails in at most 0.4 %,
    all of these by the first launch alone, equal engines in none. A limit that is met exactly fails in 1.8 to 3.4 %,
    but with rounds of AR(0.8) in 6.8 % and, where sessions differ by 1 % and 0.5 % is known, in 11 %.

    Parameters
    ----------
    values : one for each launch, at least one.
    errors : standard error of each within its launch.
    spread : how launches differ; for a ratio the noise between sessions.
    confidence : of the two-sided interval, 0..1.
    draws : of the noise between sessions in all launches, where each has several; 0 stands for one in each.
    """
    m, variances = len(values), [spread.sd**2 + error**2 for error in errors]
    expected = statistics.fmean(variances)
    weights = [expected / max(variance, _LEAST_SHARE * expected) if expected else 1.0 for variance in variances]
    middle = statistics.fmean(values, weights)
    shown = math.fsum(weight * (value - middle) ** 2 for value, weight in zip(values, weights, strict=True))
    freedom = spread.freedom + m - 1
    variance = (spread.freedom * expected + shown) / freedom
    reach = student_quantile(confidence, freedom) * math.sqrt(variance / math.fsum(weights))
    low, high = middle - reach, middle + reach
    if max(m, draws) < 6:
        normal = statistics.NormalDist().inv_cdf(0.5 + confidence / 2.0)
        reaches = [normal * math.hypot(error, spread.sd) for error in errors]
        low = min(low, max(value - width for value, width in zip(values, reaches, strict=True)))
        high = max(high, min(value + width for value, width in zip(values, reaches, strict=True)))
    return Estimate(middle, low, high)


PAIR_LOOKS = 5, 10
"""Numbers of pairs of processes, one of each side, at which a decision may be made.

One pair is one number, because the rounds within two processes share whatever those processes got: where their memory
lies, which core they run on (Kalibera and Jones 2013, ISMM). More rounds do not lower that noise; more pairs do. Two
looks at a test of level 2.5 % would be wrong more often than that (4 % of the time). The level is spent evenly instead
(linear spending, Lan and DeMets 1983, Biometrika 70, 659-663): 1.25 % at the first look, the rest at the second.
"""

_CRITICAL = 3.4954, 2.562
"""Of the t statistic at each of these looks.

The first is Student's quantile for 4 degrees of freedom at 1.25 %. At the second, of normal pairs that are not decided
at the first, 1.25 % of all lie beyond 2.562 (32 million simulated, standard error 0.001).
"""


def mean_of_pairs(values: Sequence[float]) -> Estimate:
    """Estimate the mean of one number per pair of processes; both ends hold at all looks together.

    Between two looks the earlier one's bounds are used.

    Parameters
    ----------
    values : natural logarithms of a ratio, two at least.
    """
    mean, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
    reach = _CRITICAL[len(values) >= PAIR_LOOKS[-1]] * error
    return Estimate(mean, mean - reach, mean + reach)
