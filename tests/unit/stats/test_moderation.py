"""Variances drawn to what they have in common, after Smyth (2004)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from pytest_quant.stats import moderation
from pytest_quant.stats.moderation import UNKNOWN, Variance, common_variance, moderated


def test_a_prior_that_made_the_variances_is_found() -> None:
    """5000 groups of 8 degrees of freedom; the prior has 10 and the scale 2."""
    random = np.random.default_rng(3)
    true = 2.0 * 10.0 / random.chisquare(10, 5000)
    found = common_variance([Variance(float(one), 8.0) for one in true * random.chisquare(8, 5000) / 8.0], 1e9)
    assert found.value == pytest.approx(2.0, rel=0.05)
    assert found.freedom == pytest.approx(10.0, rel=0.15)


def test_groups_of_one_variance_are_pooled_and_known_no_better_than_allowed() -> None:
    """Their variances differ by chance alone, which says that the prior is certain; the caller says how far it may."""
    random = np.random.default_rng(4)
    found = common_variance([Variance(float(one), 8.0) for one in 3.0 * random.chisquare(8, 40) / 8.0], 320.0)
    assert found.value == pytest.approx(3.0, rel=0.2)
    assert found.freedom <= 320.0
    equal = common_variance([Variance(3.0, 8.0)] * 5, 40.0)
    assert equal == Variance(3.0, 40.0)


def test_two_groups_have_nothing_in_common() -> None:
    """And groups that are not known do not count."""
    assert common_variance([Variance(1.0, 4.0)] * 2 + [Variance(9.0, 0.0)], 8.0) == UNKNOWN


def test_groups_without_any_spread() -> None:
    """Equal numbers everywhere; one group of equal numbers among others is no zero that pulls all down."""
    assert common_variance([Variance(0.0, 4.0)] * 3, 8.0).value == 0.0
    assert common_variance([*[Variance(1.0, 4.0)] * 20, Variance(0.0, 4.0)], 84.0).value > 0.1


def test_the_posterior_is_the_mean_by_degrees_of_freedom() -> None:
    """Which add up."""
    assert moderated(Variance(1.0, 2.0), Variance(4.0, 6.0)) == Variance(3.25, 8.0)
    assert moderated(Variance(1.0, 2.0), UNKNOWN) == Variance(1.0, 2.0)
    assert moderated(UNKNOWN, UNKNOWN) == UNKNOWN


def test_psi_and_its_derivative_are_those_of_scipy() -> None:
    """From near 0 to far beyond the shift of the recurrence."""
    x = np.array([1e-4, 0.1, 0.5, 1.0, 3.3, 9.99, 10.0, 50.0, 1e4])
    assert moderation._digamma(x) == pytest.approx(special.digamma(x), rel=1e-11)
    assert moderation._trigamma(x) == pytest.approx(special.polygamma(1, x), rel=1e-11)
    for value in (1e-5, 0.3, 7.0):
        assert special.polygamma(1, moderation._inverse_trigamma(value)) == pytest.approx(value, rel=1e-9)
