"""Changes of level are found where they were planted, and rarely where they were not."""

from __future__ import annotations

import itertools
import statistics

import numpy as np
import pytest
import ruptures  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, energy_distance

from pytest_quant.stats.changes import ChangePoint, _best_split, change_points

_VALUES = st.lists(st.floats(-100.0, 100.0).map(lambda value: round(value, 3)), min_size=6, max_size=14)


def _shifted(seed: int, *levels: tuple[int, float]) -> list[float]:
    random = np.random.default_rng(seed)
    return [level + 0.1 * random.standard_normal() for count, level in levels for _ in range(count)]


def test_one_shift_is_found_where_it_is() -> None:
    """The index is that of the first value of the new level, and the medians are those of both sides."""
    values = _shifted(1, (12, 5.0), (9, 6.0))
    (found,) = change_points(values)
    assert found.index == 12
    assert found.before == statistics.median(values[:12])
    assert found.after == statistics.median(values[12:])
    assert found.p_value <= 0.05


def test_several_shifts_are_found_in_their_order() -> None:
    """Up, down and up again, one level only five long."""
    values = _shifted(2, (15, 1.0), (5, 3.0), (10, 2.0), (12, 4.0))
    assert [found.index for found in change_points(values, significance=0.01)] == [15, 20, 30]


def test_the_smallest_p_needs_every_permutation_to_be_smaller() -> None:
    """(1 + 0) / (1 + 499), by the definition of a permutation test."""
    assert change_points(_shifted(3, (30, 0.0), (30, 9.0)))[0].p_value == 1 / 500


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0, 9.0, 9.0], [4.0] * 40])
def test_too_few_or_equal_values_have_no_change(values: list[float]) -> None:
    """Two segments of three are six values."""
    assert change_points(values) == ()


def test_false_alarms_are_as_rare_as_promised() -> None:
    """Of 200 noises at 10 %, no more alarm than a binomial with that chance reaches once in 10 000 times."""
    alarms = sum(
        bool(change_points(np.random.default_rng(seed).standard_t(3, 14), significance=0.1, permutations=79))
        for seed in range(200)
    )
    assert 0 < alarms <= binom.ppf(0.9999, 200, 0.1)


@settings(max_examples=40)
@given(_VALUES)
def test_the_statistic_is_that_of_the_paper(values: list[float]) -> None:
    """The largest Q over all splits, summed pair by pair from equations 5 to 7."""

    def spread(part: list[float]) -> float:
        return statistics.fmean(abs(one - other) for one, other in itertools.combinations(part, 2))

    def q(first: list[float], rest: list[float]) -> float:
        across = statistics.fmean(abs(one - other) for one in first for other in rest)
        return len(first) * len(rest) / (len(first) + len(rest)) * (2 * across - spread(first) - spread(rest))

    every = [q(values[:split], values[split:end]) for end in range(6, len(values) + 1) for split in range(3, end - 2)]
    assert _best_split(np.array(values), 3).statistic == pytest.approx(max(0.0, *every), abs=1e-6)


def test_the_statistic_is_the_energy_distance() -> None:
    """SciPy's squared distance counts pairs of a value with itself, so it is smaller by their share."""
    first, rest = _shifted(4, (9, 0.0)), _shifted(5, (9, 3.0))
    n = len(first)
    own = [statistics.fmean(abs(a - b) for a, b in itertools.combinations(part, 2)) for part in (first, rest)]
    # SciPy 1D: sqrt(2) times the L2 distance of the cumulative functions, squared 2 A - B - C with n^2 pairs.
    squared = energy_distance(first, rest) ** 2
    expected = n / 2 * (squared - sum(own) / n)
    assert _best_split(np.array(first + rest), 9).statistic == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(4))
def test_ruptures_finds_the_same_shifts(seed: int) -> None:
    """PELT of the library ruptures, another method, where the shifts are as clear as can be."""
    values = _shifted(seed, (14, 0.0), (11, 2.0), (16, 1.0))
    theirs = ruptures.Pelt(model="l2", min_size=3, jump=1).fit(np.array(values)).predict(pen=0.3)[:-1]
    assert [found.index for found in change_points(values)] == theirs == [14, 25]


def test_the_same_values_give_the_same_answer() -> None:
    """The permutations have a seed."""
    values = _shifted(6, (8, 0.0), (8, 0.15))
    assert change_points(values) == change_points(values)


@settings(max_examples=15)
@given(st.floats(-50, 50), st.floats(0.5, 20))
def test_scale_and_origin_do_not_matter(origin: float, scale: float) -> None:
    """Distances scale with the values, and so do both sides of the test."""
    values = _shifted(7, (7, 0.0), (8, 1.0))
    moved = change_points([origin + scale * value for value in values])
    assert [found.index for found in moved] == [found.index for found in change_points(values)]


def test_a_segment_is_never_shorter_than_asked() -> None:
    """Every border is that far from the next one and from both ends."""
    values = _shifted(8, (10, 1.0), (2, 9.0), (10, 1.0))
    borders = [0, *(found.index for found in change_points(values, min_segment=4)), len(values)]
    assert min(end - start for start, end in itertools.pairwise(borders)) >= 4


def test_a_change_point_is_frozen() -> None:
    """It is handed on to others."""
    with pytest.raises(AttributeError):
        ChangePoint(1, 0.1, 0.0, 1.0).index = 2  # type: ignore[misc]
