"""How often six kinds of public gates are wrong, and the marks in place of them.

Each trial draws samples, the answers of a float model, and those of a candidate that lost nothing, or twice what the
gate was meant to allow, or won as much. The gate sees what it would see; the mark is judged by the code that judges
checks, at 95 % confidence. ``python -m tests.benchmarks.thresholds`` prints the table of the guide ``thresholds.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant.metrics.builtin import BUILTIN
from pytest_quant.metrics.drop import add_drop
from pytest_quant.metrics.metric import ResolvedMetric, ratio_metric
from pytest_quant.result import AccuracyResult, Status
from pytest_quant.spec import Limits
from pytest_quant.verdict.accuracy_limits import accuracy_verdicts

CONFIDENCE = 0.95
TRIALS, TRIALS_OF_RATIOS = 2000, 150
"""Of each world; of the mark, fewer where its interval is a bootstrap."""

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Trial:
    """One draw: whether the gate is red, and what the mark reads of both engines, a row for each sample."""

    red: bool
    reference: Array
    candidate: Array


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate, and the mark that does what it meant.

    Attributes
    ----------
    name : what it does.
    n : samples that it sees, and the mark too.
    draw : (random, loss, n) -> a trial of a candidate that is worse by `loss` points than the float model.
    metric : of the mark.
    limits : of the mark.
    meant : the loss in points that the mark allows.
    """

    name: str
    n: int
    draw: Callable[[np.random.Generator, float, int], Trial]
    metric: ResolvedMetric
    limits: Limits
    meant: float

    @property
    def title(self) -> str:
        """The name with the number of samples, as the table has it."""
        return f"{self.name}; {self.n}"


def answers(random: np.random.Generator, right: Array, flips: float, loss: float) -> Array:
    """Return which samples a candidate gets right.

    Parameters
    ----------
    right : which the float model gets right (n,).
    flips : share of the samples that it loses, and as many that it wins, whatever it is worth.
    loss : share of the samples that it loses beside these; negative for one that it wins.
    """
    share = np.clip(right.mean(), 1e-9, 1.0 - 1e-9)
    lost, won = (flips + max(loss, 0.0)) / share, (flips + max(-loss, 0.0)) / (1.0 - share)
    drawn = random.random(len(right))
    return np.asarray(np.where(right, drawn >= lost, drawn < won))


def stored_number(
    random: np.random.Generator, loss: float, n: int, *, share: float, flips: float, near: float
) -> Trial:
    """Compare the candidate's share with that of an earlier one, which lost nothing, in both directions.

    `near` is the largest difference, as a share of the samples, that is green.
    """
    right = random.random(n) < share
    earlier, now = answers(random, right, flips, 0.0), answers(random, right, flips, loss / 100.0)
    return Trial(abs(now.mean() - earlier.mean()) > near, right, now)


def rounded_ratio(random: np.random.Generator, loss: float, n: int, *, share: float, flips: float) -> Trial:
    """Round candidate / float model to two digits, and ask for 0.95."""
    right = random.random(n) < share
    now = answers(random, right, flips, loss / 100.0)
    return Trial(round(float(now.mean() / right.mean()), 2) < 0.95, right, now)


def heard(random: np.random.Generator, words: Array, hard: Array, wer: float, rest: float = 0.4) -> Array:
    """Return the word errors of one run (n,): those that any run makes are `hard`, a share `rest` of all is its own."""
    return np.asarray(hard + random.poisson(wer * rest * words))


def of_words(errors: Array, words: Array) -> Array:
    """Return what the metric of word errors reads of a run."""
    return np.column_stack([errors, words]).astype(np.float64)


def worst_of_five(random: np.random.Generator, loss: float, n: int) -> Trial:
    """Allow a quarter more than the worst of five runs of a candidate that lost nothing; 5 % of the words are wrong."""
    words = random.integers(4, 21, n)
    # Some speakers are hard to understand.
    hard = random.poisson(0.03 * words * random.gamma(1.0, 1.0, n))
    earlier = [heard(random, words, hard, 0.05).sum() for _ in range(5)]
    extra = random.poisson(max(loss, 0.0) / 100.0 * words)
    now = np.maximum(heard(random, words, hard, 0.05) + extra - random.poisson(max(-loss, 0.0) / 100.0 * words), 0)
    reference = heard(random, words, hard, 0.05)
    return Trial(bool(now.sum() > 1.25 * max(earlier)), of_words(reference, words), of_words(now, words))


def mean_of_rates(random: np.random.Generator, loss: float, n: int) -> Trial:
    """Judge the mean of the rates of utterances: 60 % commands of a few words; what is lost are words of sentences."""
    is_command = random.random(n) < 0.6
    words = np.where(is_command, random.integers(1, 4, n), random.integers(20, 61, n))
    hard = random.poisson(0.03 * words)
    reference, now = heard(random, words, hard, 0.05), heard(random, words, hard, 0.05)
    sentences = np.where(is_command, 0, words)
    change = abs(loss) / 100.0 * words.sum() / sentences.sum()
    now = np.maximum(now + int(np.sign(loss)) * random.poisson(change * sentences), 0)
    rise = np.mean(now / words) - np.mean(reference / words)
    return Trial(bool(rise > 0.01), of_words(reference, words), of_words(now, words))


def few_pictures(random: np.random.Generator, loss: float, n: int) -> Trial:
    """Ask for the share of boxes that an earlier candidate found, less 5 points; a picture has about 4 boxes."""
    boxes = 1 + random.poisson(3.25, n)
    found = random.random(boxes.sum()) < np.repeat(random.beta(6.0, 4.0, n), boxes)
    earlier, now = (answers(random, found, 0.03, each) for each in (0.0, loss / 100.0))
    picture = np.repeat(np.arange(n), boxes)
    rows = [np.column_stack([np.bincount(picture, side, n), boxes]).astype(float) for side in (found, now)]
    return Trial(bool(now.mean() < earlier.mean() - 0.05), *rows)


_FOUND = ratio_metric("found", "higher", lambda found, boxes: np.column_stack([found, boxes]))


def gates() -> Iterator[Gate]:
    """Each with as many samples as its repository has, and some with more."""
    top1, wer = BUILTIN["top1"], BUILTIN["wer"]
    tight = partial(stored_number, share=0.75, flips=0.01, near=0.001)
    yield Gate("stored number, isclose 0.001", 5000, tight, top1, Limits(max_drop=1.0), 1.0)
    rounded = partial(rounded_ratio, share=0.75, flips=0.03)
    yield Gate("ratio >= 0.95, rounded", 1000, rounded, top1, Limits(min_ratio=0.95), 0.05 * 75)
    for n in (20, 1088):
        yield Gate("worst of five x 1.25", n, worst_of_five, wer, Limits(max_drop=1.25), 1.25)
    for n in (4, 1000):
        yield Gate("floor on pictures", n, few_pictures, _FOUND, Limits(max_drop=5.0), 5.0)
    for n in (250, 1319):
        relative = partial(stored_number, share=0.62, flips=0.05, near=0.05 * 0.62)
        yield Gate("stored number, within 5 %", n, relative, top1, Limits(max_drop=3.0), 3.0)
    yield Gate("mean of rates", 500, mean_of_rates, wer, Limits(max_drop=1.0), 1.0)


HEAD = (
    "gate; samples",
    "gate: red, nothing lost",
    "green, twice lost",
    "red, as much won",
    "mark: FAIL, nothing lost",
    "PASS, twice lost",
    "INCONCLUSIVE, nothing lost",
    "twice lost",
)


def status_of(gate: Gate, trial: Trial) -> Status:
    """Judge what was drawn as a check does."""
    metric = gate.metric
    result = AccuracyResult(
        n=len(trial.reference), metric=metric.name, unit=metric.unit, better=metric.better, confidence=CONFIDENCE
    )
    result = add_drop(result, trial.reference, trial.candidate, metric, gate.meant)
    (verdict,) = accuracy_verdicts(gate.limits, result, CONFIDENCE)
    return verdict.status


def theirs(gate: Gate, seed: int = 0, trials: int = TRIALS) -> list[float]:
    """Return how often the gate is red without a loss, green at twice what was meant, and red for as much won, in %."""
    random = np.random.default_rng(seed)
    same, worse, better = (
        100.0 * float(np.mean([gate.draw(random, k * gate.meant, gate.n).red for _ in range(trials)]))
        for k in (0.0, 2.0, -2.0)
    )
    return [same, 100.0 - worse, better]


def ours(gate: Gate, seed: int = 0, trials: int | None = None) -> list[float]:
    """Return how often the mark is FAIL without a loss, PASS at twice the one meant, INCONCLUSIVE in both, in %."""
    trials = trials or (TRIALS if gate.metric.rate is not None else TRIALS_OF_RATIOS)
    random = np.random.default_rng(seed)
    same, worse = (
        [status_of(gate, gate.draw(random, k * gate.meant, gate.n)) for _ in range(trials)] for k in (0.0, 2.0)
    )
    counted = ((same, Status.FAIL), (worse, Status.PASS), (same, Status.INCONCLUSIVE), (worse, Status.INCONCLUSIVE))
    return [100.0 * statuses.count(status) / trials for statuses, status in counted]


def line(cells: Sequence[str]) -> str:
    """Return a row of a table in Markdown."""
    return f"| {' | '.join(cells)} |\n"


def main() -> int:
    """Print the table."""
    argparse.ArgumentParser(prog="python -m tests.benchmarks.thresholds", description=__doc__).parse_args()
    sys.stdout.write(line(HEAD) + line(["---"] * len(HEAD)))
    for gate in gates():
        sys.stdout.write(line([gate.title, *(f"{figure:.0f} %" for figure in (*theirs(gate), *ours(gate)))]))
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
