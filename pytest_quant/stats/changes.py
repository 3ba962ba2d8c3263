"""Changes of level of a sequence that grows: each new value is looked at once, and no reported change is taken back.

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
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from pytest_quant.stats.ratio import student_tails

MIN_SEGMENT = 3
"""Fewest values of a level."""

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


def change_points(values: Sequence[float] | Array, *, significance: float = 0.05) -> tuple[ChangePoint, ...]:
    """Return the changes of level in `values`, in their order.

    Those of the first n values are the same whatever comes after them, but for the median of the last level.

    Parameters
    ----------
    values : finite numbers in the order of time.
    significance : probability of at least one false alarm within `HORIZON` looks, 0..1.
    """
    series = np.asarray(values, dtype=np.float64)
    tests = HORIZON * len(LENGTHS)
    # No t of fewer degrees of freedom has so small a p below that of the normal distribution.
    least_t = -statistics.NormalDist().inv_cdf(significance / tests / 2.0)
    last = {length: _median(sliding_window_view(series, length)) for length in LENGTHS if length <= series.size}
    borders, p_values = [0], []
    first = _running_medians(series)
    for n in range(2 * MIN_SEGMENT, series.size + 1):
        level = series[borders[-1] : n]
        lengths = np.array([length for length in LENGTHS if length <= level.size - MIN_SEGMENT])
        if not lengths.size:
            continue
        middles = first[level.size - lengths], np.array([last[length][n - length] for length in lengths.tolist()])
        # All of them have the same degrees of freedom, so that the largest t has the least p.
        t = float(_step_t(level, lengths, middles).max())
        p_value = student_tails(t, level.size - 2.0) * tests if t >= least_t else math.inf
        if p_value > significance:
            continue
        start = _first_of_new(level)
        # One or two values that are far off are not a level yet: the next look tells.
        if level.size - start >= MIN_SEGMENT:
            borders.append(borders[-1] + start)
            p_values.append(min(p_value, 1.0))
            first = _running_medians(series[borders[-1] :])
    ends = [*borders[1:], series.size]
    return tuple(
        ChangePoint(at, p_value, float(np.median(series[start:at])), float(np.median(series[at:end])))
        for start, at, end, p_value in zip(borders, borders[1:], ends[1:], p_values, strict=False)
    )


def _first_of_new(level: Array) -> int:
    """Return the index at which two medians fit `level` best, with at least `MIN_SEGMENT` values before it.

    By least absolute deviations (Bai 1995, Econometric Theory 11, 403-436), which a single far value does not move.
    """

    def misfit(split: int) -> float:
        return sum(float(np.abs(side - _median(side)).sum()) for side in (level[:split], level[split:]))

    return min(range(MIN_SEGMENT, level.size), key=misfit)


def _step_t(level: Array, lengths: NDArray[np.intp], middles: tuple[Array, Array]) -> Array:
    """Return the t of equal levels before and after, of values that may resemble their predecessors.

    Student's test of two means with a common variance, in which values far from the median of their side are pulled in
    (winsorized: Yuen 1974, Biometrika 61, 165-170), so that a single far value is no change of level. Its t is
    multiplied by sqrt((1 - r) / (1 + r)), r the correlation of each value with the one before, which is as if there
    were as many fewer values (Bayley and Hammersley 1946, Journal of the Royal Statistical Society, Supplement 8,
    184-197); two means are taken from the values, which lowers r, and (n r + 2) / (n - 4) makes up for that (after
    Kendall 1954, Biometrika 41, 403-404, for one mean). r is taken within the levels, so that the change itself does
    not count as correlation, and a negative one as 0. t is 0 or infinite where the values do not vary within the sides.

    Parameters
    ----------
    level : (n,) in the order of time, more than 4 values.
    lengths : (splits,), how many of the last values are those after each.
    middles : (splits,) each, medians of the values before and after.
    """
    n = level.size
    counts = n - lengths, lengths
    is_after = np.arange(n) >= counts[0][:, None]
    middle = np.where(is_after, middles[1][:, None], middles[0][:, None])
    # Values further from the median of their side than three standard deviations count as that far.
    reach = (3.0 * 1.4826 * math.sqrt(n / (n - 2)) * _median(np.abs(level - middle)))[:, None]
    reach = np.where(reach > 0.0, reach, np.inf)
    values = np.clip(level, middle - reach, middle + reach)
    before, after = (
        np.where(side, values, 0.0).sum(axis=1) / m for side, m in zip((~is_after, is_after), counts, strict=True)
    )
    rest = values - np.where(is_after, after[:, None], before[:, None])
    power, apart, largest = (rest * rest).sum(axis=1), np.abs(after - before), np.maximum(np.abs(before), np.abs(after))
    is_flat = power <= (_ROUNDING * largest) ** 2 * n
    power = np.where(is_flat, 1.0, power)
    t = apart / np.sqrt(power / (n - 2) * (1.0 / counts[0] + 1.0 / counts[1]))
    seen = (rest[:, 1:] * rest[:, :-1]).sum(axis=1) / power
    correlation = np.clip((n * seen + 2.0) / (n - 4.0), 0.0, 0.95)
    of_flat = np.where(apart <= _ROUNDING * largest, 0.0, np.inf)
    return np.where(is_flat, of_flat, t * np.sqrt((1.0 - correlation) / (1.0 + correlation)))


_ROUNDING = 1e-12


def _median(values: Array) -> Array:
    """Return the medians of the last axis; sorting is several times as fast as numpy's own."""
    ordered, n = np.sort(values, axis=-1), values.shape[-1]
    return np.asarray((ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2.0)


def _running_medians(values: Array) -> Array:
    """Return the medians of the first 0, 1, 2, ... values; of none it is 0."""
    ordered: list[float] = []
    medians = [0.0]
    for value in values.tolist():
        insort(ordered, value)
        medians.append((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2.0)
    return np.array(medians)
