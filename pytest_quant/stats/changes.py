"""Changes of level of a sequence that grows: each new value is looked at once, and what was told is never taken back.

After each value the last few are compared with all before them, down to the latest change. The budget of false alarms
is spent in equal parts over `HORIZON` looks, and each look's over the lengths of `LENGTHS`, as in the sequential
change-point model (Hawkins, Qiu and Kang 2003, The Changepoint Model for Statistical Process Control, Journal of
Quality Technology 35, 355-366), with Bonferroni's bound in place of its simulated thresholds. So an alarm depends on
what was known then alone: later values neither repeat nor remove it.

A permutation test, as in E-divisive (Matteson and James 2014), cannot do that: of values that resemble the one before,
blocks must be permuted (Kirch 2007, Journal of Statistical Planning and Inference 137, 2453-2474), and five new values
among 25 are so few blocks that p stays above 0.005, while one look of thousands needs one in a million.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_quant.stats.look_bounds import look_bounds
from pytest_quant.stats.ratio import student_tails

MIN_SEGMENT = 3

LENGTHS = (3, 5, 8, 12, 20, 30, 50, 80, 120, 200)
"""Numbers of newest values that are compared with those before; a longer one finds a smaller change, later."""

HORIZON = 400
"""Number of looks in which the probability of a false alarm is the one that was asked for."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """One change of level.

    Attributes
    ----------
    index : of the first value of the new level.
    p_value : of the change when it was told, at most 1, adjusted to be below the significance.
    before, after : medians of the segments before and after, in the unit of the values.
    """

    index: int
    p_value: float
    before: float
    after: float


def change_points(
    values: Sequence[float] | Array, *, significance: float = 0.05, min_segment: int = MIN_SEGMENT
) -> tuple[ChangePoint, ...]:
    """Return the changes of level in `values`, in their order.

    Those of the first n values are the same whatever comes after them, but for the median of the last level.

    Parameters
    ----------
    values : finite numbers in the order of time.
    significance : probability of at least one false alarm within `HORIZON` looks, 0..1.
    min_segment : fewest values of a level, at least 3.
    """
    series = np.asarray(values, dtype=np.float64)
    tests = HORIZON * len(LENGTHS)
    borders, p_values = [0], []
    n = 2 * min_segment
    while n <= series.size:
        looks, last = _looks(series, borders[-1], n, min_segment, significance / tests)
        n = last + 1
        for look, lengths in looks.items():
            level = series[borders[-1] : look]
            # All of them have the same degrees of freedom, so that the largest t has the least p.
            t = max(_step_t(level[:-length], level[-length:]) for length in lengths)
            # Most looks are ruled out by their t, which is far quicker than its p.
            if t < _least_t(significance / tests, level.size - 2.0):
                continue
            p_value = student_tails(t, level.size - 2.0) * tests
            if p_value > significance:
                continue
            first = _first_of_new(level, min_segment)
            # One or two values that are far off are not a level yet: the next look tells.
            if level.size - first >= min_segment:
                borders.append(borders[-1] + first)
                p_values.append(min(p_value, 1.0))
                n = look + 1
                break
    ends = [*borders[1:], series.size]
    return tuple(
        ChangePoint(at, p_value, float(np.median(series[start:at])), float(np.median(series[at:end])))
        for start, at, end, p_value in zip(borders, borders[1:], ends[1:], p_values, strict=False)
    )


_FEWEST_LOOKS, _LOOKS = 16, HORIZON
_FEW_TESTS, _FEW_SHARE = 40, 0.1
"""So many tests of some looks, or that share of them, are computed; else fewer looks are considered at once."""

_ROUNDED = 1.0 - 1e-4
"""Of the t that is needed: a bound, the t itself and its p are rounded differently."""


def _looks(series: Array, start: int, n: int, min_segment: int, p_value: float) -> tuple[dict[int, list[int]], int]:
    """Return the next looks that may tell a change with the lengths that may, and the last look that was considered.

    The bounds are loose where the level holds a change, so that fewer looks are considered at once then.

    Parameters
    ----------
    series : all values.
    start : of the level.
    n : number of values at the first look.
    min_segment : fewest values of a level.
    p_value : of one test that tells a change.
    """
    last = min(series.size, n + max(n - start, _LOOKS))
    while True:
        bounds = look_bounds(
            series[start:last], n - start, lengths=LENGTHS, min_segment=min_segment, clip=_CLIP * _MAD_TO_SD
        )
        chosen = bounds.most_t >= _least_t(p_value, bounds.sizes - 2.0)
        if np.count_nonzero(chosen) <= max(_FEW_TESTS, _FEW_SHARE * chosen.size) or last - n < _FEWEST_LOOKS:
            break
        last = n + (last - n) // 2
    looks: dict[int, list[int]] = {}
    for size, length in zip(bounds.sizes[chosen].tolist(), bounds.lengths[chosen].tolist(), strict=True):
        looks.setdefault(start + size, []).append(length)
    return looks, last


def _least_t(p_value: float, freedom: float | NDArray[np.floating]) -> Array:
    """Return a t below which no p is `p_value` or less, for each number of degrees of freedom.

    sqrt(f (exp(z^2 / f) - 1)), z that of the normal distribution (Wallace 1959, Annals of Mathematical Statistics 30,
    1124-1130), a little below the t whose p it is.
    """
    z = statistics.NormalDist().inv_cdf(p_value / 2.0)
    return np.asarray(_ROUNDED * np.sqrt(freedom * np.expm1(z * z / freedom)))


def _first_of_new(level: Array, min_segment: int) -> int:
    """Return the index at which two medians fit `level` best, with at least `min_segment` values before it.

    By least absolute deviations (Bai 1995, Econometric Theory 11, 403-436), which a single far value does not move.
    """

    def misfit(split: int) -> float:
        return sum(float(np.abs(side - _median(side)).sum()) for side in (level[:split], level[split:]))

    return min(range(min_segment, level.size), key=misfit)


_CLIP = 3.0
"""Values further from the median of their side, in standard deviations, count as that far."""

_MAD_TO_SD = 1.4826
_MOST_CORRELATED = 0.95


def _step_t(before: Array, after: Array) -> float:
    """Return the t of equal levels before and after, of values that may resemble the one before them.

    Student's test of two means with a common variance, in which values far from the median of their side are pulled in
    (winsorized: Yuen 1974, Biometrika 61, 165-170), so that a single far value is no change of level. Its t is
    multiplied by sqrt((1 - r) / (1 + r)), r the correlation of each value with the one before, which is as if there
    were as many fewer values (Bayley and Hammersley 1946, Journal of the Royal Statistical Society, Supplement 8,
    184-197); two means are taken from the values, which lowers r, and (n r + 2) / (n - 4) makes up for that (after
    Kendall 1954, Biometrika 41, 403-404, for one mean). r is taken within the levels, so that the change itself does
    not count as correlation, and a negative one as 0. t is 0 or infinite where the values do not vary within the sides.

    Parameters
    ----------
    before, after : in the order of time, more than 4 values together.
    """
    n = before.size + after.size
    middles = _median(before), _median(after)
    off = np.concatenate((before - middles[0], after - middles[1]))
    reach = _CLIP * _MAD_TO_SD * _median(np.abs(off)) * math.sqrt(n / (n - 2))
    if reach > 0.0:
        before, after = (
            np.minimum(np.maximum(side, middle - reach), middle + reach)
            for side, middle in zip((before, after), middles, strict=True)
        )
    means = float(before.mean()), float(after.mean())
    rest = np.concatenate((before - means[0], after - means[1]))
    power = float(rest @ rest)
    if power <= (_ROUNDING * max(map(abs, means))) ** 2 * n:
        return 0.0 if math.isclose(*means, rel_tol=_ROUNDING) else math.inf
    t = abs(means[1] - means[0]) / math.sqrt(power / (n - 2) * (1.0 / before.size + 1.0 / after.size))
    seen = float(rest[1:] @ rest[:-1]) / power
    correlation = min(max((n * seen + 2.0) / (n - 4.0), 0.0), _MOST_CORRELATED)
    return t * math.sqrt((1.0 - correlation) / (1.0 + correlation))


_ROUNDING = 1e-12


def _median(values: Array) -> float:
    """Return the median; numpy's own takes longer to look at its arguments than to find it."""
    ordered = np.sort(values)
    return float(ordered[(values.size - 1) // 2] + ordered[values.size // 2]) / 2.0
