"""Coverage of the intervals of f1 and mae at 50 samples, where few answers differ or errors have long tails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant.metrics import resolve_metric
from pytest_quant.metrics.drop import PairedStatistics
from pytest_quant.result import AccuracyResult
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.rates import counted
from tests.benchmarks.detection.table import Row, at_least

N = 50
CLASSES = 4
RIGHT, FLIPPED = 0.9, 0.005
POPULATION = 1_000_000
CONFIDENCE = 0.95
COVERED_AT_LEAST_PCT = 93.0
BATCH, BATCHES = 50, 20

Array: TypeAlias = NDArray[Any]
Drawn: TypeAlias = tuple[str, Array, Array, Array]
"""A metric's name, and outputs of reference and candidate, and labels, of n samples."""


def _classes(n: int, random: np.random.Generator) -> Drawn:
    """Draw answers of a classifier, a few of which the candidate gives otherwise."""
    labels = random.integers(0, CLASSES, n)
    other = (labels + random.integers(1, CLASSES, n)) % CLASSES
    reference = np.where(random.random(n) < RIGHT, labels, other)
    moved = (reference + random.integers(1, CLASSES, n)) % CLASSES
    candidate = np.where(random.random(n) < FLIPPED, moved, reference)
    eye = np.eye(CLASSES, dtype=np.float32)
    return "f1", eye[reference], eye[candidate], labels


def _few_moved(n: int, random: np.random.Generator) -> Drawn:
    """Draw predictions of a number, a few of which are off by one more."""
    labels = random.normal(size=(n, 1))
    reference = labels + random.normal(0.0, 0.5, (n, 1))
    candidate = labels + (reference - labels) + np.sign(reference - labels) * (random.random((n, 1)) < FLIPPED)
    return "mae", reference, candidate, labels


def _long_tails(n: int, random: np.random.Generator) -> Drawn:
    """Draw predictions that differ by lognormal amounts, of which a few are most of the mean."""
    labels = np.zeros((n, 1))
    reference = random.normal(0.0, 0.1, (n, 1))
    worse = random.lognormal(-2.0, 1.5, (n, 1))
    return "mae", reference, reference + np.sign(reference) * worse, labels


WORLDS: Mapping[str, Callable[[int, np.random.Generator], Drawn]] = {
    "f1, 0.5 % of the answers differ": _classes,
    "mae, 0.5 % of the predictions differ": _few_moved,
    "mae, lognormal differences": _long_tails,
}


def drop_of(drawn: Drawn) -> AccuracyResult:
    """Score what was drawn as a check does."""
    name, reference, candidate, labels = drawn
    kind = "int" if labels.dtype.kind == "i" else "float"
    metric = resolve_metric(name, kind, reference.shape)
    assert metric is not None
    scores = PairedStatistics(metric)
    scores.add(reference, candidate, labels, np.ones(len(labels), dtype=bool), 0)
    return scores.add_to(AccuracyResult(n=len(labels)), None, CONFIDENCE)


def true_drop(world: str) -> float:
    """Return the drop over a population of a million, whose standard error is small beside an interval at 50."""
    name, reference, candidate, labels = WORLDS[world](POPULATION, np.random.default_rng(0))
    if name == "mae":
        return float(np.mean(np.abs(candidate - labels)) - np.mean(np.abs(reference - labels)))
    from sklearn.metrics import f1_score

    reference_f1, candidate_f1 = (
        100.0 * f1_score(labels, np.argmax(side, axis=1), average="macro") for side in (reference, candidate)
    )
    return float(reference_f1 - candidate_f1)


def batch(world: str, seed: int) -> Found:
    """Draw so many sets of 50 samples, and count the intervals that enclose the truth."""
    random, truth = np.random.default_rng(seed), true_drop(world)
    intervals = [drop_of(WORLDS[world](N, random)).drop_ci for _ in range(BATCH)]
    enclosed = sum(interval is not None and interval.low <= truth <= interval.high for interval in intervals)
    return {"n": BATCH, "covered": enclosed}


def arms() -> list[Arm]:
    """One for each world."""
    return [Arm(_key(world), BATCHES, partial(batch, world)) for world in WORLDS]


def _key(world: str) -> str:
    return f"accuracy {world}"


def rows(ledger: Ledger) -> Iterator[Row]:
    """One for each world."""
    for world in WORLDS:
        figure = f"coverage of the 95 % interval of the drop at n = {N}: {world}"
        yield at_least(figure, counted(ledger, _key(world), "covered"), COVERED_AT_LEAST_PCT)
