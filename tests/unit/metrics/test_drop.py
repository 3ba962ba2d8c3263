"""Drops, what one sample weighs, and intervals of scores."""

from __future__ import annotations

import timeit
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import sklearn.metrics
from scipy.stats import binomtest

from pytest_quant.metrics import Metric
from pytest_quant.metrics.builtin import BUILTIN
from pytest_quant.metrics.drop import FEWEST_UNBOUNDED, PairedStatistics
from pytest_quant.metrics.metric import resolve_wrapped
from pytest_quant.result import AccuracyResult
from tests.unit.metrics.scoring import said, scores


@pytest.mark.parametrize(("better", "drop"), [("lower", 2.5), ("higher", -2.5)])
def test_a_drop_is_how_much_worse_the_candidate_is(better: Literal["higher", "lower"], drop: float) -> None:
    """Means of 3 and 5.5: an error that rose by 2.5, or a score that did, in the metric's own unit."""
    metric = resolve_wrapped(Metric(lambda outputs, _: outputs[:, 0], better=better, unit="m", scale=1, name="own"))
    reference, candidate = np.array([[2.0], [4.0]] * 5), np.array([[5.0], [6.0]] * 5)
    scores = PairedStatistics(metric)
    scores.add(reference, candidate, np.zeros(10), np.ones(10, dtype=bool), 0)
    result = scores.add_to(AccuracyResult(n=10), None, 0.9)
    assert (result.metric, result.unit, result.better, result.confidence) == ("own", "m", better, 0.9)
    assert (result.reference, result.candidate, result.drop) == (3.0, 5.5, drop)
    assert result.drop_ci is not None
    assert result.drop_ci.low <= drop <= result.drop_ci.high
    assert (result.chance, result.n_to_resolve, result.p_value) == (None, None, None)


@pytest.mark.parametrize("name", ["top1", "top5"])
def test_a_class_that_cannot_be_compared_is_wrong_whatever_its_label(name: str) -> None:
    """Of 8 samples of class 0, 2 give NaN, whose largest is at class 0: 75 %, and 2 are lost."""
    outputs, sound = np.eye(8)[np.zeros(8, dtype=int)], np.arange(8) >= 2
    scores = PairedStatistics(BUILTIN[name])
    scores.add(outputs, np.where(sound[:, None], outputs, np.nan), np.zeros(8, dtype=np.int64), sound, 0)
    result = scores.add_to(AccuracyResult(n=8), None, 0.95)
    assert (result.reference, result.candidate, result.lost) == (100.0, 75.0, 2)


def of(metric: object, reference: np.ndarray, candidate: np.ndarray, labels: np.ndarray) -> AccuracyResult:
    """Score all samples of both engines at once."""
    assert isinstance(metric, Metric)
    scores = PairedStatistics(resolve_wrapped(metric))
    scores.add(reference, candidate, labels, np.ones(len(labels), dtype=bool), 0)
    return scores.add_to(AccuracyResult(n=len(labels)), None, 0.95)


def _right(outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.asarray(outputs.argmax(axis=1) == labels)


def _error(outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(outputs[:, 0] - labels))


@pytest.mark.parametrize(
    ("metric", "weight"),
    [
        (Metric(_right), 2.5),
        (Metric(_right, unit="", scale=1), 0.025),
        (Metric(sklearn.metrics.accuracy_score), 2.5),
        (Metric(_error, better="lower", unit="mm", scale=1), None),
    ],
)
def test_a_sample_weighs_its_share_of_a_score_with_bounds(metric: Metric, weight: float | None) -> None:
    """One of forty is 2.5 points; an error has no largest value."""
    outputs, candidate = scores(0)
    assert of(metric, outputs, candidate, np.arange(40) % 6).sample_weight == weight


@pytest.mark.parametrize("n", [2, 40])
def test_a_score_that_nothing_changed_has_the_interval_of_no_event(n: int) -> None:
    """SciPy's exact upper end for 0 of n, times the range of a score: the bootstrap alone would be certain."""
    outputs, labels = scores(0)[0][:n], np.arange(n) % 6
    share = binomtest(0, n).proportion_ci(0.95, method="exact").high
    result = of(Metric(sklearn.metrics.accuracy_score), outputs, outputs, labels).drop_ci
    assert result is not None
    assert (result.low, result.high) == pytest.approx((-100 * share, 100 * share))
    error = of(Metric(_error, better="lower", unit="mm", scale=1), outputs, outputs, labels).drop_ci
    unbounded = Metric(sklearn.metrics.mean_squared_error, better="lower", unit="", scale=1)
    squared = of(unbounded, outputs[:, 0], outputs[:, 0], labels).drop_ci
    if n < FEWEST_UNBOUNDED:
        assert (error, squared) == (None, None)
        return
    largest = float(_error(outputs, labels).max())
    assert error is not None
    assert (error.low, error.high) == pytest.approx((-largest * share, largest * share))
    assert squared is not None
    assert (squared.low, squared.high) == pytest.approx((-(largest**2) * share, largest**2 * share))


def test_errors_that_are_all_zero_have_no_interval() -> None:
    """Nothing says how large the error of another sample could be."""
    outputs = np.ones((40, 1))
    metric = Metric(_error, better="lower", unit="mm", scale=1)
    assert of(metric, outputs, outputs, np.ones(40)).drop_ci is None


def test_a_score_that_is_not_finite() -> None:
    """The sample is named by its index in the set."""
    scores = PairedStatistics(resolve_wrapped(Metric(lambda outputs, _labels: outputs[:, 0], name="own")))
    outputs = np.array([[1.0], [2.0], [np.inf]])
    sound = np.array([True, False, True])
    message = said(lambda: scores.add(outputs, outputs, np.zeros(3), sound, 40))
    assert message.startswith("metric 'own' must give a finite score for every sample\n  got: inf for sample 42\n")


def test_a_score_that_is_no_number_is_named() -> None:
    """As scikit-learn gives it, with a warning, for labels of one class."""

    def undefined(_labels: object, _outputs: object) -> float:
        return float("nan")

    undefined.__module__ = "sklearn.metrics._ranking"
    result = of(Metric(undefined, name="auc"), np.zeros((5, 2)), np.zeros((5, 2)), np.zeros(5))
    assert (result.reference, result.drop) == (None, None)
    assert result.note.startswith("metric 'auc' gave nan for the reference and nan for the candidate; next: ")


@pytest.mark.parametrize(("score_s", "resamples"), [(0.13, 400), (0.14, 200), (0.27, 100), (0.54, 0)])
def test_a_slow_metric_has_fewer_resamples(monkeypatch: pytest.MonkeyPatch, score_s: float, resamples: int) -> None:
    """As many as fit into two minutes, counted for the user; a note says so, also where there is no interval at all."""
    monkeypatch.setattr(timeit, "repeat", lambda *_, **__: [9.0, score_s])
    shown: list[str] = []
    metric = replace(resolve_wrapped(Metric(sklearn.metrics.accuracy_score, name="acc")), progress=shown.append)
    outputs, candidate = scores(0)
    scored = PairedStatistics(metric)
    scored.add(outputs, candidate, np.arange(40) % 6, np.ones(40, dtype=bool), 0)
    result = scored.add_to(AccuracyResult(n=40), None, 0.95)
    assert shown == [f"bootstrap of acc, {done} of {resamples} resamples" for done in range(resamples)]
    assert (result.drop_ci is None) is (resamples == 0)
    why = f"one score of 'acc' takes {score_s} s, all may take 120 s; next: fewer samples"
    assert result.note == ("" if resamples == 400 else f"{resamples} of 400 resamples of the drop: {why}")


def test_a_third_party_that_gives_no_score() -> None:
    """What it said, and what would be a score."""

    def refuses(_labels: object, _outputs: object) -> float:
        raise ValueError("only one class")

    refuses.__module__ = "sklearn.metrics._ranking"
    scores = PairedStatistics(resolve_wrapped(Metric(refuses, name="auc")))
    outputs = np.zeros((5, 2))
    scores.add(outputs, outputs, np.zeros(5), np.ones(5, dtype=bool), 0)
    message = said(lambda: scores.add_to(AccuracyResult(n=5), None, 0.95))
    assert message.startswith("metric 'auc' gives no score for 5 samples\n  got: ValueError: only one class\n")


def test_a_score_that_is_not_finite_may_be_its_worst_or_be_left_out() -> None:
    """Either way of the advice gives a drop: error 10 in place of infinity, or the two samples that have a score."""
    outputs = np.array([[1.0], [np.exp(1.0)], [0.0]])
    metric = Metric(lambda given, _: -np.log(np.maximum(given[:, 0], np.exp(-10.0))), "lower", "nats", name="own")
    worst = of(metric, outputs, outputs, np.zeros(3))
    assert worst.reference == worst.candidate == pytest.approx(3.0)
    plain = Metric(lambda given, _: -np.log(given[:, 0]), "lower", "nats", name="own")
    assert of(plain, outputs[:2], outputs[:2], np.zeros(2)).reference == pytest.approx(-0.5)
