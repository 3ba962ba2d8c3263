"""Scores of language models in simulated worlds: runs over the same samples, whose noise is known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import beta

from pytest_quant.data.score_pairs import PairedScores
from pytest_quant.measure.scored import ASSUMED_RUN_SD_PCT, join_tasks, measure_drop, metric_of, task_score
from pytest_quant.result import AccuracyResult, Status
from pytest_quant.spec import Limits
from pytest_quant.stats.paired import mcnemar_p
from pytest_quant.stats.runs import run_noise
from pytest_quant.verdict.accuracy_limits import accuracy_verdicts
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.rates import Rate, counted
from tests.benchmarks.detection.table import Row, at_least, at_most

Array: TypeAlias = NDArray[Any]
Sides: TypeAlias = tuple[Array, Array]
"""Right and wrong answers (runs, n) of reference and candidate to the same n samples."""

RIGHT = 0.7
RUN_SD = 0.007
"""Of the mean score of a run over samples that stay, in a unit of 0..1."""

MAX_DROP_PCT = 1.0
DROP_PCT = 3.0
CONFIDENCE = 0.95
SAMPLES = (200, 1319)
RUNS = ((1, 1), (3, 3), (10, 10), (10, 1))
"""Of the reference, and of the candidate."""

RECORDS = (0, 5)
"""Earlier ones in the history, which show the noise between runs too."""

TASKS = (100, 150, 200, 250, 300, 400, 500, 600, 800, 1000, 1319) * 3
"""Samples of each task of one model."""

FALSE_AT_MOST_PCT, ANY_FALSE_AT_MOST_PCT, CAUGHT_AT_LEAST_PCT = 1.0, 5.0, 90.0
COVERED_PCT = (93.0, 98.0)
BATCH, BATCHES = 100, 20
_FEW_ANSWERS = 2.0
TASK_BATCH = 20
_LEVELS = 20_001


@dataclass(frozen=True, slots=True)
class World:
    """How answers vary from run to run.

    Attributes
    ----------
    answers : standard deviation of a run's mean by answers that are drawn anew for each sample and run.
    shift : that by a shift which all samples of a run share.
    renewed : share of the samples whose answers a drop draws anew; 0 for a drop that weakens all answers alike.
    """

    answers: float
    shift: float
    renewed: float = 0.0

    def draw(self, runs: tuple[int, int], n: int, drop: float, random: np.random.Generator) -> Sides:
        """Draw the answers to n new samples in new runs; `drop` is that of all samples there are, 0..1."""
        reference = self._chances(RIGHT, n, random)
        candidate = self._dropped(reference, drop, random) if drop else reference
        places = random.random((1, n))
        first, second = (
            np.vstack([self._answers(chances, places, random) for _ in range(k)])
            for k, chances in zip(runs, (reference, candidate), strict=True)
        )
        return first, second

    def _answers(self, chances: Array, places: Array, random: np.random.Generator) -> Array:
        """Draw one run's answers (1, n).

        With chances of its own each sample is drawn anew, and a shift is one of all logits, larger by as much as the
        mean chance moves less. Else a sample's place on a line says whether it is right, and the shift moves the point
        up to which the samples are.
        """
        shift = random.normal(0.0, self.shift)
        if self.answers == 0.0:
            return places < chances + shift
        by = shift / (chances.size * self.answers**2)
        return random.random((1, chances.size)) < weakened(chances, by)

    def _dropped(self, chances: Array, drop: float, random: np.random.Generator) -> Array:
        """Return the candidate's chances of the same samples."""
        n = chances.size
        if self.renewed:
            anew = self._chances(RIGHT - drop / self.renewed, n, random)
            return np.where(random.random(n) < self.renewed, anew, chances)
        return weakened(chances, weakness(spread(self.answers, n), drop)) if self.answers else chances - drop

    def _chances(self, right: float, n: int, random: np.random.Generator) -> Array:
        """Draw the chance of each of n samples to be answered right; most are near 0 or 1."""
        if self.answers == 0.0:
            return np.full(n, right)
        sure = spread(self.answers, n)
        return random.beta(right * sure, (1.0 - right) * sure, n)


_HALF = RUN_SD / math.sqrt(2.0)
INDEPENDENT, SHIFTED, BOTH = "answers drawn anew", "runs that shift", "both in equal parts"
RENEWED = "answers drawn anew, and 10 % of the samples answered in a new way"
WORLDS: Mapping[str, World] = {
    INDEPENDENT: World(RUN_SD, 0.0),
    SHIFTED: World(0.0, RUN_SD),
    BOTH: World(_HALF, _HALF),
    RENEWED: World(RUN_SD, 0.0, renewed=0.1),
}
CALM = (INDEPENDENT, SHIFTED, BOTH)
"""Worlds for trials without a drop."""


def spread(sd: float, n: int) -> float:
    """Return the sum a + b of the beta distribution of chances p whose run means over n samples vary by `sd`.

    The variance is E p(1 - p) / n, and E p(1 - p) = m (1 - m) (a + b) / (a + b + 1) for the mean m.
    """
    share = n * sd**2 / (RIGHT * (1.0 - RIGHT))
    return share / (1.0 - share)


def weakened(chances: Array, by: float) -> Array:
    """Return the chances of a weaker model: less by `by` in their logits (Rasch 1960)."""
    return chances / (chances + (1.0 - chances) * math.exp(by))


@cache
def weakness(sure: float, drop: float) -> float:
    """Return by how much logits must fall for a drop of the mean chance, over the quantiles of the chances."""
    middles = (np.arange(_LEVELS) + 0.5) / _LEVELS
    chances = beta.ppf(middles, RIGHT * sure, (1.0 - RIGHT) * sure)
    found = brentq(lambda by: float(np.mean(chances - weakened(chances, by))) - drop, 0.0, 50.0)
    return float(found)


def paired(sides: Sides) -> PairedScores:
    """Return the answers as they are read from files."""
    reference, candidate = (side.astype(np.float64) for side in sides)
    return PairedScores("", "exact_match", "higher", "%", 100.0, reference, candidate, digest="")


def nothing_known(scores: PairedScores, *, runs_known: bool = False) -> AccuracyResult:
    """Return what is known before the scores are compared; `runs_known` where the history shows the noise of runs."""
    runs = len(scores.reference), len(scores.candidate)
    return AccuracyResult(
        n=scores.candidate.shape[1],
        metric="exact_match",
        unit="%",
        better="higher",
        confidence=CONFIDENCE,
        varies=True,
        reference_runs=runs[0],
        candidate_runs=runs[1],
        assumed_run_sd=None if runs_known or max(runs) > 1 else ASSUMED_RUN_SD_PCT,
    )


def judged(sides: Sides, earlier: tuple[float, int] = (0.0, 0)) -> AccuracyResult:
    """Compare the answers as a check does; `earlier` is what its history shows of the noise between runs."""
    scores = paired(sides)
    noise = run_noise(100.0 * scores.reference, 100.0 * scores.candidate, *earlier)
    known = nothing_known(scores, runs_known=earlier[1] > 0)
    return measure_drop(known, scores, metric_of(scores), MAX_DROP_PCT, noise)


def fails(accuracy: AccuracyResult) -> bool:
    """Whether the check fails."""
    (verdict,) = accuracy_verdicts(Limits(max_drop=MAX_DROP_PCT), accuracy, None)
    return verdict.status is Status.FAIL


def batch(world: str, n: int, runs: tuple[int, int], drop_pct: float, records: int, seed: int) -> Found:
    """Judge so many models; counts those that fail, and the intervals that enclose the true drop.

    `records` earlier ones of as many runs are in the history, whose run means are normal.
    """
    random, true = np.random.default_rng(seed), drop_pct / 100.0
    freedom = records * (sum(runs) - 2)
    failed = covered = 0
    for _ in range(BATCH):
        earlier_sd = 100.0 * RUN_SD * math.sqrt(random.chisquare(freedom) / freedom) if freedom else 0.0
        accuracy = judged(WORLDS[world].draw(runs, n, true, random), (earlier_sd, freedom))
        failed += fails(accuracy)
        covered += accuracy.drop_ci is not None and accuracy.drop_ci.low <= drop_pct <= accuracy.drop_ci.high
    return {"n": BATCH, "fail": failed, "covered": covered}


def tasks(world: str, runs: tuple[int, int], seed: int) -> Found:
    """Judge so many models, each in all tasks together; counts those that fail."""
    random = np.random.default_rng(seed)
    failed = 0
    for _ in range(TASK_BATCH):
        each = [paired(WORLDS[world].draw(runs, n, 0.0, random)) for n in TASKS]
        whole = join_tasks(each)
        metric, plain = metric_of(whole), nothing_known(whole)
        rows = tuple(task_score(plain, scores, metric, MAX_DROP_PCT) for scores in (*each, whole))
        failed += fails(replace(plain, drop=0.0, by_task=rows))
    return {"n": TASK_BATCH, "fail": failed}


PAIR = (30, 12, 110, 68)
"""Samples that only one model gets right, only the other one, both and none: n = 220.

EleutherAI/lm-evaluation-harness#3831 and its pull request 3868 give n and both p values, and no counts: these are some
that have them."""

PAIRED_P, UNPAIRED_P, P_WITHIN = 0.008, 0.080, 0.002


def published(_: int) -> Found:
    """Rebuild answers from counts, and test them as pairs and as the harness does, as if they were of other samples."""
    rights = ((True, False), (False, True), (True, True), (False, False))
    reference, candidate = np.repeat(rights, PAIR, axis=0).T
    lost, won = int(np.sum(reference & ~candidate)), int(np.sum(candidate & ~reference))
    error = math.sqrt(sum(float(np.var(side)) / (side.size - 1) for side in (reference, candidate)))
    unpaired = 2.0 * NormalDist().cdf(-abs(float(np.mean(reference) - np.mean(candidate))) / error)
    return {"n": reference.size, "paired": mcnemar_p(lost, won), "unpaired": unpaired}


_PUBLISHED = "scores published pair"
_DROPS = (INDEPENDENT, BOTH, SHIFTED, RENEWED)
_TASKS = ((INDEPENDENT, (1, 1)), (INDEPENDENT, (3, 3)), (SHIFTED, (3, 3)), (SHIFTED, (1, 1)))


def arms() -> list[Arm]:
    """One for each world, samples, runs and drop; for tasks judged together; and for the published pair."""
    kinds = [(world, n, runs, 0.0, 0) for world in CALM for n in SAMPLES for runs in RUNS]
    kinds += [(world, SAMPLES[-1], RUNS[1], DROP_PCT, records) for world in _DROPS for records in RECORDS]
    return [
        *(Arm(_key(*kind), BATCHES, partial(batch, *kind)) for kind in kinds),
        *(Arm(_tasks_key(*kind), BATCHES, partial(tasks, *kind)) for kind in _TASKS),
        Arm(_PUBLISHED, 1, published),
    ]


def _key(world: str, n: int, runs: tuple[int, int], drop_pct: float, records: int) -> str:
    return f"scores {world} n {n} runs {_of(runs)} drop {drop_pct:g} records {records}"


def _tasks_key(world: str, runs: tuple[int, int]) -> str:
    return f"scores {world} tasks runs {_of(runs)}"


def _of(runs: tuple[int, int]) -> str:
    return f"{runs[0]} : {runs[1]}"


def rows(ledger: Ledger) -> Iterator[Row]:
    """Models without a drop and with one, coverage of both, tasks judged together, and the published pair."""
    for world in CALM:
        for n in SAMPLES:
            yield _all_runs(ledger, world, n, "fail")
    for world, records in product(_DROPS, RECORDS):
        caught = counted(ledger, _key(world, SAMPLES[-1], RUNS[1], DROP_PCT, records), "fail")
        drop = f"drop of {DROP_PCT:g} pp at max_drop {MAX_DROP_PCT:g}"
        figure = f"scores, {drop}, n {SAMPLES[-1]}, 3 runs a side, {records} earlier records, {world}: FAIL"
        is_asked = world == INDEPENDENT and records > 0
        yield at_least(figure, caught, CAUGHT_AT_LEAST_PCT) if is_asked else _only_shown(figure, caught)
    for world in CALM:
        for n in SAMPLES:
            yield _all_runs(ledger, world, n, "covered")
    for world, records in product(_DROPS, RECORDS):
        enclosed = counted(ledger, _key(world, SAMPLES[-1], RUNS[1], DROP_PCT, records), "covered")
        drop = f"drop of {DROP_PCT:g} pp, n {SAMPLES[-1]}, 3 runs a side, {records} earlier records"
        figure = f"scores, {drop}, {world}: coverage"
        yield Row(figure, _COVERED, str(enclosed), _is_covered(enclosed) if enclosed.n else None)
    for world, runs in _TASKS:
        failed = counted(ledger, _tasks_key(world, runs), "fail")
        figure = f"scores, {len(TASKS)} tasks together, no drop, {_of(runs)} runs, {world}: any FAIL"
        yield at_most(figure, failed, ANY_FALSE_AT_MOST_PCT)
    yield _published(ledger)


_COVERED = f"{COVERED_PCT[0]:g} to {COVERED_PCT[1]:g} %"


def _is_covered(rate: Rate) -> bool:
    return COVERED_PCT[0] <= rate.pct <= COVERED_PCT[1]


def _is_hidden(world: str, runs: tuple[int, int]) -> bool:
    """Whether runs shift and no side has a second one, so that the scores cannot show it."""
    return WORLDS[world].shift > 0.0 and runs == (1, 1)


def _all_runs(ledger: Ledger, world: str, n: int, what: str) -> Row:
    """Return the row of all numbers of runs; what one run cannot show is left out of what must be reached."""
    rates = {runs: counted(ledger, _key(world, n, runs, 0.0, 0), what) for runs in RUNS}
    required = [rate for runs, rate in rates.items() if what == "fail" or not _is_hidden(world, runs)]
    name, must, reached = "FAIL", f"<= {FALSE_AT_MOST_PCT:g} %", all(rate.pct <= FALSE_AT_MOST_PCT for rate in required)
    if what == "covered":
        name, must, reached = "coverage", _COVERED, all(map(_is_covered, required))
        if n * RUN_SD < _FEW_ANSWERS and WORLDS[world].answers == 0.0:
            must = f">= {COVERED_PCT[0]:g} %, for a shift of {n * RUN_SD:.2g} answers has steps that widen any interval"
            reached = all(rate.pct >= COVERED_PCT[0] for rate in required)
    hidden = "" if len(required) == len(RUNS) else "; 1 : 1, which cannot show shifts, is a figure only"
    return Row(
        f"scores, no drop, max_drop {MAX_DROP_PCT:g}, n {n}, {' / '.join(map(_of, RUNS))} runs, {world}: {name}",
        must + hidden,
        " / ".join(map(str, rates.values())),
        reached if all(rate.n for rate in rates.values()) else None,
    )


def _only_shown(figure: str, rate: Rate) -> Row:
    """Return the row of a rate that must reach nothing."""
    return Row(figure, "-", str(rate), None)


def _published(ledger: Ledger) -> Row:
    found: Sequence[Found] = ledger.trials(_PUBLISHED)
    figure = "scores, pair of lm-evaluation-harness#3831, counts rebuilt from its p values, n 220: p paired; unpaired"
    must = f"{PAIRED_P:g} +- {P_WITHIN:g}; {UNPAIRED_P:g} +- {P_WITHIN:g}"
    if not found:
        return Row(figure, must, "not run", None)
    of_pairs, apart = (float(str(found[0][name])) for name in ("paired", "unpaired"))
    reached = abs(of_pairs - PAIRED_P) <= P_WITHIN and abs(apart - UNPAIRED_P) <= P_WITHIN
    return Row(figure, must, f"{of_pairs:.4f}; {apart:.4f}", reached)
