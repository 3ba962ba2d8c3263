"""The group-sequential sign test and its interval, against counting every path and against other libraries."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pytest_quant.stats.ratio import fewest_rounds
from pytest_quant.stats.sequential import Boundary, Looks, median_span, sign_boundary


def test_the_table_of_the_default_looks() -> None:
    """At 8, 16, 24, 32 and 40 rounds: 8, 14, 18, 23, 28 beyond the limit, 2.24 % in all."""
    boundary = Looks().boundary(40)
    assert boundary.looks == (8, 16, 24, 32, 40)
    assert boundary.beyond == (8, 14, 18, 23, 28)
    assert f"{100 * boundary.error:.2f}" == "2.24"


def exact_error(boundary: Boundary) -> Fraction:
    """The error in fractions, from round to round, with each path cut off where it is rejected."""
    least = {look: beyond for look, beyond in zip(boundary.looks, boundary.beyond, strict=True) if beyond is not None}
    paths, error = {0: Fraction(1)}, Fraction(0)
    for rounds in range(1, boundary.looks[-1] + 1):
        after: dict[int, Fraction] = {}
        for count, chance in paths.items():
            for beyond in (count, count + 1):
                after[beyond] = after.get(beyond, Fraction(0)) + chance / 2
        limit = least.get(rounds, rounds + 1)
        error += sum((chance for count, chance in after.items() if count >= limit), Fraction(0))
        paths = {count: chance for count, chance in after.items() if count < limit}
    return error


@given(first=st.integers(1, 12), every=st.integers(1, 12), most=st.integers(12, 48), confidence=st.floats(0.5, 0.999))
def test_the_error_is_exact_and_within_what_may_be_spent(first: int, every: int, most: int, confidence: float) -> None:
    """Over all looks, for any of them; and no look could do with one round less."""
    looks = Looks(first, every, most, confidence)
    boundary = looks.boundary(most)
    assert boundary.error == pytest.approx(float(exact_error(boundary)), abs=1e-12)
    assert boundary.error <= (1.0 - confidence) / 2.0 + 1e-12
    spent = [(1.0 - confidence) / 2.0 * look / most for look in boundary.looks]
    for place, beyond in enumerate(boundary.beyond):
        cut = boundary.looks[: place + 1]
        earlier = boundary.beyond[:place]
        less = Boundary(cut, (*earlier, (cut[-1] if beyond is None else beyond - 1)), 0.0)
        assert float(exact_error(less)) > spent[place] - 1e-12


def test_every_path_of_twelve_rounds() -> None:
    """Of 4096 equally likely ones, those that any look rejects."""
    boundary = sign_boundary((4, 8, 12), (0.1, 0.15, 0.2))
    rejected = 0
    for path in product((0, 1), repeat=12):
        counts = [sum(path[:look]) for look in boundary.looks]
        rejected += any(
            beyond is not None and count >= beyond for count, beyond in zip(counts, boundary.beyond, strict=True)
        )
    assert rejected / 4096 == boundary.error


def test_one_look_is_the_binomial_test() -> None:
    """SciPy's: the least count whose tail lies within the error."""
    for rounds in range(1, 60):
        boundary = sign_boundary((rounds,), (0.025,))
        tails = [binom.sf(k - 1, rounds, 0.5) for k in range(rounds + 1)]
        least = next((k for k, tail in enumerate(tails) if tail <= 0.025), None)
        assert boundary.beyond == (least,)
        assert (least is None) == (rounds < fewest_rounds(0.95))


@pytest.mark.parametrize(
    ("rounds", "looks", "beyond"),
    [
        (5, (5,), (None,)),
        (6, (6,), (6,)),
        (8, (8,), (8,)),
        (9, (8, 9), (8, 8)),
        (20, (8, 16, 20), (8, 14, 15)),
    ],
)
def test_the_last_look_may_spend_all_that_is_left(
    rounds: int, looks: tuple[int, ...], beyond: tuple[int | None, ...]
) -> None:
    """Six rounds decide when there is no time for a seventh; five never do."""
    boundary = Looks().boundary(rounds)
    assert (boundary.looks, boundary.beyond) == (looks, beyond)
    assert exact_error(boundary) <= Fraction(25, 1000)


@given(values=st.lists(st.integers(-5, 5), min_size=8, max_size=8), limit=st.integers(-5, 5))
def test_the_interval_lies_beyond_a_limit_exactly_when_enough_rounds_do(values: list[int], limit: int) -> None:
    """On either side; a value that ties with the limit is not beyond it."""
    for beyond in (6, 7, 8):
        span = median_span(np.array(values, dtype=float), beyond)
        assert (span.high < limit) == (sum(value < limit for value in values) >= beyond)
        assert (span.low > limit) == (sum(value > limit for value in values) >= beyond)
        assert span.low <= span.value <= span.high


def test_without_a_boundary_the_interval_is_the_range() -> None:
    """Of five rounds: nothing wider can be said from them."""
    span = median_span(np.array([3.0, 1.0, 2.0, 5.0, 4.0]), None)
    assert [float(one) for one in (span.low, span.value, span.high)] == [1.0, 3.0, 5.0]


def test_many_measurements_at_once() -> None:
    """Each row is judged by itself."""
    values = np.random.default_rng(1).normal(size=(3, 4, 16))
    span = median_span(values, 14)
    for index in np.ndindex(3, 4):
        alone = median_span(values[index], 14)
        assert (span.low[index], span.value[index], span.high[index]) == (alone.low, alone.value, alone.high)


@pytest.mark.parametrize("draw", ["normal", "standard_cauchy", "exponential"])
def test_the_error_holds_for_any_distribution(draw: str) -> None:
    """At a limit that is the true median, 2.24 % of 20 000 launches are rejected at some look: 4 deviations."""
    trials, looks = 20_000, Looks()
    values = getattr(np.random.default_rng(0), draw)(size=(trials, 40))
    median = {"normal": 0.0, "standard_cauchy": 0.0, "exponential": np.log(2.0)}[draw]
    rejected = np.zeros(trials, dtype=bool)
    for look in looks.until(40):
        rejected |= median_span(values[:, :look], looks.boundary(look).beyond[-1]).high < median
    error = looks.boundary(40).error
    assert abs(rejected.mean() - error) <= 4.0 * np.sqrt(error * (1.0 - error) / trials)
