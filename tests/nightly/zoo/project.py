"""A project of a new user who tests the zoo's models, and one run of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.nightly.zoo.entry import Entry, Feeds, Samples
from tests.support.example import ROOT, environment

GPU = {"compute_capability": "SM89"}
"""TensorRT-RTX builds for a GPU that is not here, and is simulated."""

CONFTEST = """
import json
from pathlib import Path

import numpy as np
import pytest

from pytest_quant import Dataset, Model

HERE = Path(__file__).parent


def read(name, part, labels=None):
    archive = np.load(HERE / f"{name}.{part}.npz")
    samples = []
    for key in archive.files:
        index, _, tensor = key.partition("|")
        if int(index) == len(samples):
            samples.append({})
        samples[-1][tensor] = archive[key]
    return [(inputs, None if labels is None else labels[index]) for index, inputs in enumerate(samples)]


def dataset(name, labels):
    return Dataset.from_iterable(read(name, "evaluation", labels), calibration=read(name, "calibration"))
"""

FIXTURES = """

@pytest.fixture
def {name}():
    return Model.from_onnx({path!r}, name={name!r}{settings})


@pytest.fixture
def {name}_data():
    return dataset({name!r}, {labels})
"""

TESTS = """
import pytest

from tests.nightly.zoo.entry import metric_of
"""

TEST = """

@pytest.mark.quant({mark})
def test_{identity}():
    pass
"""


@dataclass(frozen=True, slots=True)
class Combination:
    """One check of one model."""

    model: str
    backend: str
    precision: str
    scheme: str

    @property
    def identity(self) -> str:
        """Name of the test, without its prefix."""
        return "__".join((self.model, self.backend, self.precision, self.scheme)).replace("-", "_")

    @property
    def mark(self) -> str:
        """What the mark says beside the model and its data."""
        options = f", options={GPU!r}" if self.backend == "trt-rtx" else ""
        return f"backend={self.backend!r}, precision={self.precision!r}, scheme={self.scheme!r}{options}"


@dataclass(frozen=True, slots=True)
class Run:
    """What a run of the project left."""

    folder: Path
    output: str
    checks: Mapping[str, Mapping[str, Any]]


def save_samples(folder: Path, name: str, samples: Samples) -> None:
    """Write both sets, an array for each input of each sample."""

    def write(part: str, feeds: Iterable[Feeds]) -> None:
        arrays = {f"{index}|{key}": value for index, feed in enumerate(feeds) for key, value in feed.items()}
        np.savez(folder / f"{name}.{part}.npz", **arrays)  # type: ignore[arg-type] # every key is one of ours

    write("evaluation", samples.evaluation)
    write("calibration", samples.calibration)


def plain_labels(samples: Samples) -> list[Any] | None:
    """Labels as JSON."""
    return (
        None
        if samples.labels is None
        else [getattr(label, "tolist", lambda label=label: label)() for label in samples.labels]
    )


def write_project(folder: Path, entries: Iterable[Entry], combinations: Iterable[Combination]) -> None:
    """Write conftest.py, one test for each combination, models and samples."""
    conftest, tests = [CONFTEST], [TESTS]
    marks: dict[str, str] = {}
    for entry in entries:
        samples = entry.samples()
        save_samples(folder, entry.name, samples)
        (folder / f"{entry.name}.labels.json").write_text(json.dumps(plain_labels(samples)))
        settings = "".join(
            f", {key}={dict(value)!r}"
            for key, value in (("batch_axes", entry.batch_axes), ("state", entry.state))
            if value
        )
        labels = f"json.loads((HERE / '{entry.name}.labels.json').read_text())"
        conftest.append(
            FIXTURES.format(name=entry.name, path=str(entry.write(folder)), settings=settings, labels=labels)
        )
        marks[entry.name] = f"model={entry.name!r}, data='{entry.name}_data'"
        if entry.score is not None:
            metric = (
                "'top1'"
                if entry.score.kind == "top1"
                else f"metric_of({entry.score.kind!r}, {dict(entry.score.settings)!r})"
            )
            marks[entry.name] += f", output={entry.score.output!r}, metric={metric}"
    tests += [
        TEST.format(mark=f"{marks[combination.model]}, {combination.mark}", identity=combination.identity)
        for combination in combinations
    ]
    (folder / "conftest.py").write_text("".join(conftest))
    (folder / "test_models.py").write_text("".join(tests))
    (folder / "pytest.ini").write_text("[pytest]\n")


def run_project(folder: Path) -> Run:
    """Run all tests in a process of its own, without timing."""
    document = folder / "run.json"
    options = ("-p", "no:cacheprovider", "--quant-no-latency", f"--quant-json={document}")
    variables = environment(folder) | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
    )
    output = result.stdout + result.stderr
    assert document.is_file(), output
    checks = {check["nodeid"].partition("::test_")[2]: check for check in json.loads(document.read_text())["checks"]}
    return Run(folder, output, checks)
