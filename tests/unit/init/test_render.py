"""What is written is valid: workflows for the linters of their forges, Python for the compiler, all with its marker."""

from __future__ import annotations

import ast
import configparser
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.init.drafts import is_ours
from pytest_quant.init.facts import Facts
from pytest_quant.init.installing import Installing
from pytest_quant.init.place import Place
from pytest_quant.init.render import all_drafts
from pytest_quant.init.runtimes import Runtimes
from pytest_quant.init.subject import Subject
from pytest_quant.spec import Signature, TensorInfo
from tests.support.workflows import lint_github, lint_gitlab, parse

IMAGE = TensorInfo("image", "float32", (None, 1, 8, 8))
SCORES = TensorInfo("scores", "float32", (None, 10))
HOSTILE = TensorInfo('a"""\n$(reboot)\\ ${{ x }} [[ y ]]', "int64", None)
BOXES = TensorInfo("boxes", "float32", (None, None, 4))

FILE = Subject("digits", Signature((IMAGE,), (SCORES,)), "onnx", file="digits.onnx")
NETS = 'Model.from_torch(*nets.pair, name="mlp")'
MODULE = Subject("mlp", Signature((IMAGE,), (SCORES,)), "module", module="nets", expression=NETS)
ODD = Subject("odd", Signature((HOSTILE, IMAGE), (BOXES, HOSTILE)), "onnx", file='models/a "b" \\ c\n.onnx')

PIP = Installing("pip", ('python -m pip install "pytest-quant[ort]"',))
UV = Installing("uv", ("python -m pip install uv", "uv sync --locked --all-groups"), ".venv/bin", cached=True)
ON_GPU = Installing("pip", ('python -m pip install "pytest-quant[gpu,trt]"',))

PLAIN = Facts(
    subject=FILE,
    place=Place("tests/quant", configured=True, sources="."),
    forges=("github", "gitlab"),
    branch="main",
    cpu=Runtimes(("ort",), ("ort",)),
    installing=PIP,
    python="3.12",
)
CASES: dict[str, Facts] = {
    "plain": PLAIN,
    "fresh": replace(PLAIN, place=Place("tests/quant", configured=False, sources=".")),
    "a module": replace(PLAIN, subject=MODULE, place=Place("tests/quant", configured=False, sources="src")),
    "at the root": replace(PLAIN, place=Place(".", configured=False, sources="."), branch="release/1.x"),
    "uv": replace(PLAIN, installing=UV, python="3.14", lfs=True),
    "pip cached": replace(PLAIN, installing=replace(PIP, cached=True)),
    "with a GPU": replace(PLAIN, gpu=Runtimes(("ort-trt", "trt"), ("gpu", "trt")), gpu_installing=ON_GPU),
    "GPU and uv": replace(PLAIN, gpu=Runtimes(("trt",), ("gpu", "trt")), gpu_installing=UV, installing=UV),
    "included": replace(PLAIN, included=True),
    "odd names": replace(PLAIN, subject=ODD, place=Place("checks.d/a-b/quant", configured=False, sources=".")),
    "two backends": replace(PLAIN, cpu=Runtimes(("openvino", "ort"), ("openvino", "ort"))),
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def facts(request: pytest.FixtureRequest) -> Facts:
    """Each kind of repository."""
    found: Facts = request.param
    return found


def written(facts: Facts, root: Path) -> Mapping[str, Path]:
    """Write all files and return them by their paths."""
    files = {}
    for draft in all_drafts(facts):
        files[draft.path] = root / draft.path
        files[draft.path].parent.mkdir(parents=True, exist_ok=True)
        files[draft.path].write_text(draft.text, "utf-8")
    return files


def pipeline(facts: Facts, root: Path) -> Path:
    """Return the file of GitLab."""
    return written(facts, root)[".gitlab/quant.yml" if facts.included else ".gitlab-ci.yml"]


def test_the_workflow_of_github_passes_its_linter(facts: Facts, tmp_path: Path) -> None:
    """actionlint: syntax, expressions, contexts, and the inputs of every action at the version that is named."""
    assert lint_github(written(facts, tmp_path)[".github/workflows/quant.yml"]) == ""


def test_the_pipeline_of_gitlab_fits_its_schema(facts: Facts, tmp_path: Path) -> None:
    """The one that GitLab publishes; what a pipeline means no schema knows."""
    assert lint_gitlab(pipeline(facts, tmp_path)) == ""


def test_the_linters_find_what_is_wrong(tmp_path: Path) -> None:
    """An unknown input of an action, an unknown value of the matrix, a time that is none."""
    files = written(PLAIN, tmp_path)
    github, gitlab = files[".github/workflows/quant.yml"], files[".gitlab-ci.yml"]
    github.write_text(github.read_text("utf-8").replace("fetch-depth", "fetch-deep"), "utf-8")
    assert "fetch-deep" in lint_github(github)
    github.write_text(github.read_text("utf-8").replace("matrix.tests", "matrix.test"), "utf-8")
    assert "matrix" in lint_github(github)
    gitlab.write_text(gitlab.read_text("utf-8").replace("timeout: 10 minutes", "timeout: [10]", 1), "utf-8")
    assert "timeout" in lint_gitlab(gitlab)


def test_python_is_python(facts: Facts, tmp_path: Path) -> None:
    """Also with names of inputs, files and folders that would end a text or a line; ruff has nothing to say."""
    files = [file for path, file in written(facts, tmp_path).items() if path.endswith(".py")]
    for file in files:
        ast.parse(file.read_text("utf-8"))
    rules = ("--isolated", "--select=E4,E7,E9,F,B,UP,PT", "--no-cache")
    command = (sys.executable, "-m", "ruff", "check", *rules, *map(str, files))
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout


def test_every_file_has_the_marker_and_nothing_of_the_template_is_left(facts: Facts, tmp_path: Path) -> None:
    """A file is known again, and no word of the template's own language is in it."""
    for path, file in written(facts, tmp_path).items():
        assert is_ours(file), path
        text = file.read_text("utf-8").replace("[[ y ]]", "")
        assert "[%" not in text
        assert "[[" not in text
        assert text.endswith("\n")
        assert "\n\n\n\n" not in text


def test_what_names_say_stays_text(tmp_path: Path) -> None:
    """The conftest has the inputs under their own names, whatever is in them, and the model's file."""
    (conftest,) = [file for path, file in written(CASES["odd names"], tmp_path).items() if path.endswith("conftest.py")]
    tree = ast.parse(conftest.read_text("utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert {HOSTILE.name, ODD.file} <= texts
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert functions == {"quant_model", "quant_data"}


@pytest.mark.parametrize("name", ["fresh", "a module", "at the root"])
def test_pytest_is_configured_where_it_is_not(name: str, tmp_path: Path) -> None:
    """Node ids are the same wherever pytest is started, and modules can be imported."""
    facts = CASES[name]
    parser = configparser.ConfigParser()
    parser.read_string(written(facts, tmp_path)["pytest.ini"].read_text("utf-8"))
    wanted = {} if facts.place.folder == "." else {"testpaths": "tests"}
    wanted |= {"pythonpath": facts.place.sources} if facts.subject.module else {}
    assert dict(parser["pytest"]) == wanted
    assert "pytest.ini" not in {draft.path for draft in all_drafts(PLAIN)}


def test_a_gpu_has_tests_of_its_own_which_the_cpu_job_leaves_out(tmp_path: Path) -> None:
    """Else it would count them as not available, and the merged records would have two of each."""
    facts = CASES["with a GPU"]
    files = written(facts, tmp_path)
    assert "tests/quant/gpu/test_digits_on_gpu.py" in files
    workflow = parse(files[".github/workflows/quant.yml"])
    assert workflow["jobs"]["cpu"]["strategy"]["matrix"]["tests"] == ["tests/quant --ignore=tests/quant/gpu"]
    (run,) = [step["run"] for step in workflow["jobs"]["gpu"]["steps"] if step.get("name") == "Test"]
    assert "tests/quant/gpu " in run
    names = [step.get("name") for step in workflow["jobs"]["gpu"]["steps"]]
    assert names.index("Doctor") < names.index("Test")


def test_a_fork_is_left_out_of_the_job_on_a_gpu(tmp_path: Path) -> None:
    """The machine is the user's own; that a fork may change the workflow itself is told where it has such a job."""
    text = written(CASES["with a GPU"], tmp_path)[".github/workflows/quant.yml"]
    condition = parse(text)["jobs"]["gpu"]["if"]
    assert "head.repo.full_name == github.repository" in condition
    assert "brings its own copy of this file" in text.read_text("utf-8")
    assert "its own copy" not in written(PLAIN, tmp_path)[".github/workflows/quant.yml"].read_text("utf-8")


def test_no_text_of_a_stranger_reaches_a_shell(facts: Facts, tmp_path: Path) -> None:
    """Titles and names of branches are in no command of GitHub, whose expressions are replaced before bash reads it."""
    jobs = parse(written(facts, tmp_path)[".github/workflows/quant.yml"])["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    assert [step["run"] for step in steps if "${{" in step.get("run", "")] == []
    told = re.findall(r"github\.event\.[\w.]+", json.dumps(jobs))
    assert set(told) <= {"github.event.pull_request.head.repo.full_name", "github.event.pull_request.number"}


def test_merge_requests_have_caches_of_their_own(tmp_path: Path) -> None:
    """GitLab gives them none of a protected branch, so that one which only pulls would find nothing; but no history."""
    caches = parse(pipeline(PLAIN, tmp_path))["quant-cpu"]["cache"]
    policies = {cache["key"]: cache.get("policy", "pull-push") for cache in caches}
    assert policies.pop("quant-history") == "pull"
    assert set(policies.values()) == {"pull-push"}
    assert not any("unprotect" in cache for cache in caches)


def test_no_job_may_do_more_than_it_needs(tmp_path: Path) -> None:
    """Only what comments may write to pull requests, and only what adds the history to the repository."""
    workflow = parse(written(CASES["with a GPU"], tmp_path)[".github/workflows/quant.yml"])
    assert workflow["permissions"] == {"contents": "read"}
    rights = {name: job.get("permissions") for name, job in workflow["jobs"].items()}
    assert rights == {
        "cpu": None,
        "gpu": None,
        "verdict": {"contents": "read", "pull-requests": "write"},
        "history": {"contents": "write"},
    }


def test_caches_cannot_grow_without_bound(tmp_path: Path) -> None:
    """Engines are trimmed before they are saved, under a key of what they are; GitLab's are one for each job."""
    files = written(PLAIN, tmp_path)
    steps: list[dict[str, Any]] = parse(files[".github/workflows/quant.yml"])["jobs"]["cpu"]["steps"]
    names = [step.get("name") for step in steps]
    assert names.index("Keep the cache of engines small") < names.index("Save engines")
    (save,) = [step for step in steps if step.get("name") == "Save engines"]
    assert "hashFiles('.quant/cache/*/*/manifest.json')" in save["with"]["key"]
    (restore,) = [step for step in steps if step.get("name") == "Restore engines"]
    assert save["with"]["key"].startswith(restore["with"]["restore-keys"])
    keys = [cache["key"] for cache in parse(files[".gitlab-ci.yml"])["quant-cpu"]["cache"]]
    assert keys == ["quant-history", "quant-engines-$CI_NODE_INDEX", "quant-pip"]
