"""Ours beside the independent figures."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.example import environment
from tests.zoo.entry import Entry
from tests.zoo.project import Combination, Run

SCRIPT = Path(__file__).with_name("independent.py")
FILES = {"ort": "model.onnx", "openvino": "model.xml", "torch": "program.pt2", "trt-rtx": "model.onnx"}
RUNTIMES = {"ort": "ort", "openvino": "openvino", "torch": "torch", "trt-rtx": "rounded"}
SCORES = ("reference", "candidate", "agreement_pct")
ERROR = "max_abs_error"
TIME_LIMIT_S = 3600


@dataclass(frozen=True, slots=True)
class Subject:
    """What the independent script must be told about a model.

    Attributes
    ----------
    path : the float model; ``None`` for a module of PyTorch, whose exported file is in the cache.
    score : kind, output and settings; see `tests.zoo.entry.Score`.
    """

    name: str
    path: Path | None = None
    axes: Mapping[str, int | None] = field(default_factory=dict)
    output_axes: Mapping[str, int | None] = field(default_factory=dict)
    state: Mapping[str, str] = field(default_factory=dict)
    score: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, entry: Entry, folder: Path) -> Subject:
        """Return what is known of a model of a package."""
        derived = folder / f"{entry.name}.onnx"
        score = None
        if entry.score is not None:
            score = {"kind": entry.score.kind, "output": entry.score.output, "settings": entry.score_settings()}
        path = derived if derived.is_file() else entry.path()
        return cls(entry.name, path, entry.batch_axes, entry.output_axes, entry.state, score)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure from both sides.

    Attributes
    ----------
    scale : the largest value that the figure was computed from, where it is a difference of two.
    """

    name: str
    ours: float | None
    independent: float | None
    scale: float | None = None

    @property
    def difference(self) -> float:
        """Absolute for scores, else relative to the largest of 1, the scale and the independent one.

        Infinite where one lacks. An error is the difference of two float32, each rounded by its own size: outputs of
        several hundred that differ by 10 tell that 10 no better than to some 1e-5.
        """
        if self.ours is None or self.independent is None:
            return 0.0 if self.ours is self.independent else math.inf
        distance = abs(self.ours - self.independent)
        return distance if self.name in SCORES else distance / max(1.0, abs(self.independent), self.scale or 0.0)


def _engine_file(folder: Path, key: str, backend: str) -> Path:
    """Return the file of an engine in the cache; one that runs the model in place names it by its digest."""
    cache = folder / ".quant" / "cache"
    path = cache / "engine" / key / "files" / FILES[backend]
    if path.is_file():
        return path
    wanted = (path.parent / "in_place.txt").read_text().split()[0]
    found = [one for one in cache.glob("export/*/files/model.onnx") if _digest(one) == wanted]
    return found[0]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def task_of(subject: Subject, check: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return what the independent script needs to repeat a check that built an engine."""
    with np.load(folder / f"{subject.name}.evaluation.npz") as archive:
        keys = [key.partition("|") for key in archive.files]
    labels = folder / f"{subject.name}.labels.json"
    backend, digests = check["backend"], check["digests"]
    float_model = subject.path or _engine_file(folder, digests["reference_engine"], backend)
    return {
        "reference": str(float_model),
        "reference_runtime": RUNTIMES[backend],
        "candidate": str(_engine_file(folder, digests["engine"], backend)),
        "candidate_runtime": RUNTIMES[backend],
        "samples": str(folder / f"{subject.name}.evaluation.npz"),
        "n": int(keys[-1][0]) + 1,
        "outputs": list(check["accuracy"]["by_output"]),
        "inputs": [name for index, _, name in keys if index == "0"],
        "axes": dict(subject.axes),
        "output_axes": dict(subject.output_axes),
        "state": dict(subject.state),
        "score": None if subject.score is None else dict(subject.score),
        "output": None if subject.score is None else subject.score["output"],
        "labels": json.loads(labels.read_text()) if labels.is_file() else None,
    }


def repeat(tasks: Sequence[Mapping[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Run the independent script once for all tasks."""
    program = subprocess.run(
        [sys.executable, SCRIPT],
        input=json.dumps(list(tasks)),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_LIMIT_S,
    )
    assert program.returncode == 0, program.stderr
    found: list[dict[str, Any]] = json.loads(program.stdout.splitlines()[-1])
    return found


def compare(subjects: Sequence[Subject], combinations: Sequence[Combination], run: Run) -> dict[str, list[Figure]]:
    """Return the figures of every check that compared outputs, by the identity of its combination."""
    by_name = {subject.name: subject for subject in subjects}
    judged = [combination for combination in combinations if run.checks.get(combination.identity, {}).get("accuracy")]
    tasks = [task_of(by_name[one.model], run.checks[one.identity], run.folder) for one in judged]
    found = repeat(tasks, run.folder) if tasks else []
    return {one.identity: figures(run.checks[one.identity], result) for one, result in zip(judged, found, strict=True)}


def figures(check: Mapping[str, Any], result: Mapping[str, Any]) -> list[Figure]:
    """Pair what the check says with what the independent script found."""
    if "fault" in result:
        return [Figure(result["fault"], None, math.nan)]
    accuracy = check["accuracy"]
    pairs = [Figure("n", accuracy["n"], result["n"])]
    if check["backend"] in ("ort", "openvino"):
        pairs.append(Figure("size_mb", check["resources"]["size_mb"], result["size_mb"]))
    pairs += [Figure(key, accuracy[key], result[key]) for key in SCORES if result.get(key) is not None]
    for name, independent in result["outputs"].items():
        ours = accuracy["by_output"].get(name, {})
        largest = independent["largest_value"]
        pairs += [Figure(f"{key} of {name}", ours.get(key), independent[key]) for key in ("sqnr_db", "cosine")]
        pairs.append(Figure(f"{ERROR} of {name}", ours.get(ERROR), independent[ERROR], largest))
    return pairs
