"""The project of a user whose quantization gets better and worse by known amounts: its files at every commit.

The answers are known by construction. Every model multiplies by the identity (node ``mix``) and then weighs the first
four features (node ``scores``); the class of a sample is the largest score. The float model is always right.

==========  ==========================================================================================================
test        what INT8 loses
==========  ==========================================================================================================
narrow      all `NARROW_LOST` samples of class 3, whose small weight shares a scale with a large one that no sample
            uses; nothing once the node ``scores`` is excluded
ranges      nothing when calibrated on the whole range; calibrated up to a limit, both large features of a louder
            sample are clipped to it, and the wrong class has the larger weight: `ALL_LOST` at 1, `SOME_LOST` at 1.8
speed       nothing; its backend is a third party's, which calls ONNX Runtime `SLOWER` times from one commit on
the others  nothing
==========  ==========================================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.support.models import parsed

MODELS = ("narrow", "ranges", "speed", "steady", "fresh", "named", "dropped")
N = 200
NARROW_LOST = 30
LOUD, LOUDER = 10, 14
ALL_LOST, SOME_LOST = LOUD + LOUDER, LOUDER
SLOWER = 3

CONFTEST = f"""
import numpy as np
import pytest
from pytest_quant import Dataset

CALIBRATED_UP_TO = 3.0
FRESH_SAMPLES = {N}


def plain(classes, seed=0):
    x = np.random.default_rng(seed).uniform(0.0, 0.5, (len(classes), 8)).astype(np.float32)
    x[:, 7] = 0
    x[np.arange(len(classes)), classes] = 1
    return x


def narrow(seed):
    classes = np.arange({N}) % 3
    classes[:{NARROW_LOST}] = 3
    x = plain(classes, seed)
    x[:{NARROW_LOST}, 3] = 4
    return x, classes


def loud(n, value, below, seed):
    classes = 1 + np.arange(n) % 3
    x = plain(classes, seed)
    x[np.arange(n), classes] = value
    x[np.arange(n), classes - 1] = below
    return x, classes


def ranges(seed):
    classes = np.arange({N - LOUD - LOUDER}) % 4
    parts = [(plain(classes, seed), classes), loud({LOUD}, 1.8, 1.2, seed), loud({LOUDER}, 3.0, 2.0, seed)]
    return [np.concatenate(arrays) for arrays in zip(*parts)]


@pytest.fixture
def plain_data():
    classes = np.arange({N}) % 4
    return Dataset.from_arrays(plain(classes), classes, calibration=plain(classes, seed=1))


@pytest.fixture
def fresh_data():
    classes = np.arange(FRESH_SAMPLES) % 4
    return Dataset.from_arrays(plain(classes), classes, calibration=plain(classes[:{N}], seed=1))


@pytest.fixture
def narrow_data():
    x, classes = narrow(seed=0)
    return Dataset.from_arrays(x, classes, calibration=narrow(seed=1)[0])


@pytest.fixture
def ranges_data():
    x, classes = ranges(seed=0)
    others = ranges(seed=1)[0]
    return Dataset.from_arrays(x, classes, calibration=others[others.max(axis=1) <= np.float32(CALIBRATED_UP_TO)])
"""

TEST_QUALITY = """
import pytest


@pytest.mark.quant(model="narrow.onnx", data="narrow_data")
def test_narrow(): pass


@pytest.mark.quant(model="ranges.onnx", data="ranges_data")
def test_ranges(): pass


@pytest.mark.quant(model="fresh.onnx", backend="numpy", data="fresh_data")
def test_fresh(): pass
"""

TEST_NAMES = """
import pytest


@pytest.mark.quant(model="steady.onnx", backend="numpy", data="plain_data")
def test_steady(): pass


@pytest.mark.quant(model="named.onnx", backend="numpy", data="plain_data")
def test_named(): pass
"""

TEST_DROPPED = """


@pytest.mark.quant(model="dropped.onnx", backend="numpy", data="plain_data")
def test_dropped(): pass
"""

TEST_SPEED = """
import pytest


@pytest.mark.quant(model="speed.onnx", backend="turbo", reference="ort", data="plain_data")
def test_speed(): pass
"""

TURBO = """
from pytest_quant.backends.ort import OrtBackend
from pytest_quant.backends.ort.build import engine_file
from pytest_quant.backends.ort.engine import OrtEngine

CALLS = 1


class TurboEngine(OrtEngine):
    def prepare(self, feeds):
        once = super().prepare(feeds)

        def run():
            for _ in range(CALLS):
                once()

        return run


class TurboBackend(OrtBackend):
    name = "turbo"

    def open(self, spec, folder):
        return TurboEngine(spec, engine_file(spec, folder))
"""

FIRST = {
    "README.md": "One model and its quantizations.\n",
    "pytest.ini": "[pytest]\naddopts = -p no:cacheprovider\n",
    "conftest.py": CONFTEST,
    "test_quality.py": TEST_QUALITY,
    "test_names.py": TEST_NAMES + TEST_DROPPED,
    "test_speed.py": TEST_SPEED,
    "turbo.py": TURBO,
    "turbo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: turbo\nVersion: 1.0\n",
    "turbo-1.0.dist-info/entry_points.txt": "[pytest_quant.backends]\nturbo = turbo:TurboBackend\n"
    "numpy = pytest_quant.testing:NumpyBackend\n",
}
"""The files of the first commit. The backends are found as installed ones are: by their entry points."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One commit: `before` becomes `after` in `file`. Without a file, a line is added to ``README.md``."""

    message: str
    file: str = "README.md"
    before: str = ""
    after: str = ""


MAIN = (
    Edit("the first model"),
    Edit("a note"),
    Edit("another note"),
    Edit(
        "the narrow scores stay in float",
        "test_quality.py",
        'data="narrow_data"',
        'data="narrow_data", exclude=["scores"]',
    ),
    Edit("a note on scores"),
    Edit("a note on ranges"),
    Edit("calibrates on quiet samples", "conftest.py", "CALIBRATED_UP_TO = 3.0", "CALIBRATED_UP_TO = 1.0"),
    Edit("a note on calibration"),
    Edit("another turbo", "turbo.py", "CALLS = 1", f"CALLS = {SLOWER}"),
    Edit("a better name", "test_names.py", "test_named", "test_renamed"),
    Edit("one test less", "test_names.py", TEST_DROPPED, ""),
    Edit("the last note"),
)
"""The twelve commits of the branch ``main``; the numbers below count from 1."""

EXCLUDES, MISCALIBRATES, SLOWS, RENAMES, DROPS = 4, 7, 9, 10, 11

FORK = 6
"""The commit of ``main`` that the branch ``feature`` begins at."""

FEATURE = (
    Edit("more samples", "conftest.py", f"FRESH_SAMPLES = {N}", f"FRESH_SAMPLES = {N + 20}"),
    Edit("calibrates on fewer samples", "conftest.py", "CALIBRATED_UP_TO = 3.0", "CALIBRATED_UP_TO = 1.8"),
)


def write_models(folder: Path) -> None:
    """Write the ONNX file of every test."""
    scores = np.diag(np.array([1.0, 0.9, 0.8, 0.7], dtype=np.float32))
    weights = np.concatenate([scores, np.zeros((4, 4), dtype=np.float32)])
    narrow = np.concatenate([np.eye(4, dtype=np.float32), np.zeros((4, 4), dtype=np.float32)])
    narrow[3, 3], narrow[7, 3] = 0.25, 100.0
    for name in MODELS:
        _write_model(folder / f"{name}.onnx", narrow if name == "narrow" else weights)


def _write_model(path: Path, scores: NDArray[np.float32]) -> None:
    graph = """(float[n, 8] x) => (float[n, 4] y) {
        [mix] mixed = MatMul(x, identity)
        [scores] y = MatMul(mixed, weights)
    }"""
    parsed(path, graph, identity=np.eye(8, dtype=np.float32), weights=scores)
