"""Outputs that cannot be compared are told, never crash, and never look good."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_quant.errors import ModelError
from pytest_quant.measure.accuracy import OutputPair, evaluate
from pytest_quant.metrics import resolve_metric
from pytest_quant.result import AccuracyResult
from tests.unit.measure.evaluated import CLASSES, N, outputs, pairs, top1


def faulty(reference: np.ndarray, candidate: np.ndarray, labels: np.ndarray) -> AccuracyResult:
    """Evaluate in chunks of 10 samples, the last ones of a candidate without a sample axis being all of it."""
    cut = [
        OutputPair(
            {"y": reference[start : start + 10]},
            {"y": candidate[start : start + 10] if candidate.ndim else candidate},
            labels[start : start + 10],
            start,
            10,
        )
        for start in range(0, N, 10)
    ]
    return evaluate(cut, resolve_metric(None, "int", reference.shape), output="y")


@pytest.mark.parametrize(
    ("spoil", "kind", "sample"),
    [
        (lambda c: np.where(np.arange(N)[:, None] == 37, np.nan, c).astype(np.float32), "not finite", 37),
        (lambda c: c[:, :4], "other shape", 0),
        (lambda c: c.astype(np.float64), "other dtype", 0),
        (lambda c: c[0, 0].reshape(()), "other shape", 0),
    ],
)
def test_an_output_that_cannot_be_compared_is_a_fault(spoil: object, kind: str, sample: int) -> None:
    """NaN, another shape and another dtype are named, with the sample, and the rest is compared."""
    assert callable(spoil)
    r, c, labels = outputs(4)
    (fault,) = faulty(r, spoil(c), labels).faults
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


@pytest.mark.parametrize("given", [{"y": "float64"}, {}], ids=["other dtype", "missing"])
def test_faulty_outputs_are_never_identical(given: dict[str, str]) -> None:
    """Equal values of another dtype, or all equal but one that is missing, are no proof of equal outputs."""
    r, _, labels = outputs(19)
    candidate = {"z": r, **{name: r.astype(dtype) for name, dtype in given.items()}}
    found = evaluate([OutputPair({"y": r, "z": r}, candidate, labels, 0, N)], None, output="z")
    assert found.max_abs_error == 0.0
    assert found.identical is False


def test_two_faults_of_one_output_are_both_told() -> None:
    """Another dtype does not hide a NaN."""
    r, c, labels = outputs(9)
    c[12] = np.nan
    found = faulty(r, c.astype(np.float64), labels)
    assert [(fault.kind, fault.sample) for fault in found.faults] == [("other dtype", 0), ("not finite", 12)]


def test_a_sample_that_is_not_finite_is_wrong_and_the_rest_is_compared() -> None:
    """It scores as a wrong answer, whatever class argmax makes of a NaN; the others keep their figures."""
    r, _, _ = outputs(10)
    labels = r.argmax(axis=1)
    c = r.copy()
    c[20, labels[20]] = np.nan
    found = top1(r, c, labels)
    assert found.reference == 100.0
    assert found.drop == pytest.approx(100 / N)
    assert found.agreement_pct == pytest.approx(100 * (N - 1) / N)
    assert (found.max_abs_error, found.kl, found.identical) == (0.0, 0.0, False)


@pytest.mark.parametrize("name", ["mae", "f1"])
def test_other_scores_leave_out_a_sample_that_is_not_finite(name: str) -> None:
    """Of both sides, so that they still compare the same samples."""
    r, c, labels = outputs(11)
    targets = labels if name == "f1" else np.zeros_like(r)
    metric = resolve_metric(name, "int" if name == "f1" else "float", r.shape)
    broken, kept = c.copy(), np.arange(N) != 33
    broken[33] = np.inf
    found = evaluate(pairs(r, broken, targets), metric, output="y")
    expected = evaluate(pairs(r[kept], c[kept], targets[kept]), metric, output="y")
    assert (found.reference, found.candidate) == (expected.reference, expected.candidate)
    assert found.faults[0].sample == 33


def test_an_all_broken_candidate_scores_nothing_right() -> None:
    """No sample left to compare is no crash, and neither a good score nor an equal output."""
    r, c, labels = outputs(12)
    for name in ("top1", "f1"):
        found = evaluate(pairs(r, np.full_like(c, np.nan), labels), resolve_metric(name, "int", r.shape), output="y")
        assert found.candidate == (0.0 if name == "top1" else None)
        assert (found.agreement_pct, found.max_abs_error, found.identical) == (0.0, None, False)


@pytest.mark.parametrize("output", ["y", "z"])
def test_a_dead_output_is_a_fault_whichever_is_scored(output: str) -> None:
    """It is told beside the others, and nothing is identical then."""
    r, _, labels = outputs(13)
    cut = [
        OutputPair({"y": r[i : i + 7], "z": r[i : i + 7]}, {"y": r[i : i + 7], "z": 0 * r[i : i + 7]}, labels, i, 7)
        for i in range(0, 56, 7)
    ]
    found = evaluate(cut, None, output=output)
    (fault,) = found.faults
    assert (fault.output, fault.kind, found.identical) == ("z", "constant", False)


def best_three(scores: np.ndarray) -> np.ndarray:
    """All but the three largest of each sample's scores are masked."""
    return np.where(scores >= np.sort(scores, axis=1)[:, -3:-2], scores, np.float32(-np.inf))


def test_classes_that_are_masked_by_design_are_right_by_their_largest() -> None:
    """Another set of minus infinity is no fault; NaN is one, and so is a mask where the reference has none."""
    reference, candidate, labels = outputs(0)
    plain = top1(reference, candidate, labels)
    r, c = best_three(reference), best_three(candidate)
    assert np.any(np.isneginf(r) != np.isneginf(c))
    masked = top1(r, c, labels)
    for figure in ("reference", "candidate", "drop", "agreement_pct", "worst_class", "faults"):
        assert getattr(masked, figure) == getattr(plain, figure), figure
    c[7] = np.nan
    assert [(fault.kind, fault.sample) for fault in top1(r, c, labels).faults] == [("not finite", 7)]
    right = reference.argmax(axis=1)
    candidate = reference.copy()
    candidate[np.arange(N), (right + 1) % CLASSES] = -np.inf
    found = top1(reference, candidate, labels)
    assert (found.agreement_pct, found.drop) == (100.0, 0.0)
    assert [(one.kind, one.sample) for one in found.faults] == [("not finite", 0)]
