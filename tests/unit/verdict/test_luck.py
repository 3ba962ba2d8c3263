"""What luck, one answer to everything or an offset would score is never a PASS; skill is, on small sets too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from pytest_quant.measure.evaluation import OutputPair, evaluate
from pytest_quant.metrics import Metric, resolve_metric
from pytest_quant.result import AccuracyResult, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.accuracy_limits import accuracy_verdicts
from pytest_quant.verdict.doubt import doubt_worthless_scores
from tests.unit.measure.evaluated import pairs

PASS, INCONCLUSIVE = Status.PASS, Status.INCONCLUSIVE
MOST_PASSES = 0.02
CHUNK = 300


def network(seed: int, classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Weights of two layers, 16 to 32 to `classes`."""
    random = np.random.default_rng(seed)
    return random.normal(size=(16, 32)) / 4.0, random.normal(size=(32, classes)) / 6.0


def scores(weights: tuple[np.ndarray, np.ndarray], samples: np.ndarray) -> np.ndarray:
    """The network's scores (n, classes) of samples (n, 16)."""
    return np.asarray(np.maximum(samples @ weights[0], 0.0) @ weights[1], dtype=np.float32)


def judged(
    limits: Limits,
    reference: np.ndarray,
    candidate: np.ndarray,
    labels: np.ndarray | None = None,
    metric: str | Metric | None = None,
) -> tuple[list[Verdict], AccuracyResult]:
    """Evaluate one output ``y`` in chunks, and judge it as a check does."""
    chosen = None if labels is None else resolve_metric(metric, "int", reference.shape)
    result = evaluate(pairs(reference, candidate, labels, CHUNK), chosen, output=(), margin=limits.margin)
    return list(doubt_worthless_scores(accuracy_verdicts(limits, result, None), result, ())), result


def statuses(*args: object, **more: object) -> list[Status]:
    """The status of each limit."""
    return [verdict.status for verdict in judged(*args, **more)[0]]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n", "metric", "seeds"),
    [(100, "top1", 100), (400, "top1", 100), (2000, "top1", 100), (400, "top5", 50), (50, "f1", 20)],
)
def test_labels_in_another_order_pass_no_limit(n: int, metric: str, seeds: int) -> None:
    """Labels that say nothing about the samples, and an engine with other weights: at most 2 % of the seeds pass."""
    passes = 0
    for seed in range(seeds):
        random = np.random.default_rng([seed, n])
        samples = random.normal(size=(n, 16))
        reference, candidate = (scores(network(1000 * side + seed), samples) for side in (1, 2))
        labels = random.permutation(reference.argmax(axis=1))
        passes += PASS in statuses(
            Limits(max_drop=2.0, min_ratio=0.9, min_reference_accuracy=5), reference, candidate, labels, metric
        )
    assert passes <= MOST_PASSES * seeds


def answers(right: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Scores that answer the label where `right`, and the next class elsewhere."""
    return np.eye(classes, dtype=np.float32)[np.where(right, labels, (labels + 1) % classes)]


@pytest.mark.parametrize(
    ("n", "classes", "commonest", "right"),
    [(1000, 2, 0.6, 0.7), (20, 10, 0.2, 0.95), (20, 2, 0.5, 0.95), (200, 2, 0.95, 0.98), (400, 1000, 0.005, 0.7)],
)
def test_skill_passes(n: int, classes: int, commonest: float, right: float) -> None:
    """70 % where the commonest label is 60 %, 95 % of 20 samples, 98 % where 95 % are of one class."""
    labels, reference = skilled(n, classes, commonest, right)
    limits = Limits(
        max_drop=5.0,
        min_ratio=0.9,
        min_accuracy=50,
        min_reference_accuracy=50,
        min_agreement=90 if commonest < 0.9 else 98,
    )
    assert set(statuses(limits, reference, reference, labels)) == {PASS}


SCORED = Limits(max_drop=60.0, min_ratio=0.3, min_accuracy=20)


def skilled(n: int, classes: int, commonest: float, right: float) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of which a share is 0, and scores of a reference that answers another share of them rightly."""
    often = round(n * commonest)
    labels = np.concatenate([np.zeros(often, dtype=np.int64), 1 + np.arange(n - often) % (classes - 1)])
    wrong = np.random.default_rng(n).permutation(n)[: round(n * (1 - right))]
    return labels, answers(~np.isin(np.arange(n), wrong), labels, classes)


def counted_right(outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Accuracy as a user writes it."""
    return np.asarray(outputs.argmax(axis=1) == labels)


OF_TASKS: tuple[tuple[str | Metric, int, float], ...] = (
    ("top1", 2, 0.95),
    ("top1", 10, 0.85),
    ("top5", 10, 0.6),
    ("f1", 2, 0.8),
    (Metric(counted_right), 2, 0.95),
    (Metric(accuracy_score), 4, 0.9),
)


@pytest.mark.parametrize(("metric", "classes", "commonest"), OF_TASKS)
def test_a_candidate_that_answers_without_a_look_passes_no_limit(
    metric: str | Metric, classes: int, commonest: float
) -> None:
    """Always the commonest class, or the reference's own answers in another order: beside a reference that is right."""
    labels, reference = skilled(400, classes, commonest, 0.995)
    answer = np.random.default_rng(1).normal(size=(400, classes)).astype(np.float32)
    answer[:, 0] += 20.0
    shuffled = np.random.default_rng(2).permutation(reference)
    for candidate in (answer, shuffled):
        found = statuses(SCORED, reference, candidate, labels, metric)
        assert PASS not in found
        assert Status.FAIL in found or found == [INCONCLUSIVE] * 3
    assert set(statuses(SCORED, reference, reference, labels, metric)) == {PASS}


def test_the_commonest_answer_is_told_with_both_figures() -> None:
    """95 % of the labels are 0, and a candidate that always says so loses 4.75 pp, within 5."""
    labels, reference = skilled(400, 2, 0.95, 0.9975)
    candidate = np.stack([np.linspace(1, 2, 400), np.zeros(400)], axis=1).astype(np.float32)
    verdicts, result = judged(Limits(max_drop=5.0, min_reference_accuracy=99), reference, candidate, labels)
    assert [verdict.status for verdict in verdicts] == [INCONCLUSIVE, PASS]
    assert result.candidate == 95.0
    assert result.candidate_chance == pytest.approx(95.25)
    assert "the candidate itself scores 95 %, and answers score up to 95.25 %" in verdicts[0].reason


@given(
    n=st.integers(60, 400), classes=st.integers(2, 8), commonest=st.floats(0.3, 0.9), seed=st.integers(0, 1000),
    flipped=st.floats(0, 0.1),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_an_honest_candidate_near_a_good_reference_stays_a_pass(
    n: int, classes: int, commonest: float, seed: int, flipped: float
) -> None:
    """Whatever the shares of the labels, where it is right more often than simulated answers without a look are."""
    labels, reference = skilled(n, classes, commonest, 0.98)
    candidate = reference.copy()
    changed = np.random.default_rng(seed).permutation(n)[: round(flipped * n)]
    candidate[changed] = np.roll(candidate[changed], 1, axis=1)
    random = np.random.default_rng([seed, 1])
    blind = max(np.mean(random.permutation(candidate).argmax(axis=1) == labels) for _ in range(200))
    right = np.mean(candidate.argmax(axis=1) == labels)
    limits = Limits(max_drop=100 * flipped + 5, min_accuracy=50)
    if right > max(blind, np.bincount(labels).max() / n) + 0.1:
        assert statuses(limits, reference, candidate, labels) == [PASS] * 2


def test_one_class_passes_nothing() -> None:
    """All samples have label 0: a reference that is nearly always right is no better than one answer to everything."""
    labels = np.zeros(320, dtype=np.int64)
    reference = answers(np.arange(320) >= 2, labels, 10)
    verdicts, result = judged(
        Limits(max_drop=2.0, min_ratio=0.9, min_reference_accuracy=90),
        reference,
        np.eye(10, dtype=np.float32)[labels],
        labels,
    )
    assert [verdict.status for verdict in verdicts] == [INCONCLUSIVE] * 3
    assert result.chance == 100.0
    assert "99.38 %" in verdicts[0].reason
    assert "up to 100 % without a look at the samples" in verdicts[0].reason


@pytest.mark.parametrize("with_labels", [False, True])
def test_agreement_on_one_answer_passes_nothing(with_labels: bool) -> None:
    """Sorted scores have their largest first: every engine agrees, whatever its weights."""
    samples = np.random.default_rng(0).normal(size=(400, 16))
    reference, candidate = (-np.sort(-scores(network(seed), samples))[:, :3] for seed in (1, 2))
    labels = np.arange(400) % 3 if with_labels else None
    (verdict,), result = judged(Limits(min_agreement=99), reference, candidate, labels)
    assert result.agreement_pct == 100.0
    assert verdict.status is INCONCLUSIVE
    assert "100 % of the samples" in verdict.reason


def test_agreement_needs_another_answer_than_the_commonest() -> None:
    """A limit that one answer to everything holds is open; 98 of 100 samples of one class hold 98 %, and not 99 %."""
    reference = np.eye(2, dtype=np.float32)[(np.arange(100) >= 98).astype(int)]
    assert statuses(Limits(min_agreement=98), reference, reference) == [INCONCLUSIVE]
    assert statuses(Limits(min_agreement=99), reference, reference) == [PASS]


CLOSE = Limits(min_sqnr_db=40.0, min_cosine=0.9999)


@pytest.mark.parametrize(("offset", "values"), [(1000.0, 2), (100.0, 8)])
def test_an_offset_is_no_signal(offset: float, values: int) -> None:
    """An engine that gives so few values for outputs that vary by 0.55 about an offset passes neither limit."""
    random = np.random.default_rng(0)
    reference = (offset + random.uniform(-0.55, 0.55, size=(400, 1))).astype(np.float32)
    step = 1.1 / values
    candidate = (
        np.floor((reference - offset) / step + 0.5 * random.normal(size=reference.shape)) * step + offset
    ).astype(np.float32)
    verdicts, result = judged(CLOSE, reference, candidate)
    assert result.sqnr_db is not None
    assert result.sqnr_db > 40.0
    assert [verdict.status for verdict in verdicts] == [INCONCLUSIVE] * 2
    (output,) = result.by_output
    assert output.centred_sqnr_db is not None
    for text in (f"{result.sqnr_db:.6g} dB reaches 40.0 dB", f"samples has {output.centred_sqnr_db:.4g} dB"):
        assert text in verdicts[0].reason


def test_an_offset_hides_no_good_engine() -> None:
    """An engine that follows what varies passes, beside an offset too; so does one whose outputs have none."""
    random = np.random.default_rng(0)
    for offset in (0.0, 3.0, 100.0):
        reference = offset + random.normal(size=(60, 8))
        candidate = reference + 0.001 * random.normal(size=(60, 8))
        assert statuses(CLOSE, reference, candidate) == [PASS] * 2


@pytest.mark.parametrize("labels", [None, np.arange(40) % 4])
def test_a_dead_reference_passes_nothing(labels: np.ndarray | None) -> None:
    """It gives every sample the same: no limit on accuracy says anything, with labels or without."""
    dead = np.full((40, 4), 0.25, dtype=np.float32)
    limits = Limits(min_agreement=99, min_sqnr_db=20.0, min_cosine=0.9, max_abs_error=1.0)
    scored = Limits(max_drop=1.0, min_ratio=0.9, min_reference_accuracy=20)
    assert statuses(limits, dead, dead, labels) == [INCONCLUSIVE] * 4
    assert statuses(Limits(min_sqnr_db=20.0), dead[:2], dead[:2]) == [INCONCLUSIVE]
    if labels is not None:
        assert statuses(scored, dead, dead, labels) == [INCONCLUSIVE] * 3


def test_a_constant_output_beside_others_is_left() -> None:
    """Boxes of priors are the same for every sample, and the scores beside them are judged."""
    reference = numbers = np.random.default_rng(0).normal(size=(40, 4))
    priors = np.tile(numbers[:1], (40, 1))
    pair = OutputPair({"y": reference, "priors": priors}, {"y": reference + 1e-4, "priors": priors}, None, 0, 40)
    result = evaluate([pair], None, output=())
    assert [verdict.status for verdict in accuracy_verdicts(Limits(min_sqnr_db=40.0), result, None)] == [PASS]
    assert [each.status for each in accuracy_verdicts(Limits(min_sqnr_db=(("priors", 40.0),)), result, None)] == [
        INCONCLUSIVE
    ]
