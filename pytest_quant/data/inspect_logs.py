"""Logs of inspect, ``.eval`` or JSON: the scores of each sample, one run for each epoch."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_quant.data.score_files import MOST_DOCUMENT_BYTES, Row, ScoreRun, run_of
from pytest_quant.errors import DataError, UsageError
from pytest_quant.files import open_file

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Numbers of grades as inspect takes them: correct, partially, incorrect, no answer."""

_DAMAGED = (OSError, ValueError, LookupError, AttributeError, TypeError, RuntimeError, zlib.error)
"""What reading a file raises that is cut, locked, or no log."""


def read_inspect_logs(places: Sequence[Path], scorer: str, cluster: object) -> tuple[str, list[ScoreRun]]:
    """Return the full name of the scorer, and the runs of one side.

    Parameters
    ----------
    places : logs, and folders of logs.
    scorer : its name, with a dot and the key where its value is a dict; empty where the logs have one.
    cluster : key of a sample; ``None`` for independent samples.

    Raises
    ------
    DataError : a log cannot be read, its run did not succeed, or it has no such scorer; or the logs are of several
        tasks.
    """
    files = [file for place in places for file in (sorted(place.iterdir()) if place.is_dir() else [place])]
    logs = {file: _read_log(file) for file in files if file.suffix in (".eval", ".json")}
    tasks = sorted({task for task, _ in logs.values()})
    if places and len(tasks) != 1:
        fix = "name the files of one task, or give each task a folder: inspect eval --log-dir"
        raise DataError("a side must have logs of one task, .eval or .json", value=", ".join(tasks) or "none", fix=fix)
    epochs: dict[tuple[Path, int], list[tuple[str, Row]]] = {}
    for file, (_, samples) in logs.items():
        names = list(dict.fromkeys(name for sample in samples for name in sample["figures"]))
        scorer = scorer or (names[0] if len(names) == 1 else "")
        if scorer not in names:
            what, fix = f"{file.name} has {len(names)} scorers", f"write scorer='{next(iter(names), 'match')}'"
            raise DataError(what, value=scorer or None, allowed=", ".join(names), fix=fix)
        for sample in samples:
            if scorer in sample["figures"]:
                row = f"{file.name}, sample {sample.get('id')}", {**sample, "score": sample["figures"][scorer]}
                epochs.setdefault((file, sample.get("epoch", 1)), []).append(row)
    runs = []
    for (file, epoch), rows in sorted(epochs.items()):
        run = run_of(f"{file.name}, epoch {epoch}", iter(rows), "id", "score", _prompt, cluster_key=cluster)
        runs.append(replace(run, origin=f"{file.resolve()} {epoch}"))
    return scorer, runs


def _figures(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the scorers gave a sample; what failed, or was not scored, has nothing."""
    figures: dict[str, Any] = {}
    for name, score in (sample.get("scores") or {}).items():
        value = score.get("value")
        figures |= {f"{name}.{key}": part for key, part in value.items()} if isinstance(value, dict) else {name: value}
    numbers = {name: _GRADES.get(value, value) if isinstance(value, str) else value for name, value in figures.items()}
    # A sample that was not scored has NaN.
    return {name: value for name, value in numbers.items() if value is not None and value == value}


def _prompt(sample: Row) -> str:
    return hashlib.sha256(json.dumps([sample.get("input"), sample.get("target")]).encode()).hexdigest()


def _read_log(file: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return the task of a log, and its samples with their figures. Raises `DataError` or `UsageError`."""
    reader, zstd_error = _zip_reader()
    try:
        with open_file(file) as stream:
            if file.suffix == ".json":
                log = json.loads(stream.read(MOST_DOCUMENT_BYTES))
                listed = log["samples"]
            else:
                with reader.ZipFile(stream) as parts:
                    # The summaries have the scores of all samples, without their messages.
                    names = ("header.json", "summaries.json")
                    log, listed = (json.loads(parts.open(name).read(MOST_DOCUMENT_BYTES)) for name in names)
        status, task = log["status"], str(log["eval"]["task"])
        samples = [{**sample, "figures": _figures(sample)} for sample in listed]
    except NotImplementedError as error:
        fix = 'pip install "pytest-quant[inspect]", or read it with Python 3.14'
        raise UsageError(f"Scores: {file.name} is compressed by Zstandard", value=str(error), fix=fix) from error
    except (*_DAMAGED, reader.BadZipFile, zstd_error) as error:
        fix = "look whether the run has ended; give its .eval file, or what inspect log dump prints as .json"
        raise DataError(f"{file} is no whole log of inspect", value=str(error), fix=fix) from error
    if status != "success":
        raise DataError(f"the run of {file} did not succeed", value=status, fix="run it again: inspect eval-retry FILE")
    return task, samples


def _zip_reader() -> tuple[Any, type[Exception]]:
    """Return the module that reads archives, if possible those of Zstandard, and the error for damaged ones."""
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdError

        return zipfile, ZstdError
    try:
        from backports.zstd import ZstdError
        from backports.zstd import zipfile as reader
    except ImportError:
        return zipfile, zlib.error
    return reader, ZstdError
