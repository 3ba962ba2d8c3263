"""Change points of a sequence of numbers: E-divisive, a divisive search with an energy statistic.

Matteson and James (2014), A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data,
Journal of the American Statistical Association 109, 334-345; with alpha = 1, so that only a mean must exist.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

PERMUTATIONS = 499
MIN_SEGMENT = 3

_TIES = 1.0 - 1e-9

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """One change of level.

    Attributes
    ----------
    index : of the first value of the new level.
    p_value : of the permutation test, at least 1 / (permutations + 1).
    before, after : medians of the segments before and after, in the unit of the values.
    """

    index: int
    p_value: float
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class _Split:
    statistic: float
    index: int


def change_points(
    values: Sequence[float] | Array,
    *,
    significance: float = 0.05,
    min_segment: int = MIN_SEGMENT,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> tuple[ChangePoint, ...]:
    """Return the changes of level in `values`, in their order.

    Each step takes the split with the largest statistic of all segments and keeps it while values permuted within
    the segments reach that statistic rarely enough: p = (1 + reached) / (1 + permutations) <= significance, which
    is the chance of at least one false alarm in values that never change.

    Parameters
    ----------
    values : finite numbers in the order of time; run time and memory grow with their number squared.
    significance : largest accepted p, 0..1.
    min_segment : fewest values of a level, at least 2.
    permutations : of the test; more give finer p values.
    seed : of the permutations; equal values and seeds give equal results.
    """
    series = np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(seed)
    borders = [0, series.size]
    p_values: dict[int, float] = {}
    while True:
        segments = [series[start:end] for start, end in itertools.pairwise(borders)]
        splits = [_best_split(segment, min_segment) for segment in segments]
        best = max(range(len(splits)), key=lambda number: splits[number].statistic)
        if splits[best].statistic <= 0.0:
            break
        p_value = _p_value(segments, splits[best].statistic, min_segment, significance, permutations, random)
        if p_value > significance:
            break
        index = borders[best] + splits[best].index
        p_values[index] = p_value
        borders.insert(best + 1, index)
    return tuple(
        ChangePoint(at, p_values[at], float(np.median(series[start:at])), float(np.median(series[at:end])))
        for start, at, end in zip(borders, borders[1:], borders[2:], strict=False)
    )


def _p_value(
    segments: Sequence[Array],
    statistic: float,
    min_segment: int,
    significance: float,
    permutations: int,
    random: np.random.Generator,
) -> float:
    """Return the p value of a split; stops early, with some p above `significance`, once that is certain."""
    reached = 1
    for _ in range(permutations):
        largest = max(_best_split(random.permutation(segment), min_segment).statistic for segment in segments)
        reached += largest >= statistic * _TIES
        if reached > significance * (permutations + 1):
            break
    return reached / (permutations + 1)


def _best_split(segment: Array, min_segment: int) -> _Split:
    """Return the largest statistic Q over splits of the first values of a segment in two."""
    if segment.size < 2 * min_segment:
        return _Split(0.0, 0)
    sums = np.zeros((segment.size + 1, segment.size + 1))
    distances = np.abs(segment[:, None] - segment[None, :])
    np.cumsum(np.cumsum(distances, axis=0), axis=1, out=sums[1:, 1:])
    across, first, both = _weights(segment.size, min_segment)
    corners = np.diagonal(sums)
    statistics = across * sums + first * corners[:, None] + both * corners[None, :]
    place = int(np.argmax(statistics))
    return _Split(float(statistics.flat[place]), place // (segment.size + 1))


@lru_cache(maxsize=16)
def _weights(n: int, min_segment: int) -> tuple[Array, Array, Array]:
    """Factors that make Q out of the sums S[i, j] of the distances of the first i values to the first j.

    With X the first m of k values and Y the other l, Q = m l / (m + l) (2 A - B - C): A is the mean distance of X
    to Y, (S[m, k] - S[m, m]) / (m l), B and C the mean distances within each, over pairs. Splits that are not
    allowed get 0, which no change of level exceeds downwards.
    """
    m, k = np.arange(n + 1.0)[:, None], np.arange(n + 1.0)[None, :]
    rest = k - m
    allowed = (m >= min_segment) & (rest >= min_segment)
    m, rest = np.where(allowed, m, 2.0), np.where(allowed, rest, 2.0)
    scale = np.where(allowed, m * rest / (m + rest), 0.0)
    across, within_x, within_y = scale * 2.0 / (m * rest), scale / (m * (m - 1.0)), scale / (rest * (rest - 1.0))
    return across + 2.0 * within_y, -across - within_x - within_y, -within_y
