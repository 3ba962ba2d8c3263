"""Agreement, divergence and the class that lost most."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr, softmax
from scipy.stats import binomtest

from pytest_quant.metrics import Metric
from pytest_quant.metrics.metric import resolve_wrapped
from pytest_quant.metrics.scores import FEWEST_UNBOUNDED, MOST_CLASSES, ClassError, Scores
from pytest_quant.result import AccuracyResult, ClassScore, WorstClass


def compared(
    reference: np.ndarray, candidate: np.ndarray, labels: np.ndarray | None = None, sound: np.ndarray | None = None
) -> ClassError:
    """Compare one chunk of sound outputs."""
    found = ClassError(reference.shape[1])
    found.add(reference, candidate, labels, np.ones(len(reference), dtype=bool) if sound is None else sound)
    return found


def scores(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return outputs (40, 6) of two engines, the first far from zero."""
    random = np.random.default_rng(seed)
    reference = random.normal(500.0, 3.0, size=(40, 6)).astype(np.float32)
    return reference, (reference + random.normal(size=reference.shape)).astype(np.float32)


@given(seed=st.integers(0, 1000))
def test_divergence_of_scores_is_that_of_their_softmax(seed: int) -> None:
    """SciPy's relative entropy, in nats, though the exponential of a score of 800 overflows."""
    r, c = scores(seed)
    expected = rel_entr(softmax(r.astype(float), axis=1), softmax(c.astype(float), axis=1)).sum(axis=1).mean()
    assert compared(r, c).kl == pytest.approx(expected)


@given(seed=st.integers(0, 1000))
def test_probabilities_are_taken_as_they_are(seed: int) -> None:
    """A second softmax would flatten them."""
    r, c = (softmax(side.astype(float), axis=1) for side in scores(seed))
    assert compared(r, c).kl == pytest.approx(rel_entr(r, c).sum(axis=1).mean(), abs=1e-10)


def test_a_class_that_is_ruled_out_diverges_finitely() -> None:
    """Probability 1 against 0 counts as 1 against 1e-12."""
    r, c = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert compared(r, c).kl == pytest.approx(np.log(1e12), rel=1e-6)


def test_masked_classes_add_nothing_to_the_divergence() -> None:
    """The same minus infinity on both sides is a probability of 0 on both."""
    r, c = scores(1)
    masked = [np.column_stack([side, np.full(len(side), -np.inf, dtype=np.float32)]) for side in (r, c)]
    assert compared(*masked).kl == pytest.approx(compared(r, c).kl)


def test_samples_that_are_not_sound_agree_with_nothing() -> None:
    """Argmax takes a NaN for the largest score, which by chance is the right class."""
    r = 2.0 * np.eye(3)[[0, 1, 2, 0]]
    c = 0.1 * r
    sound = np.array([False, True, True, True])
    rest = compared(r[sound], c[sound])
    c[0, 0] = np.nan
    found = compared(r, c, np.array([0, 1, 2, 0]), sound)
    assert (found.agreement_pct, rest.agreement_pct) == (75.0, 100.0)
    assert found.worst_class == WorstClass(label=0, n=2, reference=100.0, candidate=50.0)
    assert rest.kl is not None
    assert rest.kl > 0.1
    assert found.kl == pytest.approx(rest.kl)


def test_of_classes_that_lost_as_much_the_first_is_worst() -> None:
    """Classes 1 and 3 lose half of their answers each."""
    labels = np.repeat(np.arange(4), 2)
    r = np.eye(4)[labels]
    c = r.copy()
    c[[2, 6]] = np.eye(4)[0]
    assert compared(r, c, labels).worst_class == WorstClass(label=1, n=2, reference=100.0, candidate=50.0)


def test_no_class_is_worst_when_none_fell() -> None:
    """An improvement is no loss."""
    labels = np.array([0, 1])
    assert compared(np.eye(2)[[1, 1]], np.eye(2)[[0, 1]], labels).worst_class is None


@pytest.mark.parametrize("labels", [[0, -1, 1], [0, 3, 1]])
def test_labels_beyond_the_classes_leave_no_worst_class(labels: list[int]) -> None:
    """A user's own metric may read integers that are no class indices."""
    outputs = np.eye(3)
    found = compared(outputs, outputs[::-1], np.array(labels))
    assert (found.worst_class, found.by_class) == (None, ())
    assert found.agreement_pct == pytest.approx(100 / 3)


def test_a_class_without_samples_is_not_listed() -> None:
    """There is nothing to take a share of; without labels there is none at all. A third has four decimals."""
    labels = np.array([0, 2, 2, 2])
    r = np.eye(4)[labels]
    c = np.eye(4)[[0, 2, 0, 1]]
    assert compared(r, c, labels).by_class == (ClassScore(0, 1, 100.0, 100.0), ClassScore(2, 3, 100.0, 33.3333))
    assert compared(r, c).by_class == ()


@pytest.mark.parametrize(("classes", "listed"), [(MOST_CLASSES, MOST_CLASSES), (MOST_CLASSES + 1, 0)])
def test_of_very_many_classes_none_is_listed(classes: int, listed: int) -> None:
    """A part of them would be taken for all; the worst one is told however many there are."""
    labels = np.arange(classes)
    outputs = np.eye(classes, dtype=np.float32)
    found = compared(outputs, outputs[::-1], labels)
    assert len(found.by_class) == listed
    assert found.worst_class is not None


@pytest.mark.parametrize(("better", "drop"), [("lower", 2.5), ("higher", -2.5)])
def test_a_drop_is_how_much_worse_the_candidate_is(better: Literal["higher", "lower"], drop: float) -> None:
    """Means of 3 and 5.5: an error that rose by 2.5, or a score that did, in the metric's own unit."""
    metric = resolve_wrapped(Metric(lambda outputs, _: outputs[:, 0], better=better, unit="m", scale=1, name="own"))
    reference, candidate = np.array([[2.0], [4.0]] * 5), np.array([[5.0], [6.0]] * 5)
    scores = Scores(metric)
    scores.add(reference, candidate, np.zeros(10), np.ones(10, dtype=bool), 0)
    found = scores.added_to(AccuracyResult(n=10), None, 0.9)
    assert (found.metric, found.unit, found.better, found.confidence) == ("own", "m", better, 0.9)
    assert (found.reference, found.candidate, found.drop) == (3.0, 5.5, drop)
    assert found.drop_ci is not None
    assert found.drop_ci.low <= drop <= found.drop_ci.high
    assert (found.chance, found.n_to_resolve, found.p_value) == (None, None, None)


def of(metric: object, reference: np.ndarray, candidate: np.ndarray, labels: np.ndarray) -> AccuracyResult:
    """Score all samples of both engines at once."""
    assert isinstance(metric, Metric)
    scores = Scores(resolve_wrapped(metric))
    scores.add(reference, candidate, labels, np.ones(len(labels), dtype=bool), 0)
    return scores.added_to(AccuracyResult(n=len(labels)), None, 0.95)


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
    found = of(Metric(sklearn.metrics.accuracy_score), outputs, outputs, labels).drop_ci
    assert found is not None
    assert (found.low, found.high) == pytest.approx((-100 * share, 100 * share))
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
