"""The drop of a task metric: its sign, its interval, and metrics that misbehave."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, precision_score, roc_auc_score

from pytest_quant.errors import UsageError
from pytest_quant.measure.accuracy import evaluate
from pytest_quant.metrics import Metric, resolve_metric
from pytest_quant.stats.paired import zero_event_share
from tests.unit.measure.evaluated import CLASSES, N, outputs, pairs, top1


def test_an_error_metric_that_rises_is_a_drop() -> None:
    """MAE 0.1 -> 5.0 is 4.9 worse, for a metric that is better when lower."""
    labels = np.zeros((N, 1))
    found = evaluate(
        pairs(np.full((N, 1), 0.1), np.full((N, 1), 5.0), labels),
        resolve_metric("mae", "float", (1, 1)),
        output="y",
    )
    assert (found.reference, found.candidate, found.drop) == pytest.approx((0.1, 5.0, 4.9))
    assert found.drop_ci is not None
    unseen = 5.0 * zero_event_share(N)
    assert (found.drop_ci.low, found.drop_ci.high) == pytest.approx((4.9 - unseen, 4.9 + unseen))


def test_a_metric_between_0_and_1_is_scaled_to_percent() -> None:
    """A callable that falls from 0.9 to 0.2 is a drop of 70 points."""
    labels = np.zeros(N)
    own = Metric(lambda o, _: o[:, 0], name="own")
    metric = resolve_metric(own, "float", (1, 1))
    found = evaluate(pairs(np.full((N, 1), 0.9), np.full((N, 1), 0.2), labels), metric, output="y")
    assert found.drop == pytest.approx(70.0)


def test_a_metric_that_gives_nan_names_the_sample() -> None:
    """The index is that in the whole set, also when samples before it are left out."""
    r, c, labels = outputs(13)
    c[21] = np.nan
    own = Metric(lambda o, _: np.where(np.abs(o[:, 0] - r[35, 0]) < 1e-6, np.nan, 1.0), name="own")
    with pytest.raises(UsageError, match=r"'own'[\s\S]*sample 35"):
        evaluate(pairs(r, c, labels, step=20), resolve_metric(own, "int", r.shape), output="y")


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_a_callable_of_0_and_1_is_tested_exactly(better: str) -> None:
    """It has top1's interval and p; counted as errors, a rise is the same drop."""
    r, c, labels = outputs(14)
    own = Metric(lambda o, y: (o.argmax(axis=1) == y) == (better == "higher"), better=better, name="own")  # type: ignore[arg-type]
    found = evaluate(pairs(r, c, labels), resolve_metric(own, "int", r.shape), output="y", margin=1.0)
    expected = top1(r, c, labels)
    for name in ("drop", "p_value", "discordant", "n_to_resolve", "reference_correct", "candidate_correct"):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.drop_ci == expected.drop_ci


@given(seed=st.integers(0, 1000), metric=st.sampled_from(["top1", "f1", "mae", "rmse", "cosine"]))
@settings(max_examples=10)
def test_exchanging_the_engines_exchanges_the_sign(seed: int, metric: str) -> None:
    """A drop is positive exactly when the candidate's score is worse, and its interval encloses no other sign's."""
    r, c, labels = outputs(seed)
    of_classes = metric in ("top1", "f1")
    targets = labels if of_classes else np.eye(CLASSES)[labels]
    resolved = resolve_metric(metric, "int" if of_classes else "float", r.shape)
    one, other = (evaluate(pairs(*sides, targets), resolved, output="y") for sides in ((r, c), (c, r)))
    assert one.drop == -(other.drop or 0.0)
    worse = one.candidate < one.reference if one.better == "higher" else one.candidate > one.reference  # type: ignore[operator]
    assert worse == ((one.drop or 0.0) > 0)
    assert one.drop_ci is not None
    assert other.drop_ci is not None
    assert (one.drop_ci.low, one.drop_ci.high) == pytest.approx((-other.drop_ci.high, -other.drop_ci.low), abs=1e-9)


def test_a_limit_on_an_error_tells_how_many_samples_resolve_it() -> None:
    """At that n half the interval, the normal one and what no sample has shown, reaches the limit."""
    random = np.random.default_rng(15)
    labels, r = np.zeros((400, 1)), np.full((400, 1), 1.0)
    c = r + 0.1 + 0.5 * random.random((400, 1))
    metric = resolve_metric("mae", "float", r.shape)
    found = evaluate(pairs(r, c, labels, step=400), metric, output="y", margin=0.3)
    assert found.drop is not None
    n = found.n_to_resolve
    assert n is not None
    error = np.std(c - r) / n**0.5
    reach = (1.96 + 0.8416) * error + c.max() * zero_event_share(n)
    assert reach == pytest.approx(found.drop - 0.3, rel=0.02)


def test_a_third_party_that_gives_no_number_is_told_so() -> None:
    """Its own message stands in ours, with the next step."""
    r, c, labels = outputs(16)
    metric = resolve_metric(Metric(functools.partial(f1_score, average=None)), "int", r.shape)
    with pytest.raises(UsageError, match=r"'f1_score' gives no score[\s\S]*TypeError"):
        evaluate(pairs(r, c, labels), metric, output="y")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_a_third_party_without_a_finite_score_is_not_measured() -> None:
    """The area under a curve of one class only is NaN in scikit-learn, and nothing here; the rest is compared."""
    r, c, _ = outputs(20)
    metric = resolve_metric(Metric(roc_auc_score), "int", (1, 2))
    found = evaluate(pairs(r[:, :2], c[:, :2], np.ones(N, dtype=np.int64)), metric, output="y", margin=1.0)
    assert (found.metric, found.reference, found.candidate) == ("roc_auc_score", None, None)
    assert (found.drop, found.drop_ci, found.n_to_resolve) == (None, None, None)
    assert found.sqnr_db is not None


def test_resampling_a_third_party_adds_no_warnings(recwarn: pytest.WarningsRecorder) -> None:
    """What scikit-learn says of a set without one class, it does not say of each of 400 resamples."""
    r, _, _ = outputs(17)
    rare = (np.arange(N) < 3).astype(np.int64)
    metric = resolve_metric(Metric(precision_score), "int", (1, 2))
    found = evaluate(pairs(r[:, :2], np.tile([[1.0, 0.0]], (N, 1)).astype(np.float32), rare), metric, output="y")
    assert found.drop is not None
    assert len(recwarn) <= 1
