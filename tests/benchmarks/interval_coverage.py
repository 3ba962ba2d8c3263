# ruff: noqa: T201 - a command that prints its table
"""How often the 95 % interval of the drop of a metric of sums encloses the true drop.

Each world draws samples, or clusters of samples that depend on each other, from one law whose drop is known. A row is
one world at one number of samples or clusters: the share of sets whose interval encloses the drop, and its own exact
interval. Run it with `python -m tests.benchmarks.interval_coverage`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.metrics.builtin import BUILTIN
from pytest_quant.metrics.drop import add_drop
from pytest_quant.metrics.metric import ResolvedMetric, ratio_metric
from pytest_quant.result import AccuracyResult
from tests.benchmarks.detection.rates import Rate

Array = NDArray[Any]
Draw = Callable[[np.random.Generator, int], tuple[Array, Array, Array | None]]
"""(random, number) -> rows of the reference, rows of the candidate, and the cluster of each row or ``None``."""

MANY = 400_000
"""Samples or clusters whose drop is taken for the truth."""


@dataclass(frozen=True, slots=True)
class World:
    """A law of samples: the metric that scores them, and how a set of so many samples or clusters is drawn."""

    metric: ResolvedMetric
    draw: Draw


def _errors(random: np.random.Generator, words: Array, shares: Array) -> Array:
    """Return (errors, words) of sentences whose words are wrong by these shares."""
    return np.stack([random.binomial(words, shares), words], axis=1).astype(float)


def sentences(random: np.random.Generator, n: int) -> tuple[Array, Array, None]:
    """Sentences of 3 to 40 words, some of them harder on both sides; the candidate also makes errors of its own."""
    words = random.integers(3, 41, n)
    hard = random.beta(0.6, 5.4, n)
    reference = _errors(random, words, hard)
    more = random.binomial((words - reference[:, 0]).astype(int), 0.02)
    fewer = random.binomial(reference[:, 0].astype(int), 0.1)
    return reference, np.stack([reference[:, 0] + more - fewer, words], axis=1), None


def speakers(random: np.random.Generator, n: int) -> tuple[Array, Array, Array]:
    """Speakers with 2 to 20 sentences each, on whom the candidate loses more or less."""
    codes = np.repeat(np.arange(n), random.integers(2, 21, n))
    words = random.integers(3, 41, len(codes))
    hard, loss = random.beta(2, 20, n)[codes], random.beta(1, 40, n)[codes]
    reference = _errors(random, words, hard)
    more = random.binomial((words - reference[:, 0]).astype(int), loss)
    return reference, np.stack([reference[:, 0] + more, words], axis=1), codes


def documents(random: np.random.Generator, n: int) -> tuple[Array, Array, None]:
    """Texts of 20 to 500 tokens: sums of their losses in nats, and the tokens."""
    tokens = random.integers(20, 501, n)
    mean = 2.0 + 0.5 * random.standard_normal(n)
    noise = random.standard_normal((2, n)) * 0.8 / np.sqrt(tokens)
    change = 0.03 + 0.05 * random.standard_normal(n)
    sides = (tokens * (mean + noise[0]), tokens * (mean + noise[0] + change + 0.1 * noise[1]))
    reference, candidate = (np.stack([losses, tokens], axis=1) for losses in sides)
    return reference, candidate, None


def chapters(random: np.random.Generator, n: int) -> tuple[Array, Array, Array]:
    """Books whose chapters the candidate finds harder together."""
    codes = np.repeat(np.arange(n), random.integers(3, 12, n))
    reference, candidate, _ = documents(random, len(codes))
    candidate[:, 0] += candidate[:, 1] * (0.1 * random.standard_normal(n))[codes]
    return reference, candidate, codes


def tagged(random: np.random.Generator, n: int, lost: float) -> tuple[Array, Array, None]:
    """Sentences with names, of which either side finds some and adds others: twice the right ones, found and true.

    The candidate loses a share `lost` of the names that the reference finds, finds as many of the others, and adds as
    many to each sentence.
    """
    names = random.poisson(2.0, n)
    easy = random.beta(8.0, 2.0, n)
    right = random.binomial(names, easy)
    other = random.poisson(0.4, n)
    kept, more, extra = (
        random.binomial(right, 1.0 - lost),
        random.binomial(names - right, lost),
        random.poisson(lost, n),
    )
    sides = ((right, right + other), (kept + more, kept + more + other + extra))
    reference, candidate = (np.stack([2 * hits, found + names], axis=1).astype(float) for hits, found in sides)
    return reference, candidate, None


def weighted(random: np.random.Generator, n: int) -> tuple[Array, Array, None]:
    """Answers that a judge gives shares of the points, each with the weight of its question: few weigh much."""
    weight = random.gamma(1.5, 2.0, n)
    reference = random.beta(4, 2, n)
    candidate = np.clip(reference - 0.04 + 0.1 * random.standard_normal(n), 0.0, 1.0)
    return np.stack([reference * weight, weight], axis=1), np.stack([candidate * weight, weight], axis=1), None


def weighted_topics(random: np.random.Generator, n: int) -> tuple[Array, Array, Array]:
    """The same in topics of 3 to 15 questions, on which the candidate is worse or better together."""
    codes = np.repeat(np.arange(n), random.integers(3, 16, n))
    reference, candidate, _ = weighted(random, len(codes))
    shift = (0.05 * random.standard_normal(n))[codes]
    candidate[:, 0] = np.clip(candidate[:, 0] / candidate[:, 1] + shift, 0.0, 1.0) * candidate[:, 1]
    return reference, candidate, codes


def answers(random: np.random.Generator, n: int) -> tuple[Array, Array, Array]:
    """Right and wrong answers to 5 to 15 questions about each text, of which the candidate loses more on some texts."""
    codes = np.repeat(np.arange(n), random.integers(5, 16, n))
    reference = (random.random(len(codes)) < random.beta(6, 2, n)[codes]).astype(float)
    lost = random.random(len(codes)) < random.beta(0.5, 6.0, n)[codes]
    won = random.random(len(codes)) < 0.05
    return reference, np.where(reference > 0.0, ~lost, won).astype(float), codes


SHARE = ratio_metric("share", "higher", lambda outputs, _: outputs)
RIGHT = ResolvedMetric(
    "right", "higher", "%", lambda outputs, _: outputs, lambda rows: 100.0 * float(np.mean(rows)), rate=100.0
)
WER = ratio_metric("wer", "lower", lambda outputs, _: outputs)
SPANS = ratio_metric("span_f1", "higher", lambda outputs, _: outputs)
PERPLEXITY = BUILTIN["perplexity"]

WORLDS = {
    "wer": World(WER, sentences),
    "wer, speakers": World(WER, speakers),
    "span_f1": World(SPANS, partial(tagged, lost=0.15)),
    "span_f1, few differ": World(SPANS, partial(tagged, lost=0.03)),
    "perplexity": World(PERPLEXITY, documents),
    "perplexity, books": World(PERPLEXITY, chapters),
    "weighted mean": World(SHARE, weighted),
    "weighted mean, topics": World(SHARE, weighted_topics),
    "right answers, texts": World(RIGHT, answers),
}


def covers(name: str, number: int, truth: float, seed: int) -> tuple[bool, float]:
    """Return whether the interval of one set encloses the truth, and how wide it is."""
    world = WORLDS[name]
    reference, candidate, clusters = world.draw(np.random.default_rng((seed, number)), number)
    result = AccuracyResult(n=len(reference), metric="m", unit=world.metric.unit, better=world.metric.better)
    ends = add_drop(result, reference, candidate, world.metric, None, clusters).drop_ci
    return (False, np.nan) if ends is None else (ends.low <= truth <= ends.high, ends.high - ends.low)


def true_drop(world: World) -> float:
    """Return the drop over `MANY` samples or clusters."""
    reference, candidate, _ = world.draw(np.random.default_rng(99), MANY)
    drop = world.metric.aggregate(reference) - world.metric.aggregate(candidate)
    return drop if world.metric.better == "higher" else -drop


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=2000, help="sets of each row (default: 2000)")
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--numbers", nargs="+", type=int, default=[12, 50, 500], help="samples or clusters of a set")
    given = parser.parse_args()
    print("| metric | samples or clusters | drop | mean width | intervals that enclose it | 93 to 98 % |")
    print("| --- | --- | --- | --- | --- | --- |")
    with ProcessPoolExecutor() as pool:
        for name in given.worlds:
            truth = true_drop(WORLDS[name])
            for number in given.numbers:
                found = list(pool.map(partial(covers, name, number, truth), range(given.sets), chunksize=20))
                share = Rate(sum(hit for hit, _ in found), given.sets)
                width = float(np.nanmean([width for _, width in found]))
                held = 0.93 <= share.hits / share.n <= 0.98
                told = "yes" if held else "NO"
                print(f"| {name} | {number} | {truth:.4g} | {width:.4g} | {share} | {told} |", flush=True)


if __name__ == "__main__":
    main()
