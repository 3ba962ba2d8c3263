"""Scores of third parties that take long: resampled no more than their limit needs, and not again for equal outputs."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from importlib.metadata import version

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
            kept=self.kept,
        )
        scored = PairedStatistics(metric)
        scored.add(right, wrong, np.arange(n) % 6, np.ones(n, dtype=bool), 0)
        return scored.add_to(AccuracyResult(n=n), margin, 0.95)

    def aggregate(self, rows: np.ndarray) -> float:
        """Return the percentage of right answers."""
        self.calls += 1
        return 100.0 * float(np.mean(rows["output"].argmax(axis=1) == rows["label"]))

    def kept(self, _: str, compute: Callable[[], str]) -> str:
        """Keep nothing."""
        return compute()


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


def _around(labels: np.ndarray, outputs: np.ndarray) -> float:
    return float(sklearn.metrics.accuracy_score(labels, outputs))


@pytest.mark.parametrize(
    ("fn", "known"),
    [
        (sklearn.metrics.accuracy_score, True),
        (partial(sklearn.metrics.f1_score, average="macro"), True),
        (partial(partial(sklearn.metrics.fbeta_score, beta=2.0), average="macro"), True),
        (partial(sklearn.metrics.accuracy_score, sample_weight=np.ones(60)), False),
        (wraps(sklearn.metrics.accuracy_score)(_around), False),
    ],
    ids=["function", "options", "options twice", "an array among them", "a user's, by its name"],
)
def test_what_a_metric_is_known_by(fn: Callable[..., object], known: bool) -> None:
    """Name, version and options of a function of scikit-learn; what cannot be written down is not known."""
    metric = resolve_wrapped(Metric(fn))
    assert bool(metric.identity) is known
    assert not known or version("scikit-learn") in metric.identity
    assert not known or metric.identity != resolve_wrapped(Metric(fn, scale=50.0)).identity


def test_what_an_earlier_run_found_is_not_resampled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """For equal outputs, labels, metric, limit and confidence; each of the others has a key of its own."""
    found: dict[str, str] = {}

    def kept(key: str, compute: Callable[[], str]) -> str:
        found[key] = found.get(key) or compute()
        return found[key]

    slow = Slow(monkeypatch)
    monkeypatch.setattr(slow, "kept", kept)
    first, calls = slow.result(0.1, 12.0), slow.calls
    assert slow.result(0.1, 12.0) == first
    assert slow.calls == calls + 2
    for losing, margin, seed in ((0.2, 12.0, 0), (0.1, 13.0, 0), (0.1, 12.0, 1)):
        slow.result(losing, margin, seed)
    assert len(found) == 4


def test_texts_as_labels_are_resampled_each_time() -> None:
    """In memory they are addresses, which say nothing about them, so that the key is empty."""
    keys: list[str] = []

    def kept(key: str, compute: Callable[[], str]) -> str:
        keys.append(key)
        return compute()

    metric = replace(resolve_wrapped(Metric(sklearn.metrics.accuracy_score)), kept=kept)
    labels = np.array(["a", "b"] * 10, dtype=object)
    scored = PairedStatistics(replace(metric, aggregate=lambda rows: float(np.mean(rows["output"][:, 0]))))
    scored.add(np.ones((20, 2)), np.ones((20, 2)), labels, np.ones(20, dtype=bool), 0)
    assert scored.add_to(AccuracyResult(n=20), 1.0, 0.95).drop == 0.0
    assert keys == [""]
