"""How often intervals of the drop cover the true drop, by metric: ``python -m tests.benchmarks.metric_coverage``.

Each trial draws new samples from one population, of which the true drop is known: the drop over all of its samples. A
line is printed for each metric and size; nominal is 95 %. Intervals are made of 400 resamples, as of costly metrics.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pytest_quant.metrics import ResolvedMetric, metric_by_name
from pytest_quant.metrics.drop import add_drop, add_scores
from pytest_quant.result import AccuracyResult

SIZES = (50, 500)
TRIALS = 2000
_POPULATION = 20_000

Sides = tuple[np.ndarray, np.ndarray]


def boxes(random: np.random.Generator, n: int) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """Return detections of both engines and labels of n pictures: one to six objects of four classes, half missed."""
    many, classes = random.integers(1, 7, n), 4
    held = np.arange(6) < many[:, None]
    corner = random.uniform(0, 100, (n, 6, 2))
    truth, names = (
        np.concatenate([corner, corner + random.uniform(10, 30, (n, 6, 2))], axis=2),
        random.integers(0, classes, (n, 6)),
    )
    labels = np.empty(n, object)
    for picture in range(n):
        labels[picture] = {"boxes": truth[picture, held[picture]], "labels": names[picture, held[picture]]}
    noise, score = random.normal(0, 1.0, truth.shape), random.beta(4, 2, (n, 6))
    wrong = random.uniform(0, 130, (n, 4, 2))
    false = np.concatenate([wrong, wrong + 20], axis=2)
    sides = []
    for spread, confused in ((1.0, 0.10), (1.5, 0.14)):
        own = np.where(random.random((n, 6)) < confused, random.integers(0, classes, (n, 6)), names)
        sides.append(
            {
                "boxes": np.concatenate(
                    [truth + spread * (noise + 0.5 * random.normal(size=truth.shape)), false], axis=1
                ),
                "scores": np.concatenate(
                    [np.clip(score + 0.05 * random.normal(size=score.shape), 0, 1), random.beta(2, 4, (n, 4))], axis=1
                ),
                "classes": np.concatenate([np.where(held, own, -1), random.integers(0, classes, (n, 4))], axis=1),
            }
        )
    return sides, labels


def maps(random: np.random.Generator, n: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Return maps of five classes of both engines and their labels, 64 pixels in patches; the last class is rare."""
    shares = random.dirichlet([2.0, 1.0, 0.7, 0.5, 0.2], n)
    labels = (random.random((n, 64, 1)) > np.cumsum(shares, axis=1)[:, None, :-1]).sum(axis=2)
    hard = random.beta(1, 6, (n, 1))
    luck, other = random.random((n, 64)), random.integers(0, 5, (n, 64))
    return [np.where(luck < hard * more, other, labels) for more in (1.0, 1.2)], labels


def items(random: np.random.Generator, n: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Return scores of 40 items by both engines, and lists of one to four relevant ones."""
    scores, labels = random.normal(size=(n, 40)), np.empty(n, object)
    for sample, count in enumerate(random.integers(1, 5, n)):
        labels[sample] = random.choice(40, count, replace=False)
        scores[sample, labels[sample]] += 2.0
    return [scores + 0.3 * random.normal(size=scores.shape), scores + 0.6 * random.normal(size=scores.shape)], labels


SUBJECTS: dict[str, Callable[[np.random.Generator, int], tuple[list[np.ndarray], np.ndarray]]] = {
    "map": boxes,  # type: ignore[dict-item]
    "map50": boxes,  # type: ignore[dict-item]
    "match@0.5": boxes,  # type: ignore[dict-item]
    "miou": maps,
    "recall@10": items,
}


def population(name: str) -> tuple[ResolvedMetric, Sides]:
    """Return a metric, and its statistics of reference and candidate over all samples there are."""
    metric = metric_by_name(name)
    assert isinstance(metric, ResolvedMetric)
    sides, labels = SUBJECTS[name](np.random.default_rng(0), _POPULATION)
    reference, candidate = (metric.statistics(side, sides[0] if metric.against_reference else labels) for side in sides)
    return metric, (reference, candidate)


def covered(name: str, n: int, trials: int) -> tuple[float, float]:
    """Return in how many trials of a hundred the interval holds the true drop, and its mean width."""
    metric, (reference, candidate) = population(name)
    metric = replace(metric, costly=True)
    whole = AccuracyResult(n=_POPULATION, unit=metric.unit, better=metric.better)
    true = add_scores(whole, reference, candidate, metric).drop
    assert true is not None
    random, hits, width, got = np.random.default_rng(1), 0, 0.0, 0
    for _ in range(trials):
        rows = random.integers(0, _POPULATION, n)
        own = AccuracyResult(n=n, unit=metric.unit, better=metric.better)
        interval = add_drop(own, reference[rows], candidate[rows], metric, None).drop_ci
        if interval is not None:
            got += 1
            hits += interval.low <= true <= interval.high
            width += interval.high - interval.low
    return 100.0 * hits / got, width / got


def main() -> None:
    """Print a line for each metric and size; arguments are trials, and names of metrics."""
    trials = int(sys.argv[1]) if sys.argv[1:] else TRIALS
    for name in sys.argv[2:] or SUBJECTS:
        for n in SIZES:
            began = time.perf_counter()
            share, width = covered(name, n, trials)
            took = time.perf_counter() - began
            sys.stdout.write(f"| {name} | {n} | {share:.1f} % | {width:.2f} pp | {trials} | {took:.0f} s |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
