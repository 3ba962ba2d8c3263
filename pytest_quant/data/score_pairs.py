"""Scores of both sides of a check, read and paired by the ids of their samples."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data.lm_eval import Settings, read_task_run, results_of, runs_by_task
from pytest_quant.data.score_files import ScoreRun, rows_of, run_of
from pytest_quant.errors import DataError
from pytest_quant.result import Better
from pytest_quant.spec import Scores

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
    reference, candidate : float64 (runs, n), a higher score is better or worse as `better` says; the reference has no
        runs where the candidate is given alone.
    digest : of the ids and the prompts of the samples.
    ids : of the samples.
    notes : which samples runs lack, and which runs are copies.
    copies : for each run of the reference and of the candidate, the place of the first run that it is a copy of, its
        own for others; empty where all runs of a side differ.
    missing : how many samples the reference lacks, only the candidate lacks, and the candidate has the worst score in
        because it lacks them. Both sides are without the first two.
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


def read_scores(scores: Scores) -> tuple[PairedScores, ...]:
    """Return the scores of each task, or of the only set.

    Raises
    ------
    DataError : a file or a value is not what it must be, or the sides have other samples; it names them.
    UsageError : a file is of a kind that is not read here.
    """
    if scores.kind == "lm_eval":
        return tuple(_tasks(scores))
    sides = [_runs(scores, side) for side in (scores.reference, scores.candidate)]
    return (_pair_scores(scores, "", scores.metric, sides, scores.better or "higher"),)


def _runs(scores: Scores, side: Sequence[Any]) -> list[ScoreRun]:
    if scores.kind == "files":
        runs = ((file, run_of(file.name, rows_of(file), scores.id, scores.score)) for file in side)
        return [replace(run, origin=str(file.resolve())) for file, run in runs]
    return [run for array in side for run in _read_array(array, scores.ids)]


def _tasks(scores: Scores) -> list[PairedScores]:
    candidate = runs_by_task(scores.candidate, scores.tasks)
    reference = runs_by_task(scores.reference, scores.tasks or tuple(candidate)) if scores.reference else {}
    tasks = []
    settings: tuple[Settings, Settings] = ({}, {})
    for task, files in candidate.items():
        sides = (reference.get(task, []), files)
        if both := sorted({str(file) for file in sides[0]}.intersection(map(str, files))):
            raise DataError(
                "reference and candidate are the same file", value=both[0], fix="name two folders of lm_eval"
            )
        pairs = zip(sides, settings, strict=True)
        runs = [[_task_run(file, scores.metric, task, known) for file in side] for side, known in pairs]
        metrics = {metric: better for side in runs for _, metric, better in side}
        if len(metrics) > 1:
            raise DataError(f"the runs of task '{task}' have other metrics", value=", ".join(metrics))
        ((metric, better),) = metrics.items()
        tasks.append(_pair_scores(scores, task, metric, [[run for run, *_ in side] for side in runs], better))
    return tasks


def _task_run(file: Path, metric: str, task: str, known: Settings) -> tuple[ScoreRun, str, Better]:
    run, metric = read_task_run(file, metric, task)
    better, n = results_of(file, task, metric, known)
    if n not in (None, len(run.ids)):
        raise DataError(
            f"{file} is not whole",
            value=f"{len(run.ids)} samples, where the results beside it are of {n}",
            fix="run lm_eval again; look in its log for 'Could not save sample results'",
        )
    return run, metric, better


def _read_array(array: Any, ids: object) -> Iterator[ScoreRun]:
    rows = np.atleast_2d(np.asarray(array))
    names = list(range(rows.shape[-1])) if ids is None else np.asarray(ids).ravel().tolist()
    if rows.ndim != 2 or len(names) != rows.shape[1]:
        raise DataError(
            "Scores: an array must have one number for each sample",
            value=f"shape {np.shape(array)} for {len(names)} ids",
            allowed="(n,), or (runs, n) for several runs",
        )
    for number, row in enumerate(rows.tolist(), 1):
        where = f"run {number}"
        samples = enumerate(zip(names, row, strict=True))
        named = ((f"{where}, sample {place}", {"id": name, "score": score}) for place, (name, score) in samples)
        yield run_of(where, named, "id", "score")


def _pair_scores(scores: Scores, task: str, metric: str, sides: list[list[ScoreRun]], better: Better) -> PairedScores:
    # Files of both sides may have one name.
    named = zip(("reference", "candidate"), sides, strict=True)
    sides = [[replace(run, where=f"{name} {run.where}") for run in side] for name, side in named]
    runs = [run for side in sides for run in side]
    prompts = {name: prompt for run in reversed(runs) for name, prompt in zip(run.ids, run.prompts, strict=True)}
    answers = [[_answers(run, prompts) for run in side] for side in sides]
    lacked = [set[str]().union(*(prompts.keys() - run.keys() for run in side)) for side in answers]
    lacked[1] -= lacked[0]
    values = np.concatenate([run.scores for run in runs])
    lowest, highest = float(values.min()), float(values.max())
    # One sample may have more errors than words, and so may a broken side: that both have shows another scale.
    means = [float(np.concatenate([run.scores for run in side]).mean()) for side in sides if side]
    most = highest if better == "higher" else min(means)
    unit, scale = scores.unit, scores.scale
    if unit is None or scale is None:
        unit, scale = ("%", 100.0) if lowest >= 0.0 and most <= 1.0 else ("", 1.0)
    if unit == "%" and not (lowest >= 0.0 and scale * most <= 100.0):
        raise DataError(
            f"scores in percent lie between 0 and {100.0 / scale:g}, times {scale:g}, error rates on average",
            value=f"{lowest:g} to {highest:g}",
            fix="write unit='', scale=1 for a number in its own unit, or scale=1 for scores from 0 to 100",
        )
    is_counted = scores.missing == "worst" and unit == "%"
    left_out = lacked[0] if is_counted else lacked[0] | lacked[1]
    notes = _note_other_samples(task, runs, prompts, left_out)
    ids, worst = sorted(prompts.keys() - left_out), 0.0 if better == "higher" else max(100.0 / scale, highest)
    arrays, copies = [], []
    for side, given in zip(sides, answers, strict=True):
        rows = np.array([[run.get(name, worst) for name in ids] for run in given]).reshape(len(side), len(ids))
        if scores.deterministic and not (same := np.isclose(rows, rows[:1]).all(axis=0)).all():
            raise DataError(
                "deterministic=True, and runs of one side have other scores",
                value=f"{np.count_nonzero(~same)} samples differ in {', '.join(run.where for run in side)}",
                fix="leave out deterministic=True, or name the file of the run that is meant",
            )
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
    return replace(paired, copies=(copies[0], copies[1]), missing=missing)


def _answers(run: ScoreRun, prompts: Mapping[str, str]) -> dict[str, float]:
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
        raise DataError(
            f"the runs{f' of {task}' if task else ''} have other samples, and scores are paired by id",
            value="; ".join(notes),
            allowed=f"at least {LEAST_COMMON:.0%} of the ids in all runs, with the same prompts",
            fix="run both on the same samples, with the same --limit, chat template and few-shot examples: "
            "lm_eval --seed N draws these anew; lm_eval --seed 0,1234,N,1234 does not",
        )
    return notes
