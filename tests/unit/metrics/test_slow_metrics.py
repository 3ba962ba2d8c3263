"""Scores of third parties that take long: resampled no more than their limit needs."""

from __future__ import annotations

import timeit
from dataclasses import replace

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_quant.metrics import Metric
from pytest_quant.metrics.drop import PairedStatistics
from pytest_quant.metrics.metric import resolve_wrapped
from pytest_quant.result import AccuracyResult


class Slow:
    """A score of 0.13 s by its own account, which takes none; it counts its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(timeit, "repeat", lambda *_, **__: [0.13])
        self.calls = 0

    def result(self, losing: float, margin: float | None, seed: int = 0, n: int = 60) -> AccuracyResult:
        """Score a candidate that gets this share of the reference's answers wrong."""
        draw = np.random.default_rng(seed)
        right = np.eye(6)[np.arange(n) % 6]
        wrong = np.where((draw.random(n) < losing)[:, None], np.roll(right, 1, axis=1), right)
        metric = replace(
            resolve_wrapped(Metric(sklearn.metrics.accuracy_score, name="acc")),
            aggregate=self.aggregate,
        )
        scored = PairedStatistics(metric)
        scored.add(right, wrong, np.arange(n) % 6, np.ones(n, dtype=bool), 0)
        return scored.added_to(AccuracyResult(n=n), margin, 0.95)

    def aggregate(self, rows: np.ndarray) -> float:
        """Return the percentage of right answers."""
        self.calls += 1
        return 100.0 * float(np.mean(rows["output"].argmax(axis=1) == rows["label"]))


@pytest.mark.parametrize(("losing", "margin"), [(0.7, 1.0), (0.05, 60.0), (1.0, 30.0)])
def test_a_limit_far_from_the_drop_needs_few_resamples(
    losing: float, margin: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 of both sides and a jackknife of 12 groups; the limit is on the same side of the interval of all resamples."""
    slow = Slow(monkeypatch)
    few = slow.result(losing, margin)
    assert slow.calls <= 2 * (40 + 12 + 3)
    assert few.note == "40 of 400 resamples of the drop: max_drop is far from it"
    whole = slow.result(losing, None)
    assert (few.drop_ci is None) is (whole.drop_ci is None)
    assert few.drop == whole.drop
    if few.drop_ci is not None and whole.drop_ci is not None:
        assert (few.drop_ci.high < margin, few.drop_ci.low > margin) == (
            whole.drop_ci.high < margin,
            whole.drop_ci.low > margin,
        )


@given(losing=st.floats(0.0, 1.0), margin=st.floats(0.1, 99.0), seed=st.integers(0, 9))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whoever_needs_the_interval_has_the_whole_one(
    monkeypatch: pytest.MonkeyPatch, losing: float, margin: float, seed: int
) -> None:
    """Either few resamples decide as all of them do, or the interval is that of all of them to the bit."""
    slow = Slow(monkeypatch)
    ours, whole = slow.result(losing, margin, seed).drop_ci, slow.result(losing, None, seed).drop_ci
    if ours != whole:
        assert ours is not None
        assert whole is not None
        assert not whole.low <= margin <= whole.high
        assert (ours.high < margin) is (whole.high < margin)
