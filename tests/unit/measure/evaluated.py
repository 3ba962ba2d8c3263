"""Outputs of two engines, and their evaluation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pytest_quant.measure.evaluation import OutputPair, evaluate
from pytest_quant.metrics import resolve_metric
from pytest_quant.result import AccuracyResult

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
    return evaluate(pairs(reference, candidate, labels, step), metric, output=("y",), margin=1.0)
