"""The measurement of a check whose scores were given: paired, with the noise between runs, task by task."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pytest_quant.data.score_pairs import PairedScores, read_scores, weigh
from pytest_quant.errors import DataError
from pytest_quant.measure.build import Tools
from pytest_quant.metrics.answers import answers_of
from pytest_quant.metrics.drop import add_drop, add_scores
from pytest_quant.metrics.metric import Array, ResolvedMetric
from pytest_quant.metrics.parts import part_score
from pytest_quant.result import AccuracyResult, Baseline, Interval, Measured, TaskScore
from pytest_quant.spec import Check, Scores
from pytest_quant.stats.runs import (
    NO_NOISE_KNOWN,
    RunNoise,
    add_run_noise,
    assume_noise,
    run_noise,
    samples_of_runs,
    tango_of_runs,
)

FindBaseline = Callable[[Measured], Baseline | str | None]


ASSUMED_RUN_SD_PCT = 0.7
"""Of the score of a run where nothing shows it: nightly runs of a model differ so (sgl-project/sglang#35477)."""


def measure_scores(check: Check, scores: Scores, find_baseline: FindBaseline, tools: Tools) -> Measured:
    """Read scores, pair them by id, and compare both sides; a candidate alone is compared with its baseline's scores.

    Parameters
    ----------
    check : its limits.
    scores : those of the check.
    find_baseline : returns the baseline of a measurement, or why there is none.

    Raises
    ------
    QuantError : a file or a value is not what it must be, or the sides have other samples.
    """
    with tools.steps.show(f"reading scores of {check.candidate.model.name}"):
        tasks = read_scores(scores)
    whole = join_tasks(join_groups(tasks))
    metric = metric_of(whole)
    n, runs = whole.candidate.shape[1], len(set(whole.copies[1]))
    own_sd = _noise(replace(whole, reference=whole.candidate[:1], copies=((0,), whole.copies[1]))).run_sd
    accuracy = AccuracyResult(n, metric.name, metric.unit, metric.better, confidence=check.confidence or 0.95)
    accuracy = replace(accuracy, varies=not scores.deterministic, candidate_missing=whole.missing[1])
    accuracy = replace(accuracy, candidate_runs=runs, run_sd=own_sd)
    if metric.unit == "%" and accuracy.varies and own_sd is None:
        accuracy = replace(accuracy, assumed_run_sd=ASSUMED_RUN_SD_PCT)
    different = np.ascontiguousarray(np.unique(whole.candidate, axis=0))
    measured = Measured(
        check=check,
        accuracy=accuracy,
        digests={"data": whole.digest, "candidate scores": hashlib.sha256(different.tobytes()).hexdigest()},
        notes=whole.notes,
        warnings=tuple(f"{what}: {n}" for what, n in zip(_MISSING, whole.missing, strict=True) if n),
    )
    baseline = find_baseline(measured)
    before = baseline if isinstance(baseline, Baseline) else None
    is_alone = not len(whole.reference)
    if is_alone:
        known = None if before is None else _kept_scores(before, accuracy, metric)
        if known is None:
            why = baseline if isinstance(baseline, str) else "the baseline's record has no scores of single samples"
            return replace(measured, accuracy=_describe_candidate(accuracy, whole.candidate.mean(axis=0), metric, why))
        parts = np.split(known, np.cumsum([task.candidate.shape[1] for task in tasks])[:-1])
        tasks = tuple(replace(task, reference=part[None]) for task, part in zip(tasks, parts, strict=True))
        whole = replace(whole, reference=known[None])
    earlier = (0.0, 0) if before is None else (before.run_sd, before.run_freedom)
    noise = _noise(whole, *earlier)
    if is_alone and before is not None and before.accuracy is not None:
        # What the record has are means of its runs, which differ by less than single ones.
        earlier_runs = before.accuracy.candidate_runs or 1
        noise = replace(noise, variance=noise.variance * (1 / earlier_runs + 1 / runs) / (1 + 1 / runs))
    accuracy = replace(accuracy, reference_runs=len(set(whole.copies[0])) or 1, run_sd=noise.run_sd)
    accuracy = replace(accuracy, assumed_run_sd=None if noise.freedom else accuracy.assumed_run_sd)
    accuracy = measure_drop(accuracy, whole, metric, check.limits.margin, noise)
    if len(tasks) > 1:
        rows = join_groups(tasks)
        # The tasks of the only group are listed, and its score is judged.
        margin = None if len(rows) == 1 else check.limits.margin
        rows = list(tasks) if len(rows) == 1 else [*rows, replace(whole, task=ALL)]
        accuracy = replace(accuracy, by_task=tuple(task_score(accuracy, row, metric_of(row), margin) for row in rows))
    if accuracy.candidate_missing and not is_alone and accuracy.unit == "%":
        worst = measure_scores(check, replace(scores, missing="worst"), lambda _: baseline, tools)
        measured = replace(measured, accuracy_at_worst=worst.accuracy)
    notes = *whole.notes, *_notes(accuracy, scores, noise), *_lost_most(whole)
    return replace(measured, accuracy=accuracy, notes=notes)


def _noise(scores: PairedScores, sd: float = 0.0, freedom: int = 0) -> RunNoise:
    sides = (_linear(side, side, scores) for side in (scores.reference, scores.candidate))
    return run_noise(next(sides), next(sides), sd, freedom, scores.copies)


def _linear(side: Array, around: Array, scores: PairedScores) -> Array:
    """Return numbers (runs, n) whose mean is the score of the side to first order around that of the side `around`."""
    over, under = around.mean(axis=(0, 1)) if side.ndim == 3 else (around.mean(), 1.0)
    if side.ndim == 3:
        side = (over + side[..., 0] - over / under * side[..., 1]) / under
    scaled = scores.scale * side
    if scores.link is float:
        return np.asarray(scaled)
    middle, step = float(scores.scale * over / under), 1e-6
    slope = (scores.link(middle + step) - scores.link(middle - step)) / (2.0 * step)
    return np.asarray(scores.link(middle) + slope * (scaled - middle))


_MISSING = (
    "samples missing in the reference and left out of both sides",
    "samples missing in the candidate and left out of both sides",
    "samples missing in the candidate and counted as its worst score",
)

ALL = "all"
"""Name of the samples of all tasks together, beside the tasks."""


def join_groups(tasks: Sequence[PairedScores]) -> list[PairedScores]:
    """Return each group of tasks as one of them, and each task by itself as it is."""
    groups: dict[str, list[PairedScores]] = {}
    for task in tasks:
        groups.setdefault(task.group or task.task, []).append(task)
    return [replace(join_tasks(members), task=name) for name, members in groups.items()]


def join_tasks(tasks: Sequence[PairedScores]) -> PairedScores:
    """Return the samples of all tasks as one set, each sample with the same weight.

    A task that has fewer runs than another has the mean of its own in place of the others, which leaves it as it is.

    Raises
    ------
    DataError : the tasks have other units or directions.
    """
    if len(tasks) == 1:
        return tasks[0]
    first = tasks[0]
    for task in tasks:
        if (task.unit, task.better, task.link) != (first.unit, first.better, first.link):
            what = f"tasks '{first.task}' and '{task.task}' cannot be judged together"
            found = "; ".join(f"unit '{each.unit}', {each.better} is better" for each in (first, task))
            raise DataError(what, value=found, fix="write one test for each: task='...'")
    if any(task.candidate.ndim == 3 for task in tasks):
        tasks = [task if task.candidate.ndim == 3 else weigh(task, 1.0) for task in tasks]
    names = {task.metric for task in tasks}
    return replace(
        first,
        task="",
        metric=names.pop() if len(names) == 1 else "score",
        reference=_side_by_side([task.reference for task in tasks]),
        candidate=_side_by_side([task.candidate for task in tasks]),
        copies=(_copies(tasks, 0), _copies(tasks, 1)),
        missing=tuple(map(sum, zip(*(task.missing for task in tasks), strict=True))),
        digest=hashlib.sha256("".join(f"{task.task} {task.digest}\n" for task in tasks).encode()).hexdigest(),
        ids=tuple(f"{task.task} {name}" for task in tasks for name in task.ids),
        clusters=tuple(cluster for task in tasks for cluster in task.clusters),
        notes=tuple(note for task in tasks for note in task.notes),
    )


def _side_by_side(sides: Sequence[Array]) -> Array:
    runs = max(map(len, sides))
    more = [np.repeat(side.mean(axis=0, keepdims=True), runs - len(side), axis=0) if runs else side for side in sides]
    return np.concatenate([np.concatenate(both) for both in zip(sides, more, strict=True)], axis=1)


def _copies(tasks: Sequence[PairedScores], side: int) -> tuple[int, ...]:
    """Return the copies among the runs of all tasks on a side: those that are copies in each task."""
    runs = range(max(len((task.reference, task.candidate)[side]) for task in tasks))
    places = [tuple(task.copies[side][run : run + 1] or (run,) for task in tasks) for run in runs]
    return tuple(map(places.index, places))


def metric_of(scores: PairedScores) -> ResolvedMetric:
    """Return the mean of the scores of single samples, or what else the score of all is, as a metric."""
    is_mean = scores.candidate.ndim == 2 and scores.link is float

    def aggregate(rows: Array) -> float:
        over, under = rows.sum(axis=0) if rows.ndim == 2 else (rows.sum(), len(rows))
        return scores.link(scores.scale * float(over) / float(under)) if under else math.nan

    return ResolvedMetric(
        scores.metric.removesuffix(",none"),
        scores.better,
        scores.unit,
        statistics=lambda outputs, _: outputs,
        aggregate=aggregate,
        rate=scores.scale if is_mean else None,
        is_ratio=not is_mean,
    )


def _describe_candidate(accuracy: AccuracyResult, scores: Array, metric: ResolvedMetric, why: str) -> AccuracyResult:
    """Return the candidate's own figures, which later runs are compared with, and why this one is with nothing."""
    own = add_drop(accuracy, scores, scores, metric, None)
    of_two = "reference", "reference_correct", "drop", "drop_ci", "p_value", "discordant", "lost"
    unknown: dict[str, Any] = dict.fromkeys(of_two)
    return replace(own, note=why, **unknown)


def _kept_scores(before: Baseline, accuracy: AccuracyResult, metric: ResolvedMetric) -> Array | None:
    """Return the scores (n,) of the baseline's candidate, before scaling; ``None`` if its record has no scores."""
    if before.accuracy is None or before.accuracy.n != accuracy.n:
        return None
    kept = answers_of(before.accuracy)
    if kept.scores is not None and metric.rate:
        return np.asarray(kept.scores / metric.rate)
    return None if kept.candidate is None else kept.candidate.astype(np.float64)


def measure_drop(
    accuracy: AccuracyResult, scores: PairedScores, metric: ResolvedMetric, margin: float | None, noise: RunNoise
) -> AccuracyResult:
    """Return the scores of both sides and their drop, whose interval holds for further runs and samples."""
    sides = scores.reference, scores.candidate
    means = sides[0].mean(axis=0), sides[1].mean(axis=0)
    clusters = np.unique(scores.clusters, return_inverse=True)[1] if scores.clusters else None
    # A baseline has shares of right answers where it had several runs.
    is_share = metric.unit == "%" and metric.rate is not None and bool(np.isin(sides[1], (0.0, 1.0)).all())
    if is_share and clusters is None and not all(np.isin(mean, (0.0, 1.0)).all() for mean in means):
        result = add_scores(accuracy, *means, metric)
        better, worse = sides if metric.better == "higher" else sides[::-1]
        shares = tango_of_runs(better, worse, confidence=accuracy.confidence)
        needed = None if margin is None else samples_of_runs(better, worse, margin / scores.scale)
        ends = Interval(scores.scale * shares[0], scores.scale * shares[1])
        result = replace(result, drop_ci=ends, n_to_resolve=needed)
    else:
        result = add_drop(accuracy, *means, metric, margin, clusters)
    return _widen(result, noise)


def _widen(result: AccuracyResult, noise: RunNoise) -> AccuracyResult:
    """Return `result` with an interval for further runs, within what such scores can lose."""
    if result.drop is None or result.drop_ci is None:
        return result
    ends = add_run_noise(result.drop, (result.drop_ci.low, result.drop_ci.high), noise, result.confidence)
    # Errors may be more than 100 %.
    if result.unit == "%" and result.better == "higher":
        ends = max(ends[0], -100.0), min(ends[1], 100.0)
    # More samples of the same runs would not tell.
    return replace(result, drop_ci=Interval(*ends), n_to_resolve=None if noise.variance else result.n_to_resolve)


def task_score(accuracy: AccuracyResult, task: PairedScores, metric: ResolvedMetric, margin: float | None) -> TaskScore:
    """Return the figures of one task beside others, and the p of a drop that the limit `margin` allows."""
    doubt = noise = _noise(task)
    if not noise.freedom and accuracy.assumed_run_sd is not None:
        doubt = assume_noise(accuracy.assumed_run_sd, 1, 1)
    own = replace(accuracy, n=task.candidate.shape[1])
    result = measure_drop(own, task, metric, margin, NO_NOISE_KNOWN)
    return replace(part_score(result, task.task, margin, doubt), drop_ci=_widen(result, noise).drop_ci)


def _lost_most(scores: PairedScores) -> list[str]:
    """Return a note with the ids of the samples that lost most, for a look at their answers."""
    sign = 1.0 if scores.better == "higher" else -1.0
    sides = (_linear(side, scores.reference, scores).mean(axis=0) for side in (scores.reference, scores.candidate))
    drops = sign * (next(sides) - next(sides))
    worst = [place for place in np.argsort(-drops, kind="stable")[:8] if drops[place] > 0.0]
    names = ", ".join(scores.ids[place] for place in worst)
    return [f"{np.count_nonzero(drops > 0.0)} samples lost, most of all {names}"] if worst else []


def _notes(accuracy: AccuracyResult, scores: Scores, noise: RunNoise) -> list[str]:
    notes = []
    runs = {"reference": accuracy.reference_runs, "candidate": accuracy.candidate_runs}
    single = [name for name, number in runs.items() if number == 1]
    if single and not scores.deterministic and accuracy.run_sd is None:
        assumed = "" if accuracy.assumed_run_sd is None else f", and a FAIL allows for {accuracy.assumed_run_sd:g} pp"
        known = f"how runs differ is not known{assumed}; give several, or say deterministic=True"
        if noise.freedom:
            known = f"how runs differ is taken from {noise.freedom + 1} earlier ones"
        notes.append(f"one run of the {' and of the '.join(single)}: {known}")
    tasks = [task for task in accuracy.by_task if task.name != ALL]
    for word, sign in (("worse", 1.0), ("better", -1.0)):
        # Six tasks all move in one direction by luck once in 32 times.
        if len(tasks) >= 6 and all(sign * (task.drop or 0.0) > 0.0 for task in tasks):
            notes.append(f"all {len(tasks)} tasks are {word}: look for a cause that they share, as a chat template")
    return notes
