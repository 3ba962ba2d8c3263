"""Samples that lm-evaluation-harness logs: which files are runs of a task, and which number in a row is its score.

As versions 0.4 write them: ``<output_path>/<model>/samples_<task>_<time>.jsonl`` with one row for each document and
filter, and beside them ``results_<time>.json``.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from pytest_quant.data.score_files import Row, ScoreRun, rows_of, run_of
from pytest_quant.errors import DataError, nearest
from pytest_quant.files import read_file
from pytest_quant.result import Better

_FILE = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
_ASIDE = re.compile(
    r"(\w+_)?seed|token|api_key|limit|use_cache|bootstrap_iters|parallelize|gpus|num_concurrent|timeout|max_retries"
    r"|base_url|swap_space|(\w+_)?(device|dir|folder|memory|batch_sizes?|parallel_size)(_\w+)?"
)
"""Arguments that say where, how fast and from which seed a model runs, or that are secret."""
Settings: TypeAlias = dict[str, tuple[str, Path]]
"""By name, a setting that all runs of one model have in common, and a file of samples that has it."""

OF_SUMS: dict[str, Callable[[float], float]] = {
    "word_perplexity": lambda mean: math.exp(-mean),
    "byte_perplexity": lambda mean: math.exp(-mean),
    "bits_per_byte": lambda mean: -mean / math.log(2.0),
}
"""Metrics that are less for a better model, of the ratio of the sums of what a row has: log-likelihoods and counts."""

_FOLDER = re.compile(r"^([A-Za-z]:|~|\.{1,2})?[/\\](.*[/\\])?")


def runs_by_task(places: Sequence[Path], tasks: Sequence[str]) -> dict[str, list[Path]]:
    """Return the sample files of each task, the oldest run first.

    Parameters
    ----------
    places : files, and folders that are searched with all below them.
    tasks : names of those that are wanted; empty for all.

    Raises
    ------
    DataError : a task has no file, or a folder has runs of several models.
    """
    files: dict[str, list[Path]] = {}
    for place in places:
        for file in _list_files(place) if place.is_dir() else [place]:
            match = _FILE.fullmatch(file.name)
            files.setdefault(match["task"] if match else file.stem, []).append(file)
    missing = next((task for task in tasks if task not in files), "")
    if missing or not files:
        what = "there are no samples of " + (f"task '{missing}'" if missing else "lm-eval")
        allowed = nearest(missing, files) if files else "samples_<task>_<time>.jsonl below the folder"
        fix = "run lm_eval with --log_samples --output_path, and name that folder"
        raise DataError(what, value=", ".join(map(str, places)), allowed=allowed, fix=fix)
    return {task: sorted(files[task], key=lambda file: file.name) for task in tasks or sorted(files)}


def groups_of(places: Sequence[Path], tasks: Sequence[str]) -> dict[str, str]:
    """Return the tasks that names stand for, each with its group, which is empty for a task by itself.

    The results beside the samples have the tasks of a group. A name that is none of theirs stands for a task.

    Parameters
    ----------
    places, tasks : as for `runs_by_task`.

    Raises
    ------
    DataError : a task is named twice, by itself or in a group; or as for `runs_by_task`.
    """
    files = runs_by_task(places, ())
    newest = {file.name.rpartition("_")[2]: file for runs in files.values() for file in runs}
    groups: dict[str, str] = {}
    for name in tasks:
        documents = [] if name in files else [_results(file) for file in newest.values()]
        members = next((leaves for leaves in (_leaves(document, name) for document in documents) if leaves), [])
        for task in members or [name]:
            if task in groups:
                raise DataError(f"the task '{task}' is named twice", value=", ".join(tasks), fix="name it or its group")
            groups[task] = name if members else ""
    return groups


def _leaves(document: object, name: str) -> list[str]:
    """Return the tasks in a group and in the groups in it; none of what is no group."""
    below = _in(document, "group_subtasks", name)
    return [leaf for each in below for leaf in _leaves(document, each) or [each]] if isinstance(below, list) else []


def weighs_by_size(file: Path, group: str, metric: str, tasks: Sequence[str]) -> bool:
    """Return whether all samples of a group count alike in lm-eval's score of it, and not all its tasks.

    Parameters
    ----------
    file : of samples; the results beside it have the scores of the group and of its tasks, not how it was made of them.

    Raises
    ------
    DataError : the score of the group is neither the mean over samples nor that over tasks.
    """
    document = _results(file)
    score = _in(document, "results", group, metric)
    means = [_in(document, "results", task, metric) for task in tasks]
    sizes = [_in(document, "n-samples", task, "effective") for task in tasks]
    # Of sums neither mean is the ratio over all samples.
    if metric.partition(",")[0] not in OF_SUMS and all(isinstance(x, (int, float)) for x in (score, *means, *sizes)):
        for is_by_size, weights in ((True, sizes), (False, None)):
            if math.isclose(score, fmean(means, weights)):
                return is_by_size
    what = f"the results beside {file.name} do not show how lm-eval weighs the tasks of '{group}'"
    allowed = "the mean of the scores over all samples, or over all tasks"
    fix = f"name its tasks: task={[*tasks[:2], '...']}"
    raise DataError(what, value=f"{metric} {score}", allowed=allowed, fix=fix)


def _list_files(folder: Path) -> list[Path]:
    files = sorted(folder.rglob("samples_*.jsonl"))
    models = sorted({str(file.parent.relative_to(folder)) for file in files})
    if len(models) > 1:
        what, allowed = f"{folder} has samples of several models", "one model for each side; its runs are in one folder"
        fix = f"name the folder of one model, '{folder / models[0]}', or a list of folders that are runs of one model"
        raise DataError(what, value=", ".join(models), allowed=allowed, fix=fix)
    return files


def read_task_run(file: Path, metric: str, task: str, cluster: object = None) -> tuple[ScoreRun, str]:
    """Return one run of a task, and the full name of its metric, with the filter.

    Parameters
    ----------
    file : a file of samples.
    metric : ``acc`` or ``exact_match,strict-match``; empty where the task has one.
    task : its name, for messages.
    cluster : key of a row; ``None`` for independent samples.

    Raises
    ------
    DataError : the metric is not there or has to be named, or a row is not what it must be.
    """
    name, _, wanted = metric.partition(",")
    kinds: dict[str, None] = {}
    answers: list[bytes] = []
    documents: Counter[str] = Counter()
    for _, row in rows_of(file):
        documents[str(row.get("doc_id"))] += 1
        if (given := row.get("resps", row.get("filtered_resps"))) is not None:
            answers.append(hashlib.sha256(f"{row.get('doc_id')} {given}".encode(errors="replace")).digest())
        listed = row.get("metrics")
        if isinstance(listed, list):
            kinds.update(dict.fromkeys(f"{each},{row.get('filter', 'none')}" for each in listed))
    # Several devices may log the same answers in another order.
    origin = hashlib.sha256(b"".join(sorted(answers))).hexdigest() if answers else ""
    if not kinds and metric:
        if wanted not in ("", "none") or documents.total() > len(documents):
            what = f"{file.name} does not name the filters of its rows, as lm-eval before 0.4.7"
            fix = f"run a later version; or keep the rows of one filter in the file, and write metric='{name}'"
            raise DataError(what, value=f"{documents.total()} rows for {len(documents)} documents", fix=fix)
        run = run_of(file.name, rows_of(file), "doc_id", _key(name), _prompt, task, cluster)
        return replace(run, origin=origin), f"{name},none"
    fitting = [kind for kind in kinds if not metric or kind == metric or (not wanted and kind.startswith(f"{name},"))]
    if len(fitting) != 1:
        what = f"{file.name} has no metric '{metric}'" if not fitting else f"{file.name} has several metrics"
        fix = f"write metric='{next(iter(fitting or kinds), 'acc')}'"
        raise DataError(what, allowed=", ".join(kinds) or "rows with a number for each metric", fix=fix)
    name, _, wanted = fitting[0].rpartition(",")
    rows = ((place, row) for place, row in rows_of(file) if row.get("filter", "none") == wanted)
    run = run_of(file.name, rows, "doc_id", _key(name), _prompt, task, cluster)
    return replace(run, origin=origin), fitting[0]


def _key(metric: str) -> str | dict[str, str]:
    return {"numerator": f"{metric}.0", "denominator": f"{metric}.1"} if metric in OF_SUMS else metric


def _prompt(row: Row) -> str:
    return " ".join(str(row.get(name, "")) for name in ("doc_hash", "prompt_hash", "target_hash"))


def direction_of(file: Path, task: str, metric: str, n: int, known: Settings) -> Better:
    """Return which way a metric is better, higher where nobody says; the results beside the samples must fit them.

    Parameters
    ----------
    file : a file of samples.
    task : its name.
    metric : its name, with the filter.
    n : how many samples the file has.
    known : settings of the other runs of its side, to which those of this run are added.

    Raises
    ------
    DataError : the results cannot be read, or tell of another model, another way of running it, or another `n`.
    """
    if (document := _results(file)) is None:
        return "higher"
    for name, value in _settings(document, task).items():
        before, other = known.setdefault(name, (value, file))
        if value != before:
            what, found = f"runs of one side have different {name}", f"{before} in {other}; {value} in {file}"
            fix = "name the file of the run that is meant, or move the old one out of the folder"
            raise DataError(what, value=found, allowed="runs of one model in one setting; seeds may differ", fix=fix)
    evaluated = _in(document, "n-samples", task, "effective")
    if isinstance(evaluated, int) and evaluated != n:
        fix = "run lm_eval again; look in its log for 'Could not save sample results'"
        found = f"{n} samples, where the results beside it are of {evaluated}"
        raise DataError(f"{file} is not whole", value=found, fix=fix)
    name = metric.rpartition(",")[0]
    # In a row, perplexity is the logarithm of the likelihood.
    return "lower" if _in(document, "higher_is_better", task, name) is False and name != "perplexity" else "higher"


def _results(file: Path) -> object:
    """Return the results beside a file of samples, ``None`` without results. Raises `DataError`."""
    match = _FILE.fullmatch(file.name)
    results = sorted(file.parent.glob(f"*_{match['time']}.json")) if match else []
    try:
        return json.loads(read_file(results[0], 64_000_000)) if results else None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{results[0]} cannot be read", value=str(error), fix="run lm_eval again") from error


def _settings(document: object, task: str) -> dict[str, str]:
    config = _in(document, "config")
    told = dict(config) if isinstance(config, Mapping) else {}
    told |= {name: _in(document, name) for name in ("lm_eval_version", "chat_template_sha", "system_instruction_sha")}
    told |= {f"{name} of {task}": _in(document, name, task) for name in ("versions", "n-shot", "n-samples")}
    told[f"generation_kwargs of {task}"] = _in(document, "configs", task, "generation_kwargs")
    # An empty hash is that of a model that was not looked up.
    return {name: _arguments(value) for name, value in told.items() if value != "" and not _ASIDE.fullmatch(name)}


def _arguments(given: object) -> str:
    """Return arguments in the order of their names, without those that do not distinguish models."""
    if isinstance(given, Mapping):
        given = ",".join(f"{name}={value}" for name, value in given.items())
    pairs = sorted(text.strip().rstrip("/\\").partition("=") for text in str(given).split(","))
    return ",".join(name + sign + _FOLDER.sub("", value) for name, sign, value in pairs if not _ASIDE.fullmatch(name))


def _in(document: Any, *names: str) -> Any:
    for name in names:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document
