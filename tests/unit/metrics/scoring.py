"""Scores and labels to try metrics on, and what is said of those that cannot be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pytest_quant.errors import QuantError
from pytest_quant.metrics import Metric, resolve_metric

CLASSES = 7


def classified(seed: int, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (n, 7) and labels (n,)."""
    random = np.random.default_rng(seed)
    return random.normal(size=(n, CLASSES)).astype(np.float32), random.integers(0, CLASSES, n)


def score(metric: str | Metric, outputs: np.ndarray, labels: np.ndarray) -> float:
    """Score outputs in two chunks, as the evaluation does."""
    kind = "int" if labels.dtype.kind in "iu" else "float"
    resolved = resolve_metric(metric, kind, outputs.shape)
    assert resolved is not None
    half = len(outputs) // 2
    parts = [resolved.statistics(outputs[rows], labels[rows]) for rows in (slice(half), slice(half, None))]
    return resolved.aggregate(np.concatenate(parts))


def scores(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return outputs (40, 6) of two engines, the first far from zero."""
    random = np.random.default_rng(seed)
    reference = random.normal(500.0, 3.0, size=(40, 6)).astype(np.float32)
    return reference, (reference + random.normal(size=reference.shape)).astype(np.float32)


def said(call: Callable[[], object]) -> str:
    """Return the message of the error that `call` raises."""
    with pytest.raises(QuantError) as raised:
        call()
    return str(raised.value)
