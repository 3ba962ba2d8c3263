"""Samples that lm-evaluation-harness logs: which files are runs of a task, and which number in a row is its score.

As version 0.4 writes them: ``<output_path>/<model>/samples_<task>_<time>.jsonl`` with one row for each document and
filter, and beside them ``results_<time>.json``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_quant.data.score_files import Row, ScoreRun, rows_of, run_of
from pytest_quant.errors import DataError, nearest
from pytest_quant.files import read_file
from pytest_quant.result import Better

_FILE = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
_MOST_RESULTS_BYTES = 64_000_000
_HASHES = ("doc_hash", "prompt_hash", "target_hash")


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
        for file in _below(place) if place.is_dir() else [place]:
            match = _FILE.fullmatch(file.name)
            files.setdefault(match["task"] if match else file.stem, []).append(file)
    missing = next((task for task in tasks if task not in files), "")
    if missing or not files:
        what = f"task '{missing}'" if missing else "lm-eval"
        raise DataError(
            f"there are no samples of {what}",
            value=", ".join(map(str, places)),
            allowed=nearest(missing, files) if files else "samples_<task>_<time>.jsonl below the folder",
            fix="run lm_eval with --log_samples --output_path, and name that folder",
        )
    return {task: sorted(files[task], key=lambda file: file.name) for task in tasks or sorted(files)}


def _below(folder: Path) -> list[Path]:
    files = sorted(folder.rglob("samples_*.jsonl"))
    models = sorted({str(file.parent.relative_to(folder)) for file in files})
    if len(models) > 1:
        raise DataError(
            f"{folder} has samples of several models",
            value=", ".join(models),
            allowed="one model for each side; its runs are in one folder",
            fix=f"name that of one model, '{folder / models[0]}', or a list of folders that are runs of one model",
        )
    return files


def read_task_run(file: Path, metric: str, task: str) -> tuple[ScoreRun, str]:
    """Return one run of a task, and the full name of its metric, with the filter.

    Parameters
    ----------
    file : a file of samples.
    metric : ``acc`` or ``exact_match,strict-match``; empty where the task has one.
    task : its name, for messages.

    Raises
    ------
    DataError : the metric is not there or has to be named, or a row is not what it must be.
    """
    name, _, wanted = metric.partition(",")
    kinds: dict[str, None] = {}
    answers: list[bytes] = []
    for _, row in rows_of(file):
        if (given := row.get("resps", row.get("filtered_resps"))) is not None:
            answers.append(hashlib.sha256(f"{row.get('doc_id')} {given}".encode(errors="replace")).digest())
        listed = row.get("metrics")
        if isinstance(listed, list):
            kinds.update(dict.fromkeys(f"{each},{row.get('filter', 'none')}" for each in listed))
    if not kinds and metric:
        # Rows of versions before 0.4.7 name neither their metrics nor their filter.
        kinds = {f"{name},{wanted or 'none'}": None}
    fitting = [kind for kind in kinds if not metric or kind == metric or (not wanted and kind.startswith(f"{name},"))]
    if len(fitting) != 1:
        what = f"{file.name} has no metric '{metric}'" if not fitting else f"{file.name} has several metrics"
        fix = f"write metric='{next(iter(fitting or kinds), 'acc')}'"
        raise DataError(what, allowed=", ".join(kinds) or "rows with a number for each metric", fix=fix)
    name, _, wanted = fitting[0].rpartition(",")
    rows = ((place, row) for place, row in rows_of(file) if row.get("filter", "none") == wanted)
    run = run_of(file.name, rows, "doc_id", name, _prompt, task=task)
    # Several devices may log the same answers in another order.
    origin = hashlib.sha256(b"".join(sorted(answers))).hexdigest() if answers else ""
    return replace(run, origin=origin), fitting[0]


def _prompt(row: Row) -> str:
    return " ".join(str(row.get(name, "")) for name in _HASHES)


@dataclass(frozen=True, slots=True)
class TaskResults:
    """What the results of a run say of one task.

    Attributes
    ----------
    better : which way its metric is better; higher where nobody says.
    n : documents that were evaluated; ``None`` where nobody says.
    """

    better: Better = "higher"
    n: int | None = None


def results_of(file: Path, task: str, metric: str) -> TaskResults:
    """Return what the results beside a file of samples say.

    Parameters
    ----------
    file : a file of samples.
    task : its name.
    metric : its name, with the filter.

    Raises
    ------
    DataError : the results cannot be read.
    """
    match = _FILE.fullmatch(file.name)
    results = sorted(file.parent.glob(f"*_{match['time']}.json")) if match else []
    if not results:
        return TaskResults()
    try:
        document: object = json.loads(read_file(results[0], _MOST_RESULTS_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{results[0]} cannot be read", value=str(error), fix="run lm_eval again") from error
    name = metric.rpartition(",")[0]
    # In a row, perplexity is the logarithm of the likelihood.
    is_lower = _in(document, "higher_is_better", task, name) is False and name != "perplexity"
    n = _in(document, "n-samples", task, "effective")
    return TaskResults("lower" if is_lower else "higher", n if isinstance(n, int) else None)


def _in(document: object, *names: str) -> object:
    for name in names:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document
