"""Ours beside the independent figures."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.nightly.zoo.entry import Entry
from tests.nightly.zoo.project import Combination, Run
from tests.support.example import environment

SCRIPT = Path(__file__).with_name("independent.py")
FILES = {"ort": "model.onnx", "openvino": "model.xml", "trt-rtx": "model.onnx"}
RUNTIMES = {"ort": "ort", "openvino": "openvino", "trt-rtx": "rounded"}
SCORES = ("reference", "candidate", "agreement_pct")
ERROR = "max_abs_error"
TIME_LIMIT_S = 3600


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


def _task_of(entry: Entry, check: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return what the independent script needs to repeat a check that built an engine."""
    with np.load(folder / f"{entry.name}.evaluation.npz") as archive:
        keys = [key.partition("|") for key in archive.files]
    backend, derived = check["backend"], folder / f"{entry.name}.onnx"
    engine = folder / ".quant" / "cache" / "engine" / check["digests"]["engine"] / "files" / FILES[backend]
    return {
        "reference": str(derived if derived.is_file() else entry.path()),
        "candidate": str(engine),
        "runtime": RUNTIMES[backend],
        "samples": str(folder / f"{entry.name}.evaluation.npz"),
        "n": int(keys[-1][0]) + 1,
        "outputs": list(check["accuracy"]["by_output"]),
        "inputs": [name for index, _, name in keys if index == "0"],
        "axes": dict(entry.batch_axes),
        "output_axes": dict(entry.output_axes),
        "state": dict(entry.state),
        "score": None if entry.score is None else asdict(entry.score),
        "labels": json.loads((folder / f"{entry.name}.labels.json").read_text()),
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
    result: list[dict[str, Any]] = json.loads(program.stdout.splitlines()[-1])
    return result


def compare(entries: Sequence[Entry], combinations: Sequence[Combination], run: Run) -> dict[str, list[Figure]]:
    """Return the figures of every check that compared outputs, by the identity of its combination."""
    by_name = {entry.name: entry for entry in entries}
    judged = [combination for combination in combinations if run.checks.get(combination.identity, {}).get("accuracy")]
    tasks = [_task_of(by_name[each.model], run.checks[each.identity], run.folder) for each in judged]
    answers = repeat(tasks, run.folder)
    return {
        each.identity: figures(run.checks[each.identity], answer) for each, answer in zip(judged, answers, strict=True)
    }


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


def differing(figures: Sequence[Figure], tolerance: float = 1e-6) -> list[str]:
    """Return a line for every figure that is not the independent one: scores exactly, others within `tolerance`."""
    return [
        f"{figure.name} {figure.ours} and not {figure.independent}"
        for figure in figures
        if not figure.difference <= (0.0 if figure.name in SCORES else tolerance)
    ]
