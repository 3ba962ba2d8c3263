"""Two engines over one set: figures from formulas and independent libraries, whatever the chunks."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr, softmax
from scipy.stats import binomtest

from pytest_quant.accuracy import OutputPair, evaluate
from pytest_quant.errors import ModelError
from pytest_quant.metrics import Metric, resolve_metric
from pytest_quant.result import AccuracyResult, WorstClass

N, CLASSES = 60, 5


def outputs(seed: int, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return reference and candidate scores (60, 5) and labels (60,)."""
    random = np.random.default_rng(seed)
    reference = random.normal(size=(N, CLASSES)).astype(np.float32)
    candidate = (reference + noise * random.normal(size=(N, CLASSES))).astype(np.float32)
    labels = np.where(random.random(N) < 0.8, reference.argmax(axis=1), random.integers(0, CLASSES, N))
    return reference, candidate, labels


def pairs(
    reference: np.ndarray, candidate: np.ndarray, labels: np.ndarray | None, step: int = N
) -> Iterator[OutputPair]:
    """Cut both sides into chunks of `step` samples of one output ``y``."""
    for start in range(0, len(reference), step):
        rows = slice(start, start + step)
        part = None if labels is None else labels[rows]
        yield OutputPair({"y": reference[rows]}, {"y": candidate[rows]}, part, start, len(reference[rows]))


def top1(reference: np.ndarray, candidate: np.ndarray, labels: np.ndarray, step: int = N) -> AccuracyResult:
    """Evaluate with the default metric."""
    metric = resolve_metric(None, "int", reference.shape)
    return evaluate(pairs(reference, candidate, labels, step), metric, output="y", margin=1.0)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40)
def test_figures_equal_their_formulas(seed: int) -> None:
    """Scores, drop, agreement, SQNR, cosine, largest error, divergence and p, each computed another way."""
    r, c, labels = outputs(seed)
    found = top1(r, c, labels)
    r_right, c_right = r.argmax(1) == labels, c.argmax(1) == labels
    assert found.reference == pytest.approx(100 * r_right.mean())
    assert found.candidate == pytest.approx(100 * c_right.mean())
    assert found.drop == pytest.approx(100 * (r_right.mean() - c_right.mean()))
    assert found.agreement_pct == pytest.approx(100 * (r.argmax(1) == c.argmax(1)).mean())
    r64, c64 = r.astype(np.float64), c.astype(np.float64)
    sqnr_db = 20 * np.log10(np.linalg.norm(r64) / np.linalg.norm(r64 - c64))
    assert found.sqnr_db == pytest.approx(sqnr_db)
    assert found.cosine == pytest.approx(np.vdot(r64, c64) / np.linalg.norm(r64) / np.linalg.norm(c64))
    error = np.abs(r64 - c64)
    assert found.max_abs_error == pytest.approx(error.max())
    assert found.max_abs_error_sample == np.unravel_index(error.argmax(), error.shape)[0]
    assert found.kl == pytest.approx(rel_entr(softmax(r64, axis=1), softmax(c64, axis=1)).sum(axis=1).mean())
    lost, won = int((r_right & ~c_right).sum()), int((c_right & ~r_right).sum())
    assert found.discordant == lost + won
    expected = binomtest(lost, lost + won).pvalue if lost + won else 1.0
    assert found.p_value == pytest.approx(expected)


@given(seed=st.integers(0, 100), step=st.integers(1, N))
@settings(max_examples=30)
def test_chunks_change_nothing(seed: int, step: int) -> None:
    """Counts are equal and sums agree to rounding, however the samples are cut."""
    r, c, labels = outputs(seed)
    whole, cut = (asdict(top1(r, c, labels, size)) for size in (N, step))
    for name, value in whole.items():
        assert cut[name] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value), name


def test_padding_beyond_n_is_not_compared() -> None:
    """Rows that only fill a fixed batch count for nothing."""
    r, c, labels = outputs(1)
    padded = OutputPair({"y": np.vstack([r, r])}, {"y": np.vstack([c, -c])}, labels, 0, N)
    metric = resolve_metric(None, "int", r.shape)
    assert evaluate([padded], metric, output="y", margin=1.0) == top1(r, c, labels)


@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_identical_means_equal_bit_for_bit(noise: float) -> None:
    """SQNR is infinite only then, and is not stored."""
    r, c, labels = outputs(2, noise)
    found = top1(r, c, labels)
    assert found.identical is (noise == 0.0)
    assert (found.sqnr_db is None) is (noise == 0.0)


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
    assert (found.drop_ci.low, found.drop_ci.high) == pytest.approx((4.9, 4.9))


def test_a_metric_between_0_and_1_is_scaled_to_percent() -> None:
    """A callable that falls from 0.9 to 0.2 is a drop of 70 points."""
    labels = np.zeros(N)
    own = Metric(lambda o, _: o[:, 0], name="own")
    metric = resolve_metric(own, "float", (1, 1))
    found = evaluate(pairs(np.full((N, 1), 0.9), np.full((N, 1), 0.2), labels), metric, output="y")
    assert found.drop == pytest.approx(70.0)


def test_the_worst_class_is_the_one_that_lost_most() -> None:
    """A dead class hides in an average: here class 2 falls from all right to none."""
    labels = np.arange(N) % CLASSES
    r = np.eye(CLASSES, dtype=np.float32)[labels]
    c = r.copy()
    c[labels == 2] = np.eye(CLASSES, dtype=np.float32)[3]
    assert top1(r, c, labels).worst_class == WorstClass(label=2, n=N // CLASSES, reference=100.0, candidate=0.0)


def test_right_answers_are_kept_bit_by_bit() -> None:
    """Unpacked, they are the flags of every sample in order."""
    r, c, labels = outputs(3)
    found = top1(r, c, labels)
    for packed, side in ((found.reference_correct, r), (found.candidate_correct, c)):
        assert packed is not None
        flags = np.unpackbits(np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8))[:N]
        np.testing.assert_array_equal(flags.astype(bool), side.argmax(1) == labels)


@pytest.mark.parametrize(
    ("spoil", "kind", "sample"),
    [
        (lambda c: np.where(np.arange(N)[:, None] == 37, np.nan, c).astype(np.float32), "not finite", 37),
        (lambda c: c[:, :4], "other shape", 0),
        (lambda c: c.astype(np.float64), "other dtype", 0),
    ],
)
def test_an_output_that_cannot_be_compared_is_a_fault(spoil: object, kind: str, sample: int) -> None:
    """NaN, another shape and another dtype are named, with the sample, and the rest is compared."""
    assert callable(spoil)
    r, c, labels = outputs(4)
    (fault,) = top1(r, spoil(c), labels, step=10).faults
    assert (fault.output, fault.kind, fault.sample) == ("y", kind, sample)


def test_a_missing_output_is_a_fault() -> None:
    """Every output of the reference is looked for in the candidate."""
    r, c, labels = outputs(5)
    pair = OutputPair({"y": r, "z": r}, {"y": c}, labels, 0, N)
    (fault,) = evaluate([pair], None, output="y").faults
    assert (fault.output, fault.kind) == ("z", "missing")


def test_every_output_counts_for_the_tensor_metrics() -> None:
    """An error in a second output shows, though the metric reads the first."""
    r, _, labels = outputs(6)
    pair = OutputPair({"y": r, "z": r}, {"y": r, "z": r + np.float32(2)}, labels, 0, N)
    found = evaluate([pair], resolve_metric(None, "int", r.shape), output="y")
    assert found.max_abs_error == pytest.approx(2.0, rel=1e-6)
    assert found.drop == 0.0


def test_a_reference_that_gives_nan_is_an_error() -> None:
    """Nothing can be compared with NaN; the message names the sample."""
    r, c, labels = outputs(7)
    r[41, 2] = np.nan
    with pytest.raises(ModelError, match="sample 41"):
        top1(r, c, labels)


@pytest.mark.parametrize("n", [1, 2, N])
def test_a_result_is_plain_json(n: int) -> None:
    """No numpy scalar and no infinity comes out, for one sample either."""
    r, c, labels = outputs(8)
    metrics = [resolve_metric(name, "int", r.shape) for name in ("top1", "f1")]
    for metric in metrics:
        found = evaluate(pairs(r[:n], c[:n], labels[:n]), metric, output="y", margin=1.0)
        json.dumps(asdict(found), allow_nan=False)
