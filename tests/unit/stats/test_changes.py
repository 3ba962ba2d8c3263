"""Changes of level are found where they were planted, and rarely where they were not."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, ttest_ind
from scipy.stats import t as student_t
from statsmodels.tsa.stattools import acf

from pytest_quant.stats.changes import HORIZON, LENGTHS, MIN_SEGMENT, _step_t, change_points
from pytest_quant.stats.ratio import student_tails


def step_p(before: np.ndarray, after: np.ndarray) -> float:
    """The two-sided p of equal levels before and after."""
    level, middles = np.concatenate((before, after)), (np.array([np.median(before)]), np.array([np.median(after)]))
    (t,) = _step_t(level, np.array([after.size]), middles)
    return student_tails(float(t), level.size - 2.0)


def _shifted(seed: int, *levels: tuple[int, float]) -> list[float]:
    random = np.random.default_rng(seed)
    return [level + 0.1 * random.standard_normal() for count, level in levels for _ in range(count)]


def test_one_shift_is_found_where_it_is() -> None:
    """The index is that of the first value of the new level, and the medians are those of both sides."""
    values = _shifted(1, (12, 5.0), (9, 6.0))
    (result,) = change_points(values)
    assert result.index == 12
    assert result.before == statistics.median(values[:12])
    assert result.after == statistics.median(values[12:])
    assert result.p_value <= 0.05


def test_an_alarm_needs_the_budget_of_one_look() -> None:
    """Of 400 looks with 10 tests each one has the 4000th part of 5 %; p is told for all of them."""
    step = [0.0, 1.0] * 10 + [4.0, 5.0, 4.0, 5.0, 4.0]
    (result,) = change_points(step)
    tests = HORIZON * len(LENGTHS)
    at_level_5 = tests * step_p(np.array(step[:20]), np.array(step[20:]))
    at_level_3 = tests * step_p(np.array(step[:20]), np.array(step[20:23]))
    assert 0.0 < at_level_5 < at_level_3 <= 0.05
    assert result.p_value == pytest.approx(at_level_3)
    assert change_points(step, significance=0.9 * at_level_5) == ()


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0, 9.0, 9.0], [4.0] * 40])
def test_too_few_or_equal_values_have_no_change(values: list[float]) -> None:
    """Two segments of three are six values."""
    assert change_points(values) == ()


def _resembling(correlation: float, n: int, random: np.random.Generator) -> list[float]:
    """Values of one level, each of which resembles the one before."""
    values = [random.standard_normal()]
    for noise in random.standard_normal(n - 1):
        values.append(correlation * values[-1] + math.sqrt(1.0 - correlation**2) * noise)
    return values


@pytest.mark.parametrize("correlation", [0.0, 0.4])
def test_false_alarms_are_as_rare_as_promised(correlation: float) -> None:
    """Of 80 series looked at 40 times each, no more alarm than chances of 5 % each reach once in 10 000 times."""
    random = np.random.default_rng(1)
    alarms = sum(bool(change_points(_resembling(correlation, 40, random))) for _ in range(80))
    assert alarms <= binom.ppf(0.9999, 80, 0.05)


def test_five_values_of_a_new_level_are_enough() -> None:
    """A step of five standard deviations after 20 values is told by its fifth value in 9 of 10, of 20 series too."""
    random = np.random.default_rng(2)
    steps = [[*random.standard_normal(20), *(5.0 + random.standard_normal(5))] for _ in range(40)]
    number = sum(
        any(abs(point.index - 20) <= 1 for point in change_points(step, significance=0.05 / 20)) for step in steps
    )
    assert number >= binom.ppf(0.0001, 40, 0.9)


@settings(max_examples=20)
@given(st.integers(0, 999), st.integers(6, 44))
def test_what_was_told_is_told_again_and_nothing_older_is_added(seed: int, number: int) -> None:
    """After 44 values stand the changes that stood after fewer, and what is new has its evidence in new values."""
    values = _shifted(seed, (12, 0.0), (7, 0.6), (12, 0.1), (13, 0.35))
    before, after = change_points(values[:number]), change_points(values)
    assert [(each.index, each.p_value) for each in after[: len(before)]] == [
        (each.index, each.p_value) for each in before
    ]
    assert all(each.index + MIN_SEGMENT > number - max(LENGTHS) for each in after[len(before) :])


def _gone_through(values: np.ndarray, significance: float) -> list[tuple[int, float]]:
    """Return index and p of the changes, with every test of every look computed."""
    start, result = 0, []
    for n in range(2 * MIN_SEGMENT, values.size + 1):
        level = values[start:n]
        lengths = [length for length in LENGTHS if length <= level.size - MIN_SEGMENT]
        tests = [step_p(level[:-length], level[-length:]) for length in lengths]
        p_value = min(tests, default=1.0) * HORIZON * len(LENGTHS)
        if p_value > significance:
            continue
        misfits = {
            split: sum(np.abs(side - np.median(side)).sum() for side in (level[:split], level[split:]))
            for split in range(MIN_SEGMENT, level.size)
        }
        first = min(misfits, key=misfits.__getitem__)
        if level.size - first >= MIN_SEGMENT:
            start += first
            result.append((start, min(p_value, 1.0)))
    return result


def _same(result: list[tuple[int, float]], expected: list[tuple[int, float]]) -> None:
    assert [index for index, _ in result] == [index for index, _ in expected]
    assert [p_value for _, p_value in result] == pytest.approx([p_value for _, p_value in expected], rel=1e-9)


def test_a_long_history_has_the_changes_that_all_its_tests_tell() -> None:
    """Of 250 values with two shifts, a far value and a heavy tail."""
    random = np.random.default_rng(4)
    values = random.standard_t(3, 250)
    values[90:] += 4.0
    values[170:] -= 2.5
    values[40] = 60.0
    expected = _gone_through(values, 0.05)
    assert [index for index, _ in expected] == pytest.approx([90, 170], abs=5)
    _same([(point.index, point.p_value) for point in change_points(values)], expected)


@pytest.mark.parametrize("after", [*range(6), 40])
def test_a_far_value_is_no_level(after: int) -> None:
    """However far it is, and whenever one looks."""
    assert change_points(_shifted(9, (30, 0.0), (1, 50.0), (after, 0.0))) == ()


_SIDES = st.lists(st.floats(-1.0, 1.0).map(lambda value: round(value, 3)), min_size=3, max_size=9)


@settings(max_examples=60)
@given(_SIDES, _SIDES)
def test_the_test_is_students_with_fewer_values_where_they_resemble_each_other(
    before: list[float], after: list[float]
) -> None:
    """SciPy's t of the two means, the correlation by statsmodels; nothing is pulled in, for nothing is far."""
    sides = [np.array(side) for side in (before, after)]
    off = np.concatenate([np.abs(side - np.median(side)) for side in sides])
    n = off.size
    assume(off.max() <= 3.0 * 1.4826 * np.median(off) * math.sqrt(n / (n - 2)))
    rest = np.concatenate([side - side.mean() for side in sides])
    assume(np.square(rest).sum() > 1e-6)
    t = ttest_ind(*sides).statistic
    seen = acf(rest, nlags=1, fft=False)[1]
    r = min(max((n * seen + 2.0) / (n - 4.0), 0.0), 0.95)
    expected = 2.0 * student_t.sf(abs(t) * math.sqrt((1.0 - r) / (1.0 + r)), n - 2)
    assert step_p(*sides) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_a_far_value_is_pulled_in_to_three_deviations() -> None:
    """Of 1, -1, 1, -1, ... and one 100, by SciPy with that one where it is pulled to."""
    before, after = np.array([1.0, -1.0] * 5), np.array([3.0, 1.0, 3.0, 1.0, 100.0])
    off = np.concatenate([np.abs(before), np.abs(after - 3.0)])
    reach = 3.0 * 1.4826 * np.median(off) * math.sqrt(15 / 13)
    pulled = np.clip(after, 3.0 - reach, 3.0 + reach)
    assert pulled.tolist() == [3.0, 1.0, 3.0, 1.0, 3.0 + reach]
    rest = np.concatenate([before, pulled - pulled.mean()])
    r = max((15 * acf(rest, nlags=1, fft=False)[1] + 2.0) / 11.0, 0.0)
    t = ttest_ind(before, pulled).statistic * math.sqrt((1.0 - r) / (1.0 + r))
    assert step_p(before, after) == pytest.approx(2.0 * student_t.sf(abs(t), 13))


def test_levels_without_any_spread_differ_or_are_equal() -> None:
    """Certainly so; rounding is no difference."""
    equal = np.full(5, 0.1 + 0.2)
    assert step_p(equal, np.full(4, 0.3)) == 1.0
    assert step_p(equal, np.full(4, 0.4)) == 0.0
