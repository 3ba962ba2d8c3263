"""Average precision of 5000 pictures of 80 classes, both sides and their interval, takes at most 20 s and 1 GB."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest

from pytest_quant.metrics import ResolvedMetric, metric_by_name
from pytest_quant.metrics.drop import PairedStatistics
from pytest_quant.result import AccuracyResult

PICTURES, CLASSES, FOUND, HELD, CHUNK = 5000, 80, 100, 7, 32
MOST_GB = 1.0


def chunk(random: np.random.Generator, n: int) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """Return detections of both sides, most of them near an object, and labels."""
    corner = random.uniform(0, 500, (n, HELD, 2))
    truth = np.concatenate([corner, corner + random.uniform(20, 140, (n, HELD, 2))], axis=2)
    names, labels = random.integers(0, CLASSES, (n, HELD)), np.empty(n, object)
    for picture in range(n):
        labels[picture] = {"boxes": truth[picture], "labels": names[picture]}
    source = random.integers(0, HELD, (n, FOUND))
    near, own = np.take_along_axis(truth, source[..., None], axis=1), np.take_along_axis(names, source, axis=1)
    sides = [
        {
            "boxes": (near + random.normal(0, noise, near.shape)).astype(np.float32),
            "scores": random.random((n, FOUND)).astype(np.float32),
            "classes": np.where(random.random((n, FOUND)) < 0.7, own, random.integers(0, CLASSES, (n, FOUND))),
        }
        for noise in (6.0, 7.0)
    ]
    return sides, labels


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count the resident set in other units")
def test_average_precision_of_a_large_set(show: Callable[[str], None]) -> None:
    """Time of this process is printed, not asserted; the resident set holds whatever else runs."""
    metric = metric_by_name("map")
    assert isinstance(metric, ResolvedMetric)
    random, scores, spent_s = np.random.default_rng(0), PairedStatistics(metric), 0.0
    for start in range(0, PICTURES, CHUNK):
        (reference, candidate), labels = chunk(random, min(CHUNK, PICTURES - start))
        began_s = time.process_time()
        scores.add(reference, candidate, labels, np.ones(len(labels), bool), start)
        spent_s += time.process_time() - began_s
    began_s = time.process_time()
    result = scores.add_to(AccuracyResult(n=PICTURES), None, 0.95)
    spent_s += time.process_time() - began_s
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    show(f"map of {PICTURES} pictures, {spent_s:.1f} s, {peak_gb:.2f} GB")
    assert result.drop_ci is not None
    assert peak_gb <= MOST_GB
