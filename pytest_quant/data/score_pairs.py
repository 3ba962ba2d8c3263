"""Scores of both sides of a check, read and paired by the ids of their samples."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data import lm_eval
from pytest_quant.data.inspect_logs import read_inspect_logs
from pytest_quant.data.llama_logs import read_llama_log
from pytest_quant.data.score_files import ScoreRun, rows_of, run_of
from pytest_quant.errors import DataError
from pytest_quant.result import Better
from pytest_quant.spec import Scores

Link: TypeAlias = Callable[[float], float]

LEAST_COMMON = 0.99
"""Share of the samples that all runs must have: what few lack can be left out, more is another set."""


@dataclass(frozen=True, slots=True)
class PairedScores:
    """Scores of the same n samples, in the order of their ids.

    Attributes
    ----------
    task : of lm-eval; empty without one.
    metric : name of the score.
    unit, scale : a score times `scale` is in `unit`.
    reference, candidate : float64 (runs, n), a higher score is better or worse as `better` says, or (runs, n, 2), the
        numerators and denominators of a ratio of their sums; the reference has no runs where the candidate is given
        alone.
    digest : of the ids and the prompts of the samples.
    ids : of the samples.
    notes : which samples runs lack, and which runs are copies.
    copies : for each run of the reference and of the candidate, the place of the first run that it is a copy of, its
        own for others; empty where all runs of a side differ.
    missing : how many samples the reference lacks, only the candidate lacks, and the candidate has the worst score in
        because it lacks them. Both sides are without the first two.
    group : of lm-eval, in which the task is judged; empty for a task by itself.
    clusters : (n,) what samples share that depend on each other; empty for independent ones.
    link : makes the score of the scaled mean or ratio, the exponential for a perplexity; ``float`` for no change.
    """

    task: str
    metric: str
    better: Better
    unit: str
    scale: float
    reference: NDArray[np.float64]
    candidate: NDArray[np.float64]
    digest: str
    ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    copies: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    missing: tuple[int, ...] = (0, 0, 0)
    group: str = ""
    clusters: tuple[str, ...] = ()
    link: Link = float


def read_scores(scores: Scores) -> tuple[PairedScores, ...]:
    """Return the scores of each task, or of the only set.

    Raises
    ------
    DataError : a file or a value is not what it must be, or the sides have other samples; it names them.
    UsageError : a file is of a kind that is not read here.
    """
    if scores.kind == "lm_eval":
        return tuple(_tasks(scores))
    metric, candidate = _runs(scores, scores.candidate, scores.metric)
    reference = _runs(scores, scores.reference, metric)[1]
    if scores.kind == "llama_perplexity" and not reference:
        reference = [base for _, base in (read_llama_log(file, metric) for file in scores.candidate) if base]
    link: Link = math.exp if (scores.kind, metric) == ("llama_perplexity", "perplexity") else float
    return (_pair_scores(scores, "", metric, [reference, candidate], scores.better or "higher", link),)


def _runs(scores: Scores, side: Sequence[Any], metric: str) -> tuple[str, list[ScoreRun]]:
    """Return the runs of one side, and the name of their score."""
    if scores.kind == "inspect":
        return read_inspect_logs(side, metric, scores.cluster)
    if scores.kind == "llama_perplexity":
        return metric, [read_llama_log(file, metric)[0] for file in side]
    if scores.kind == "files":
        runs = [run_of(file.name, rows_of(file), scores.id, scores.score, cluster_key=scores.cluster) for file in side]
        return metric, [replace(run, origin=str(file.resolve())) for run, file in zip(runs, side, strict=True)]
    return metric, [run for given in side for run in _read_arrays(given, scores.ids, scores.cluster)]


def _tasks(scores: Scores) -> list[PairedScores]:
    groups = lm_eval.groups_of(scores.candidate, scores.tasks)
    candidate = lm_eval.runs_by_task(scores.candidate, tuple(groups))
    reference = lm_eval.runs_by_task(scores.reference, tuple(candidate)) if scores.reference else {}
    tasks: list[PairedScores] = []
    settings: tuple[lm_eval.Settings, lm_eval.Settings] = ({}, {})
    for task, files in candidate.items():
        sides = (reference.get(task, []), files)
        if both := sorted({str(file) for file in sides[0]}.intersection(map(str, files))):
            what, fix = "reference and candidate are the same file", "name two folders of lm_eval"
            raise DataError(what, value=both[0], fix=fix)
        runs: list[list[ScoreRun]] = [[], []]
        metrics: dict[str, Better] = {}
        for own, side, known in zip(runs, sides, settings, strict=True):
            for file in side:
                run, metric = lm_eval.read_task_run(file, scores.metric, task, scores.cluster)
                metrics[metric] = lm_eval.direction_of(file, task, metric, len(run.ids), known)
                own.append(run)
        if len(metrics) > 1:
            raise DataError(f"the runs of task '{task}' have other metrics", value=", ".join(metrics))
        ((metric, better),) = metrics.items()
        link = lm_eval.OF_SUMS.get(metric.partition(",")[0], float)
        better = better if link is float else "lower"
        tasks.append(replace(_pair_scores(scores, task, metric, runs, better, link), group=groups.get(task, "")))
    for group in filter(None, dict.fromkeys(groups.values())):
        sizes = {task.task: len(task.ids) for task in tasks if task.group == group}
        if not lm_eval.weighs_by_size(candidate[next(iter(sizes))][-1], group, metric, [*sizes]):
            mean = sum(sizes.values()) / len(sizes)
            tasks = [weigh(task, mean / sizes[task.task]) if task.task in sizes else task for task in tasks]
    return tasks


def weigh(task: PairedScores, weight: float) -> PairedScores:
    """Return a task whose samples have a weight."""
    sides = (
        np.stack([weight * side, np.full_like(side, weight)], axis=-1) for side in (task.reference, task.candidate)
    )
    return replace(task, reference=next(sides), candidate=next(sides))


def _read_arrays(given: Any, ids: object, cluster: object) -> Iterator[ScoreRun]:
    parts = dict(given) if isinstance(given, Mapping) else {"score": given}
    key = {part: part for part in parts} if isinstance(given, Mapping) else "score"
    cluster_key = None if cluster is None else "cluster"
    parts |= {} if cluster is None else {"cluster": cluster}
    arrays = {name: np.atleast_2d(np.asarray(array)) for name, array in parts.items()}
    names = list(range(next(iter(arrays.values())).shape[-1])) if ids is None else np.asarray(ids).ravel().tolist()
    shape = max(map(len, arrays.values())), len(names)
    for name, array in arrays.items():
        if array.ndim != 2 or array.shape[1] != shape[1] or len(array) not in (1, shape[0]):
            what, allowed = "an array must have one number for each sample", "(n,), or (runs, n) for several runs"
            found = f"{name} of shape {np.shape(parts[name])} for {len(names)} ids"
            raise DataError(f"Scores: {what}", value=found, allowed=allowed)
    columns = [np.broadcast_to(array, shape).tolist() for array in arrays.values()]
    for number, run in enumerate(zip(*columns, strict=True), 1):
        samples = (dict(zip(("id", *arrays), sample, strict=True)) for sample in zip(names, *run, strict=True))
        rows = ((f"run {number}, sample {place}", sample) for place, sample in enumerate(samples))
        yield run_of(f"run {number}", rows, "id", key, cluster_key=cluster_key)


def _pair_scores(
    scores: Scores, task: str, metric: str, sides: list[list[ScoreRun]], better: Better, link: Link
) -> PairedScores:
    # Files of both sides may have one name.
    named = zip(("reference", "candidate"), sides, strict=True)
    sides = [[replace(run, where=f"{name} {run.where}") for run in side] for name, side in named]
    runs = [run for side in sides for run in side]
    prompts = {name: prompt for run in reversed(runs) for name, prompt in zip(run.ids, run.prompts, strict=True)}
    answers = [[_answers(run, prompts) for run in side] for side in sides]
    lacked = [set[str]().union(*(prompts.keys() - run.keys() for run in side)) for side in answers]
    lacked[1] -= lacked[0]
    if len({run.scores.ndim for run in runs}) > 1:
        raise DataError("only one side has scores of two parts", fix="give both sides in one form")
    every, shape = [np.concatenate([run.scores for run in side]) for side in sides if side], runs[0].scores.shape[1:]
    values = np.concatenate([_single(side) for side in every])
    lowest, highest = float(values.min()), float(values.max())
    # One sample may have more errors than words, and so may a broken side: that both have shows another scale.
    means = [float(_single(side.sum(axis=0, keepdims=True))[0] if shape else side.mean()) for side in every]
    most = highest if better == "higher" else min(means)
    unit, scale = scores.unit, scores.scale
    if unit is None or scale is None:
        unit, scale = ("%", 100.0) if link is float and lowest >= 0.0 and most <= 1.0 else ("", 1.0)
    if unit == "%" and not (lowest >= 0.0 and scale * most <= 100.0):
        what = f"scores in percent lie between 0 and {100.0 / scale:g}, times {scale:g}, error rates on average"
        fix = "write unit='', scale=1 for a number in its own unit, or scale=1 for scores from 0 to 100"
        raise DataError(what, value=f"{lowest:g} to {highest:g}", fix=fix)
    is_counted = scores.missing == "worst" and unit == "%"
    left_out = lacked[0] if is_counted else lacked[0] | lacked[1]
    notes = _note_other_samples(task, runs, prompts, left_out)
    ids, worst = sorted(prompts.keys() - left_out), 0.0 if better == "higher" else max(100.0 / scale, highest)
    shared = {name: cluster for run in runs for name, cluster in zip(run.ids, run.clusters, strict=True)}
    clusters = tuple(shared[name] for name in ids) if scores.cluster is not None else ()
    if len(set(clusters)) == 1:
        fix = "leave out cluster=..., or name what differs between samples that do not depend on each other"
        raise DataError("all samples are of one cluster", value=clusters[0], fix=fix)
    # Where the candidate lacks a sample, it has the weight that the reference has.
    known = [run for side in reversed(answers) for run in side] if shape else []
    lost = {name: (worst * weight, weight) for run in known for name, (_, weight) in run.items()}
    arrays, copies = [], []
    for side, given in zip(sides, answers, strict=True):
        listed = [[run.get(name, lost.get(name, worst)) for name in ids] for run in given]
        rows = np.array(listed, np.float64).reshape(len(side), len(ids), *shape)
        same = np.isclose(rows, rows[:1]).all(axis=(0, *range(2, rows.ndim)))
        if scores.deterministic and not same.all():
            found = f"{np.count_nonzero(~same)} samples differ in {', '.join(run.where for run in side)}"
            fix = "leave out deterministic=True, or name the file of the run that is meant"
            raise DataError("deterministic=True, and runs of one side have other scores", value=found, fix=fix)
        # Equal scores alone do not make a copy: runs may have few outcomes.
        keys = [(run.origin or place, answered) for place, (run, answered) in enumerate(zip(side, given, strict=True))]
        for run, of in zip(side, places := tuple(map(keys.index, keys)), strict=True):
            if run is not side[of]:
                notes.append(f"{run.where} is a copy of {side[of].where}: it counts, and shows no noise between runs")
        arrays.append(rows)
        copies.append(places)
    digest = hashlib.sha256("\n".join(f"{name}\t{prompts[name]}" for name in ids).encode()).hexdigest()
    missing = (len(lacked[0]), *((0, len(lacked[1])) if is_counted else (len(lacked[1]), 0)))
    paired = PairedScores(task, metric, better, unit, scale, arrays[0], arrays[1], digest, tuple(ids), tuple(notes))
    return replace(paired, copies=(copies[0], copies[1]), missing=missing, clusters=clusters, link=link)


def _single(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scores of single samples, of a ratio those that have a weight."""
    return rows if rows.ndim == 1 else rows[rows[:, 1] > 0.0, 0] / rows[rows[:, 1] > 0.0, 1]


def _answers(run: ScoreRun, prompts: Mapping[str, str]) -> dict[str, Any]:
    """Return the scores of a run by id, without those under other prompts."""
    rows = zip(run.ids, run.prompts, run.scores.tolist(), strict=True)
    return {name: score for name, prompt, score in rows if prompt == prompts[name]}


def _note_other_samples(
    task: str, runs: Sequence[ScoreRun], prompts: Mapping[str, str], left_out: set[str]
) -> list[str]:
    """Return notes on the samples that runs lack or have under another prompt. Raises `DataError` for many."""
    notes = []
    for run in runs:
        other = {name for name, prompt in zip(run.ids, run.prompts, strict=True) if prompt != prompts[name]}
        left_out = left_out | other
        for what, names in (("lacks", prompts.keys() - set(run.ids)), ("has other prompts for", other)):
            if names:
                shown = ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "")
                notes.append(f"{run.where} {what} {len(names)} of {len(prompts)} samples: {shown}")
    if len(prompts) - len(left_out) < LEAST_COMMON * len(prompts):
        what = f"the runs{f' of {task}' if task else ''} have other samples, and scores are paired by id"
        allowed = f"at least {LEAST_COMMON:.0%} of the ids in all runs, with the same prompts"
        fix = "run both on the same samples, with the same --limit, chat template and few-shot examples"
        seeds = "lm_eval --seed N draws these anew; lm_eval --seed 0,1234,N,1234 does not"
        raise DataError(what, value="; ".join(notes), allowed=allowed, fix=f"{fix}: {seeds}")
    return notes
