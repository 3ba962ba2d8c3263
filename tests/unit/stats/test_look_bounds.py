"""No t is above its bound, and the bounds of quiet histories are low."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given, settings

from pytest_quant.stats.changes import _CLIP, _MAD_TO_SD, LENGTHS, MIN_SEGMENT, _step_t
from pytest_quant.stats.look_bounds import LookBounds, _last_medians, _running_medians, look_bounds
from tests.unit.stats.histories import histories

_ROUNDED = 1e-6
"""Of a t whose sides have equal means: they are rounded, and the spread may be as little as 1e-7 of them."""


def _bounds(level: np.ndarray, first: int = 6) -> LookBounds:
    return look_bounds(level, first, lengths=LENGTHS, min_segment=MIN_SEGMENT, clip=_CLIP * _MAD_TO_SD)


@settings(max_examples=60, deadline=None)
@given(histories(most=70))
def test_no_t_is_above_its_bound(level: np.ndarray) -> None:
    """Whatever the noise, shifts, far values, origin and scale."""
    found = _bounds(level)
    splits = zip(found.sizes.tolist(), found.lengths.tolist(), found.most_t.tolist(), strict=True)
    above = [
        (size, length, t, most)
        for size, length, most in splits
        if (t := _step_t(level[: size - length], level[size - length : size])) > most * (1.0 + 1e-6) + _ROUNDED
    ]
    assert above == []


def test_every_split_has_a_bound() -> None:
    """Of all beginnings from the first one on, with all lengths that leave both sides long enough."""
    found = _bounds(np.arange(12.0), first=9)
    expected = [(size, length) for size in range(9, 13) for length in LENGTHS if length <= size - MIN_SEGMENT]
    assert list(zip(found.sizes.tolist(), found.lengths.tolist(), strict=True)) == expected
    assert _bounds(np.arange(5.0), first=3).sizes.size == 0


@pytest.mark.parametrize("heavy", [False, True])
def test_of_a_quiet_history_few_tests_are_left(heavy: bool) -> None:
    """Of 400 values at most 6 in 100 tests could reach the t that one of 200 series would need."""
    random = np.random.default_rng(3)
    level = random.standard_t(3, 400) if heavy else random.standard_normal(400)
    found = _bounds(level)
    needed = -statistics.NormalDist().inv_cdf(0.05 / (200 * 4000) / 2.0)
    assert found.sizes.size > 3000
    assert np.mean(found.most_t > needed) < 0.06


@pytest.mark.parametrize(
    "level", [np.zeros(20), np.array([*[1.0] * 15, 2.0, *[1.0] * 9]), np.array([0.0, 1.0] * 9 + [1e9])]
)
def test_without_a_usual_distance_there_is_no_bound(level: np.ndarray) -> None:
    """Where most values are equal, or one is far beyond what squares can hold beside the others."""
    assert np.isinf(_bounds(level).most_t).all()


def test_running_medians_are_those_of_the_first_and_of_the_last_values() -> None:
    """As `statistics.median` has them."""
    values = np.random.default_rng(1).standard_normal(30)
    assert _running_medians(values)[1:].tolist() == [statistics.median(values[:n]) for n in range(1, 31)]
    sizes, lengths = np.array([5, 9, 9, 30]), np.array([3, 3, 8, 20])
    expected = [statistics.median(values[size - length : size]) for size, length in zip(sizes, lengths, strict=True)]
    assert _last_medians(values, sizes, lengths).tolist() == expected
