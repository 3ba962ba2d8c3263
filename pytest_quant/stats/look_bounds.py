"""Upper bounds of the t of many looks at a growing sequence at once, so that few of them have to be computed.

The test of `pytest_quant.stats.changes` pulls values in that are far from the median of their side, by distances that
differ from look to look, so that its t cannot be had from running sums. How much larger it may be than the t of the
values as they are can be had from them. With e the distances by which values are pulled in, on either side

- the means differ by no more than those of the values do, and what pulling in moves them by: in one direction, values
  that are low on one side and high on the other;
- the root of the sum of squares within the sides is no less than that of the values, less that of the squares of e,
  for leaving out the means of the sides makes no vector longer (triangle inequality).

e is no more than the distance from the middle of the whole level, less the reach, plus the distance of that middle
from the median of the side. The reach is no less than it would be if the median of all distances were c, where fewer
than half of them can be c or less. Sums over such distances run along the sequence, for thresholds in small steps.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float64]
Counts = NDArray[np.intp]

_STEP = 1.0 / 16.0
_LAST = 72
_THRESHOLDS = _STEP * np.arange(_LAST + 1)[:, None]
"""Distances from the middle of the level, in medians of that distance: up to where nothing is pulled in any more."""

_MEDIANS = np.array([4, 6, 8, 10, 11, 12, 13, 14, 15, 16])[:, None]
"""Steps of the distance that fewer than half of all are tried to be within; the last one is the usual median."""

_SLACK = 1e-9
_LEAST_POWER = 1e-6
_LEAST_UNIT = 1e-7
"""Of the largest value. Where sides hardly vary, whether their means are equal is a matter of rounding, which is for
the test itself to decide: these two are far above where it does."""

_MOST_AWAY = 1e3
"""Further away, squares would leave too few digits for the others."""


@dataclass(frozen=True, slots=True)
class LookBounds:
    """Splits of the beginnings of a level into values before and after, (splits,) each.

    Attributes
    ----------
    sizes : number of values of the beginning.
    lengths : those of them that are after the split.
    most_t : no t of the two sides is larger; infinite where there is no bound.
    """

    sizes: Counts
    lengths: Counts
    most_t: Array


def look_bounds(level: Array, first: int, *, lengths: Sequence[int], min_segment: int, clip: float) -> LookBounds:
    """Return bounds for all splits of the beginnings of `level` that have `first` values or more.

    Parameters
    ----------
    level : finite values in the order of time.
    first : size of the shortest beginning, 3 or more.
    lengths : numbers of newest values that are compared with those before.
    min_segment : fewest values of a side.
    clip : values further from the median of their side than this many medians of that distance over both sides, times
        sqrt(n / (n - 2)), count as that far.
    """
    sizes, after = _splits(level.size, first, lengths, min_segment)
    middle = float(np.median(level))
    away = np.abs(level - middle)
    unit = float(np.median(away))
    # Without spread, or with one value very far away, rounding would decide.
    if not sizes.size or unit <= _LEAST_UNIT * float(np.abs(level).max()) or float(away.max()) > _MOST_AWAY * unit:
        return LookBounds(sizes, after, np.full(sizes.size, np.inf))
    sums = _Sums((level - middle) / unit)
    nothing = np.zeros_like(sizes)
    sides = (
        _Side(nothing, sizes - after, np.abs(_running_medians(sums.of)[sizes - after])),
        _Side(sizes - after, sizes, np.abs(_last_medians(sums.of, sizes, after))),
    )
    least = sums.least_median(sides)
    reach = clip * least * np.sqrt(sizes / (sizes - 2.0))
    pulled = [sums.pulled_in(side, reach) for side in sides]
    means = [sums.total(sums.values, side) / side.size for side in sides]
    up, down = (pulled[0][first] / sides[0].size + pulled[1][1 - first] / sides[1].size for first in (0, 1))
    apart = np.maximum(means[1] - means[0] + up, means[0] - means[1] + down)
    power = sum(sums.total(sums.squares, side) - side.size * mean**2 for side, mean in zip(sides, means, strict=True))
    root = np.sqrt(np.maximum(power - _LEAST_POWER, 0.0)) - np.sqrt(np.maximum(pulled[0][2] + pulled[1][2], 0.0))
    bounded = (least > 0.0) & (root > 0.0)
    error = np.sqrt((1.0 / sides[0].size + 1.0 / sides[1].size) / (sizes - 2.0))
    return LookBounds(sizes, after, np.where(bounded, apart / (np.where(bounded, root, 1.0) * error), np.inf))


@dataclass(frozen=True, slots=True)
class _Side:
    """The values from `start` up to `end` of each split, and how far their median is from the middle of the level."""

    start: Counts
    end: Counts
    shift: Array

    @property
    def size(self) -> Counts:
        return self.end - self.start


class _Sums:
    """Running sums over a level whose median is 0, and the median of whose distances from it is 1."""

    def __init__(self, level: Array) -> None:
        away = np.abs(level)
        self.of = level
        self.values = _running(level)
        self.squares = _running(level**2)
        self._within = _running(np.asarray(away <= _THRESHOLDS + _SLACK, np.float64))
        over = [np.maximum(one - _THRESHOLDS, 0.0) for one in (level, -level, away)]
        self._pulled = _running(over[0]), _running(over[1]), _running(over[2] ** 2)

    @staticmethod
    def total(running: Array, side: _Side) -> Array:
        """Return the sums over the values of a side."""
        return np.asarray(running[side.end] - running[side.start])

    def least_median(self, sides: Sequence[_Side]) -> Array:
        """Return what the median distance of each split's values from the medians of their sides is above; else 0."""
        count = np.zeros((_MEDIANS.size, sides[0].end.size))
        for side in sides:
            row = np.ceil(_MEDIANS + side.shift / _STEP).astype(np.intp)
            known = np.minimum(row, _LAST)
            found = self._within[known, side.end] - self._within[known, side.start]
            count += np.where(row <= _LAST, found, side.size)
        fewer = 2.0 * count < sides[0].size + sides[1].size
        return np.asarray(_STEP * np.where(fewer, _MEDIANS, 0).max(axis=0))

    def pulled_in(self, side: _Side, reach: Array) -> tuple[Array, Array, Array]:
        """Return the most that the values of a side can be pulled in by: down, up, and the sum of the squares of it."""
        row = np.minimum(np.maximum(reach - side.shift, 0.0) / _STEP, _LAST).astype(np.intp)
        down, up, squares = (running[row, side.end] - running[row, side.start] for running in self._pulled)
        return down, up, squares


def _splits(size: int, first: int, lengths: Sequence[int], min_segment: int) -> tuple[Counts, Counts]:
    sizes, after = np.meshgrid(np.arange(first, size + 1), np.asarray(lengths), indexing="ij")
    possible = (after >= min_segment) & (after <= sizes - min_segment)
    return sizes[possible], after[possible]


def _running(rows: Array) -> Array:
    """Return the sums of the first 0, 1, 2, ... values of the last axis."""
    sums = np.zeros((*rows.shape[:-1], rows.shape[-1] + 1))
    np.cumsum(rows, axis=-1, out=sums[..., 1:])
    return sums


def _running_medians(values: Array) -> Array:
    """Return the medians of the first 0, 1, 2, ... values; of none it is 0."""
    ordered: list[float] = []
    medians = [0.0]
    for value in values.tolist():
        insort(ordered, value)
        medians.append((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2.0)
    return np.array(medians)


def _last_medians(values: Array, sizes: Counts, lengths: Counts) -> Array:
    """Return the medians of the last `lengths` of the first `sizes` values."""
    medians = np.empty(sizes.size)
    for length in np.unique(lengths):
        chosen = lengths == length
        # Sorting is several times as fast as np.median, which finds two values of each row only.
        ordered = np.sort(sliding_window_view(values, length)[sizes[chosen] - length], axis=1)
        medians[chosen] = (ordered[:, (length - 1) // 2] + ordered[:, length // 2]) / 2.0
    return medians
