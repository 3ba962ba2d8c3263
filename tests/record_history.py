"""Write `tests/recorded_history` with the code of commit b2e6abf: ``python -m tests.record_history CHECKOUT DIR``.

CHECKOUT is a clone of this repository with that commit checked out, in which nothing was changed; its package is the
one that every process started here imports. DIR gets the files that ``tests/recorded_history/README.md`` lists. The
project is run in a new folder whose name tells nothing, and each run says one version of the kernel, because records
keep such things.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support import models
from tests.support.history_repository import outside_ci

COMMIT = "b2e6abf"

CONFTEST = """
import numpy as np
import pytest
from pytest_quant import Dataset, Model

CALIBRATED_UP_TO = 4.0
N, LOUD = 80, 20


def samples(seed):
    # The largest of the first four features is the class. Clipped, both features of a loud sample are the same.
    x = np.random.default_rng(seed).uniform(0.0, 0.5, (N, 8)).astype(np.float32)
    classes = np.arange(N) % 4
    x[np.arange(N), classes] = 1
    loud = np.flatnonzero(classes)[:LOUD]
    x[loud, classes[loud]] = 3
    x[loud, classes[loud] - 1] = 2
    return x, classes


@pytest.fixture
def quant_model():
    return "dense.onnx"


@pytest.fixture
def quant_data():
    x, classes = samples(0)
    others = samples(1)[0]
    return Dataset.from_arrays(x, classes, calibration=others[others.max(axis=1) <= CALIBRATED_UP_TO])


@pytest.fixture
def unlabelled():
    return Dataset.from_arrays(samples(0)[0], calibration=20)


@pytest.fixture
def module():
    import torch

    linear = torch.nn.Linear(8, 4, bias=False)
    with torch.no_grad():
        linear.weight.copy_(torch.eye(4, 8))
    return Model.from_torch(linear.eval(), (torch.zeros(2, 8),), name="module")
"""

TEST_ORT = """
import pytest
from pytest_quant import Metric


def margin(outputs, labels):
    return outputs[range(len(labels)), labels] - outputs.mean(axis=1)


@pytest.mark.quant(scheme=["static", "dynamic"], max_drop=1.0, max_drop_increase=1.0)
def test_schemes(): pass


@pytest.mark.quant(precision="int4", scheme="weight-only", max_drop=5.0)
def test_weights(): pass


@pytest.mark.parametrize("name", ["caf\\u00e9 [1]"])
@pytest.mark.quant(model="two.onnx", output="z", batch_size=4, max_drop=100.0)
def test_second_output(name): pass


@pytest.mark.quant(metric=Metric(margin, better="higher", unit="logit", scale=1), max_drop=0.5, min_speedup=0.001)
class TestOwnMetric:
    def test_margin(self): pass


@pytest.mark.quant(data="unlabelled", calibration={"method": "percentile", "percentile": 99.9}, min_cosine=0.5)
def test_without_labels(): pass


@pytest.mark.quant(min_sqnr_db=300.0, max_size_mb=1.0)
def test_beyond_its_limit(): pass


@pytest.mark.quant(model="absent.onnx")
def test_without_a_model(): pass
"""

TEST_OTHERS = """
import pytest


@pytest.mark.quant(backend="openvino", precision=["fp32", "int8"], max_drop=1.0, max_slowdown=400.0)
def test_openvino(): pass


@pytest.mark.quant(backend="plain", reference="ort", max_drop=1.0)
def test_plain(): pass


@pytest.mark.quant(backend="trt", max_drop=1.0)
def test_elsewhere(): pass
"""

TEST_TORCH = """
import pytest


@pytest.mark.quant(backend="torch", scheme="dynamic", model="module", reference="ort", max_drop=5.0)
def test_module(): pass
"""

PLAIN = """
from pytest_quant.testing import NumpyBackend


class PlainBackend(NumpyBackend):
    name = "plain"
"""

FIRST = {
    ".gitignore": "__pycache__/\n.quant/\n",
    "pytest.ini": "[pytest]\naddopts = -p no:cacheprovider\n",
    "conftest.py": CONFTEST,
    "test_ort.py": TEST_ORT,
    "test_others.py": TEST_OTHERS,
    "test_torch.py": TEST_TORCH,
    "plain.py": PLAIN,
    "plain-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: plain\nVersion: 1.0\n",
    "plain-1.0.dist-info/entry_points.txt": "[pytest_quant.backends]\nplain = plain:PlainBackend\n",
}
"""The files of the project's first commit, beside its two models."""

ACCEPTED = ("test_schemes", "test_weights", "test_margin", "test_openvino", "test_module")
"""The tests whose first records become baselines; that of a broken limit cannot."""

QUIET = ("conftest.py", "CALIBRATED_UP_TO = 4.0", "CALIBRATED_UP_TO = 1.0")
"""What the branch ``topic`` changes: static quantization then clips the loud samples and loses their class."""

USER = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in {"NAME": "A User", "EMAIL": "user@example.invalid"}.items()
}
"""Who commits, the command ``push`` included."""

PYTEST = "import platform, sys, pytest; platform.release = lambda: '6.1'; sys.exit(pytest.main(sys.argv[1:]))"
COMMAND = "from pytest_quant.cli import main; main()"


class Project:
    """The project in the folder `root`, its git repository, and the old code that is run in it."""

    def __init__(self, root: Path, checkout: Path) -> None:
        self.root = root
        python = {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
        variables = outside_ci() | python | USER
        self._variables = {name: value for name, value in variables.items() if not name.startswith("PYTEST_QUANT")}

    def git(self, *arguments: str, day: int = 1) -> str:
        """Run git and return what it printed; a commit is made on that day of January."""
        date = f"2026-01-{day:02}T12:00:00+00:00"
        dated = self._variables | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        return self.run(("git", "-c", "commit.gpgsign=false", *arguments), variables=dated)

    def commit(self, message: str, day: int) -> str:
        """Commit everything and return the id."""
        self.git("add", "--all")
        self.git("commit", "-q", "-m", message, day=day)
        return self.git("rev-parse", "HEAD").strip()

    def pytest(self, *arguments: str) -> None:
        """Run the tests, of which one is over its limit and one has no model."""
        options = ("-q", "-W", "ignore", "--quant-max-time=1")
        self.run((sys.executable, "-c", PYTEST, *options, *arguments), expected=1)

    def command(self, *arguments: str, expected: int = 0) -> str:
        """Run the command ``pytest-quant`` and return what it printed."""
        return self.run((sys.executable, "-c", COMMAND, *arguments), expected=expected)

    def run(self, command: tuple[str, ...], expected: int = 0, variables: dict[str, str] | None = None) -> str:
        """Return what a process in the project printed; any other exit code ends the recording."""
        result = subprocess.run(
            command, cwd=self.root, env=variables or self._variables, capture_output=True, text=True, check=False
        )
        if result.returncode != expected:
            raise SystemExit(f"{command}: {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout


def record(checkout: Path, target: Path) -> None:
    """Run the project on three commits of two branches with the code in `checkout`, and fill `target`."""
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder, "project"), checkout)
        _write(project)
        _refuse_other_code(project, checkout)
        first = project.commit("the first model", 1)
        project.pytest(f"--quant-json={target / 'run.json'}")
        project.command("accept", "--reason", "the first model", *(f"--series={name}" for name in ACCEPTED))
        shutil.copy(project.root / "quant-baselines.toml", target)
        project.commit("its baselines", 2)
        project.pytest()
        project.git("checkout", "-q", "-b", "topic")
        file, before, after = QUIET
        changed = project.root / file
        changed.write_text(changed.read_text("utf-8").replace(before, after), "utf-8")
        topic = project.commit("calibrates on quiet samples", 3)
        project.pytest()
        project.git("checkout", "-q", "main")
        _write_answers(project, target, first, topic)
        _bundle(project, Path(folder, "remote"), target / "project.bundle")


def _write(project: Project) -> None:
    project.root.mkdir()
    project.git("init", "-q", "-b", "main")
    for name, text in FIRST.items():
        (project.root / name).parent.mkdir(exist_ok=True)
        (project.root / name).write_text(text, "utf-8")
    models.select_first(project.root / "dense.onnx")
    models.select_first(project.root / "two.onnx", outputs=2)


def _refuse_other_code(project: Project, checkout: Path) -> None:
    commit = project.run(("git", "-C", str(checkout), "rev-parse", "HEAD"))
    changed = project.run(("git", "-C", str(checkout), "status", "--porcelain"))
    if not commit.startswith(COMMIT) or changed:
        raise SystemExit(f"{checkout} is not an unchanged checkout of {COMMIT}")
    plugin = project.run((sys.executable, "-c", "import pytest_quant.plugin as plugin; print(plugin.__file__)")).strip()
    if not Path(plugin).is_relative_to(checkout):
        raise SystemExit(f"the package that runs is not the one in {checkout}: {plugin}")


def _write_answers(project: Project, target: Path, first: str, topic: str) -> None:
    """Keep what the old commands say about the history."""
    _write_packed(target / "export.jsonl.gz", project.command("history", "export").encode())
    _write_packed(target / "compare.json.gz", project.command("compare", first, topic, "--json", expected=1).encode())
    (target / "series.jsonl").write_text(project.command("history", "--series", "--json"), "utf-8")


def _write_packed(file: Path, content: bytes) -> None:
    """Write without name and time, so that the same content gives the same file."""
    file.write_bytes(gzip.compress(content, mtime=0))


def _bundle(project: Project, remote: Path, target: Path) -> None:
    """Keep the project's branches, and the one that the history was pushed to."""
    project.git("clone", "-q", "--bare", ".", str(remote))
    project.command("history", "push", "--remote", str(remote))
    project.git("fetch", "-q", str(remote), "pytest-quant-history:pytest-quant-history")
    project.git("bundle", "create", "-q", str(target), "main", "topic", "pytest-quant-history")


if __name__ == "__main__":
    record(*(Path(argument).resolve() for argument in sys.argv[1:3]))
