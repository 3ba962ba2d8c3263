"""What is written is valid: workflows for the linters of their forges, Python for the compiler, all with its marker."""

from __future__ import annotations

import ast
import configparser
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.init.model_search import ModelToTest
from pytest_quant.init.project import RUNNERS, Installation, Project, content, find_installation
from pytest_quant.init.render import MARKER, InitFacts, gives_model, new_files, write_new
from pytest_quant.spec import Signature, TensorInfo
from tests.support.distribution import GIT_URL, installed
from tests.support.repository import make_repository
from tests.support.workflows import lint_github, lint_gitlab, parse

IMAGE = TensorInfo("image", "float32", (None, 1, 8, 8))
SCORES = TensorInfo("scores", "float32", (None, 10))
HOSTILE = TensorInfo('a"""\n$(reboot)\\ ${{ x }} [[ y ]]', "int64", None)
BOXES = TensorInfo("boxes", "float32", (None, None, 4))

FILE = ModelToTest("digits", Signature((IMAGE,), (SCORES,)), "onnx", file="digits.onnx")
NETS = 'Model.from_torch(*nets.pair, name="mlp")'
MODULE = ModelToTest("mlp", Signature((IMAGE,), (SCORES,)), "module", module="nets", expression=NETS)
ODD = ModelToTest("odd", Signature((HOSTILE, IMAGE), (BOXES, HOSTILE)), "onnx", file='models/a "b" \\ c\n.onnx')

PIP = Installation(('python -m pip install "pytest-quant[ort]"',))
UV = Installation(("python -m pip install uv", "uv sync --locked --all-groups"), ".venv/bin")
ON_GPU = Installation(('python -m pip install "pytest-quant[gpu,trt]"',))

CONFIGURED = Project(Path(), "", "main", "tests/quant", configured=True, sources=".")
FRESH = replace(CONFIGURED, configured=False)

PLAIN = InitFacts(
    model=FILE,
    project=CONFIGURED,
    forges=("github", "gitlab"),
    cpu=("ort",),
    installation=PIP,
    python="3.12",
)
CASES: dict[str, InitFacts] = {
    "plain": PLAIN,
    "fresh": replace(PLAIN, project=FRESH),
    "a module": replace(PLAIN, model=MODULE, project=replace(FRESH, sources="src")),
    "at the root": replace(PLAIN, project=replace(FRESH, folder=".", branch="release/1.x")),
    "uv": replace(PLAIN, installation=UV, python="3.14", lfs=True),
    "pip cached": replace(PLAIN, installation=replace(PIP, pip_cached=True)),
    "with a GPU": replace(PLAIN, gpu=("ort-trt", "trt"), gpu_installation=ON_GPU),
    "GPU and uv": replace(PLAIN, gpu=("trt",), gpu_installation=UV, installation=UV),
    "own fixtures": replace(PLAIN, own_fixtures=True),
    "own fixtures of a module": replace(PLAIN, model=MODULE, own_fixtures=True, gpu=("trt",), gpu_installation=ON_GPU),
    "included": replace(PLAIN, included=True),
    "odd names": replace(PLAIN, model=ODD, project=replace(FRESH, folder="checks.d/a-b/quant")),
    "two backends": replace(PLAIN, cpu=("openvino", "ort")),
    "on ARM": replace(PLAIN, runner="ubuntu-24.04-arm"),
    "on Windows": replace(PLAIN, runner="windows-latest", installation=UV),
}


def written(facts: InitFacts, root: Path) -> Mapping[str, Path]:
    """Write all files and return them by their paths."""
    new = new_files(facts)
    write_new(root, new)
    return {path: root / path for path in new}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, Path]]:
    """The files of each case by their paths; nobody writes to them."""
    return {name: written(facts, tmp_path_factory.mktemp("case")) for name, facts in CASES.items()}


def test_linters_find_nothing(cases: Mapping[str, Mapping[str, Path]]) -> None:
    """Neither actionlint, nor the schema that GitLab publishes, nor ruff, in any case.

    Also with names of inputs, files and folders that would end a text or a line.
    """
    assert lint_github(*(files[".github/workflows/quant.yml"] for files in cases.values())) == ""
    pipelines = {name: ".gitlab/quant.yml" if facts.included else ".gitlab-ci.yml" for name, facts in CASES.items()}
    assert lint_gitlab(*(cases[name][pipeline] for name, pipeline in pipelines.items())) == ""
    rules = ("--isolated", "--select=E4,E7,E9,F,B,UP,PT", "--no-cache")
    programs = [str(file) for files in cases.values() for path, file in files.items() if path.endswith(".py")]
    command = (sys.executable, "-m", "ruff", "check", *rules, *programs)
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout


@pytest.mark.parametrize("name", CASES)
def test_nothing_of_the_template_is_left(name: str, cases: Mapping[str, Mapping[str, Path]]) -> None:
    """Every file has the marker. No text of a stranger is in a command of GitHub.

    A title or the name of a branch would be one: GitHub replaces its expressions before bash reads the command.
    """
    for path, file in cases[name].items():
        text = file.read_text("utf-8").replace("[[ y ]]", "")
        assert text.startswith(MARKER), path
        assert not [left for left in ("[%", "[[", "\n\n\n\n") if left in text], path
        assert text.endswith("\n")
    jobs = parse(cases[name][".github/workflows/quant.yml"])["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    assert [step["run"] for step in steps if "${{" in step.get("run", "")] == []
    expressions = re.findall(r"github\.event\.[\w.]+", json.dumps(jobs))
    assert set(expressions) <= {"github.event.pull_request.head.repo.full_name", "github.event.pull_request.number"}


@pytest.mark.parametrize(("name", "lfs"), [("plain", False), ("with a GPU", False), ("with a GPU", True)])
def test_nothing_that_a_stranger_can_change_gets_a_token(name: str, lfs: bool, tmp_path: Path) -> None:
    """Actions are commits, with their tags beside them; clones keep a token only where the history is pushed.

    And where Git LFS fetches the model of the base. What holds a token installs the version that wrote the file, and
    the push token of GitLab is on no command line.
    """
    files = written(replace(CASES[name], lfs=lfs), tmp_path)
    text = files[".github/workflows/quant.yml"].read_text("utf-8")
    used = re.findall(r"uses: (.+)", text)
    assert len(used) == text.count("uses:")
    pin = re.compile(r"actions/[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [action for action in used if not pin.fullmatch(action)] == []
    jobs = parse(files[".github/workflows/quant.yml"])["jobs"]
    clones = {job: step["with"] for job in jobs for step in jobs[job]["steps"] if "checkout" in step.get("uses", "")}
    with_token = {job for job, given in clones.items() if given.get("persist-credentials") is not False}
    assert with_token == ({"history", "gpu"} if lfs else {"history"})
    asking = [step["run"] for job in jobs for step in jobs[job]["steps"] if "origin " in step.get("run", "")]
    assert asking == []  # without a token a private repository does not answer
    pipeline = files[".gitlab-ci.yml"].read_text("utf-8")
    pinned = f'pip install "pytest-quant[history,comment]=={version("pytest-quant")}"'
    assert (text.count(pinned), pipeline.count(pinned)) == (2, 1)
    assert ":$GITLAB_TOKEN@" not in pipeline
    assert ("AGAINST" in pipeline) is bool(CASES[name].gpu)


@pytest.mark.parametrize("files", [{}, {"uv.lock": ""}, {"poetry.lock": ""}], ids=["pip", "uv", "poetry"])
def test_every_job_installs_one_version(files: dict[str, str], tmp_path: Path) -> None:
    """The one that wrote the workflow: records of two versions would meet in one history."""
    for name in files:
        (tmp_path / name).touch()
    cpu, gpu = (find_installation(tmp_path, [extra], gpu=extra == "trt") for extra in ("ort", "trt"))
    facts = replace(CASES["with a GPU"], installation=cpu, gpu_installation=gpu)
    for path, file in written(facts, tmp_path / "files").items():
        if path.endswith(".yml"):
            versions = re.findall(r"install .*pytest-quant\[[a-z,]+\](.*?)\"", file.read_text("utf-8"))
            assert set(versions) == {f"=={version('pytest-quant')}"}, path
            assert len(versions) >= len({"cpu", "gpu", "the rest"})


def test_every_job_installs_from_where_this_package_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address of git with its commit, in workflows that stay valid; no index need have that version."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    installed(tmp_path / "site", {"url": GIT_URL, "vcs_info": {"vcs": "git", "commit_id": commit}})
    monkeypatch.syspath_prepend(tmp_path / "site")
    cpu, gpu = (find_installation(tmp_path, [extra], gpu=extra == "trt") for extra in ("ort", "trt"))
    facts = replace(CASES["with a GPU"], installation=cpu, gpu_installation=gpu)
    files = written(facts, tmp_path / "files")
    assert lint_github(files[".github/workflows/quant.yml"]) == ""
    assert lint_gitlab(files[".gitlab-ci.yml"]) == ""
    for path, jobs in ((".github/workflows/quant.yml", 5), (".gitlab-ci.yml", 3)):
        sources = re.findall(r'install .*"pytest-quant\[[a-z,]+\](.*?)"', files[path].read_text("utf-8"))
        assert sources == [f" @ git+{GIT_URL}@{commit}"] * jobs


def test_a_merge_queue_is_compared_and_gets_its_required_job(tmp_path: Path) -> None:
    """On the event ``merge_group``, of which no condition of `cpu` and `verdict` knows a pull request.

    A fork's code would run on the user's own runner in the job `gpu`, whose condition holds for a push, and for a pull
    request of the repository itself, which the event of a queue has none of.
    """
    workflow = parse(written(CASES["with a GPU"], tmp_path)[".github/workflows/quant.yml"])
    assert workflow["on"]["merge_group"] == {"branches": ["main"]} == workflow["on"]["pull_request"]
    jobs = workflow["jobs"]
    steps: dict[str, dict[str, Any]] = {}
    assert jobs["gpu"]["if"].split(" && ")[1:] == [
        "(github.event_name == 'push' || github.event.pull_request.head.repo.full_name == github.repository) }}"
    ]
    for name in ("cpu", "verdict"):
        assert "== 'push'" not in jobs[name]["if"]
        assert "== 'pull_request'" not in jobs[name]["if"]
        steps |= {step["name"]: step for step in jobs[name]["steps"] if "name" in step}
        assert all("== 'pull_request'" not in text for text in steps[next(reversed(steps))].get("env", {}).values())
    compares = next(step["env"]["COMPARE"] for step in jobs["cpu"]["steps"] if step.get("name") == "Test")
    assert compares.startswith("${{ github.event_name != 'push' && '--quant-")
    # Nothing to comment on: what a queue tests is no pull request.
    assert "github.event.pull_request.head.repo.full_name == " in steps["Comment"]["if"]


def test_git_asks_for_the_push_token_of_gitlab(tmp_path: Path) -> None:
    """The helper of the job, and not that of the runner, whose token may not push."""
    script = parse(written(PLAIN, tmp_path)[".gitlab-ci.yml"])["quant-history"]["script"][1]
    asks = f"{script[: script.index('pytest-quant history push')]}git credential fill\nfi"
    (tmp_path / "gitconfig").write_text('[credential]\n\thelper = "!echo password=the-runners; :"\n')
    variables = {**os.environ, "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"), "GITLAB_TOKEN": "ours"}
    question = "protocol=https\nhost=gitlab.invalid\nusername=pytest-quant\n\n"
    command = ("bash", "-e", "-c", asks)
    said = subprocess.run(command, input=question, env=variables, capture_output=True, text=True, check=True)
    assert "password=ours" in said.stdout.splitlines()


@pytest.mark.parametrize(("changed", "skips"), [("docs/a.md", True), ("README.md", True), ("a.py", False)])
def test_a_pull_request_of_markdown_skips_all_other_jobs(changed: str, skips: bool, tmp_path: Path) -> None:
    """It starts all the same: a required job that is skipped has passed, one that never starts is waited for."""
    workflow = parse(written(CASES["with a GPU"], tmp_path / "files")[".github/workflows/quant.yml"])
    assert "paths-ignore" not in workflow["on"]["pull_request"]
    waiting = {name for name, job in workflow["jobs"].items() if "markdown_only" in job.get("if", "")}
    assert waiting == {"split", "cpu", "gpu", "verdict"}
    repository = make_repository(tmp_path / "repository")
    repository.commit("base")
    repository.git("checkout", "-q", "-b", "topic")
    (repository.path / changed).parent.mkdir(exist_ok=True)
    (repository.path / changed).write_text("text\n")
    repository.git("add", changed)
    repository.git("commit", "-m", "topic")
    repository.git("checkout", "-q", "main")
    repository.commit("more on main")
    repository.git("merge", "-q", "--no-ff", "-m", "Merge", "topic")
    output = tmp_path / "output"
    (look,) = [step["run"] for step in workflow["jobs"]["changes"]["steps"] if "run" in step]
    variables = {**os.environ, "GITHUB_OUTPUT": str(output)}
    command = ("bash", "-e", "-c", look)
    subprocess.run(command, cwd=repository.path, env=variables, check=True)
    assert (output.exists() and output.read_text() == "markdown_only=true\n") is skips


def test_what_names_say_stays_text(tmp_path: Path) -> None:
    """The conftest has the inputs under their own names, whatever is in them, and the model's file."""
    (conftest,) = [file for path, file in written(CASES["odd names"], tmp_path).items() if path.endswith("conftest.py")]
    tree = ast.parse(conftest.read_text("utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert {HOSTILE.name, ODD.file} <= texts
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert functions == {"quant_model", "quant_data"}


@pytest.mark.parametrize("folder", [".", "tests/quant"])
def test_each_test_with_own_fixtures_gives_the_model_of_its_place(folder: str, tmp_path: Path) -> None:
    """The path counts from the file that names it; a fixture of another model is none of this."""
    project = replace(CONFIGURED, root=tmp_path, folder=folder)
    facts = replace(PLAIN, project=project, gpu=("trt",), gpu_installation=ON_GPU, own_fixtures=True)
    assert facts.fixture_files == facts.tests
    assert not any(gives_model(facts, path) for path in facts.tests)
    files = written(facts, tmp_path)
    for path in facts.tests:
        names: dict[str, Any] = {"__file__": str(files[path])}
        assert gives_model(facts, path)
        assert not gives_model(replace(facts, model=replace(FILE, file="other/digits.onnx")), path)
        exec(content(tmp_path / path), names)  # noqa: S102 - a file of ours
        assert names["quant_model"].__wrapped__() == tmp_path / "digits.onnx"


def test_the_placeholder_promises_no_limit_that_nobody_keeps() -> None:
    """As many samples calibrate as its own line says; fewer are taken without a word."""
    text = new_files(PLAIN)["tests/quant/conftest.py"]
    said = re.search(r"([\w ]*)of them calibrate.*\n.*from_arrays\(inputs, labels, calibration=(\d+)\)", text)
    assert said is not None
    assert said[1].strip() == said[2]


@pytest.mark.parametrize("name", ["fresh", "a module", "at the root"])
def test_pytest_is_configured_where_it_is_not(name: str, tmp_path: Path) -> None:
    """Node ids are the same wherever pytest is started, modules can be imported, and the plugin is needed."""
    facts = CASES[name]
    parser = configparser.ConfigParser()
    parser.read_string(written(facts, tmp_path)["pytest.ini"].read_text("utf-8"))
    wanted = {"required_plugins": "pytest-quant", "addopts": "--strict-markers"}
    wanted |= {} if facts.project.folder == "." else {"testpaths": "tests"}
    wanted |= {"pythonpath": facts.project.sources} if facts.model.module else {}
    assert dict(parser["pytest"]) == wanted
    assert "pytest.ini" not in new_files(PLAIN)


def test_a_gpu_has_tests_of_its_own_which_the_cpu_job_leaves_out(tmp_path: Path) -> None:
    """Else it would count them as not available, and the merged records would have two of each."""
    facts = CASES["with a GPU"]
    files = written(facts, tmp_path)
    assert "tests/quant/gpu/test_digits_on_gpu.py" in files
    workflow = parse(files[".github/workflows/quant.yml"])
    (run,) = [step["run"] for step in workflow["jobs"]["cpu"]["steps"] if step.get("name") == "Test"]
    assert "pytest tests/quant --ignore=tests/quant/gpu " in run
    (run,) = [step["run"] for step in workflow["jobs"]["gpu"]["steps"] if step.get("name") == "Test"]
    assert "tests/quant/gpu " in run
    names = [step.get("name") for step in workflow["jobs"]["gpu"]["steps"]]
    assert names.index("Doctor") < names.index("Test")


def test_merge_requests_have_caches_of_their_own(tmp_path: Path) -> None:
    """GitLab gives them none of a protected branch, so that one which only pulls would find nothing; but no history."""
    caches = parse(written(PLAIN, tmp_path)[".gitlab-ci.yml"])["quant-cpu"]["cache"]
    policies = {cache["key"]: cache.get("policy", "pull-push") for cache in caches}
    assert policies.pop("quant-history") == "pull"
    assert set(policies.values()) == {"pull-push"}
    assert not any("unprotect" in cache for cache in caches)
    assert [cache["key"] for cache in caches] == ["quant-history", "quant-engines-$CI_NODE_INDEX", "quant-pip"]


def test_no_job_may_do_more_than_it_needs(tmp_path: Path) -> None:
    """Only what comments may write to pull requests, and what adds the history to the repository. Caches stay small."""
    workflow = parse(written(CASES["with a GPU"], tmp_path)[".github/workflows/quant.yml"])
    names = [step.get("name") for step in workflow["jobs"]["cpu"]["steps"]]
    assert names.index("Keep the cache of engines small") < names.index("Save engines")
    assert workflow["permissions"] == {"contents": "read"}
    rights = {name: job.get("permissions") for name, job in workflow["jobs"].items()}
    assert rights == {
        "changes": None,
        "split": None,
        "cpu": None,
        "gpu": None,
        "verdict": {"contents": "read", "pull-requests": "write"},
        "history": {"contents": "write"},
    }


NEW = {"a/b.py": f"{MARKER}x = 2\n"}


def test_new_files_are_written_with_their_folders(tmp_path: Path) -> None:
    """A second time there is nothing to write; a dry run writes not even a folder."""
    both = NEW | {"c.yml": "on: push\n"}
    assert write_new(tmp_path, both, dry=True) == ("a/b.py", "c.yml")
    assert list(tmp_path.iterdir()) == []
    assert write_new(tmp_path, both) == ("a/b.py", "c.yml")
    assert {path: content(tmp_path / path).decode() for path in both} == both
    assert write_new(tmp_path, both) == ()


def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    """Not even what was written here before, nor what a link that leads nowhere is to point to."""
    (tmp_path / "a").mkdir()
    for text in (b"mine", b"\xff", b"", f"{MARKER}x = 1\n".encode()):
        (tmp_path / "a" / "b.py").write_bytes(text)
        assert write_new(tmp_path, NEW) == ()
        assert content(tmp_path / "a" / "b.py") == text
    (tmp_path / "link").symlink_to("nowhere")
    assert write_new(tmp_path, {"link": "x", "a": "x"}) == ()
    assert not (tmp_path / "nowhere").exists()
    assert content(tmp_path / "link") == content(tmp_path / "a") == b""


@pytest.mark.parametrize("dry", [False, True])
def test_nothing_is_written_through_a_link_out_of_the_repository(tmp_path: Path, dry: bool) -> None:
    """Nor is anything else."""
    (tmp_path / "root").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root" / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=r"a/b\.py would lie outside of the repository"):
        write_new(tmp_path / "root", {"c.py": "x", **NEW}, dry=dry)
    assert {path.name for path in tmp_path.rglob("*")} == {"root", "elsewhere", "a"}
    os.mkfifo(tmp_path / "pipe")
    assert content(tmp_path / "pipe") == b""


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    """It is moved away by its owner, and by nobody else."""
    (tmp_path / "a").write_text("mine")
    with pytest.raises(UsageError, match=r"a/b\.py cannot be written") as caught:
        write_new(tmp_path, NEW)
    assert (caught.value.fix or "").endswith("run it again")
    assert (tmp_path / "a").read_text() == "mine"


@pytest.mark.parametrize("runner", RUNNERS)
def test_the_job_on_a_cpu_runs_where_it_is_told(runner: str, tmp_path: Path) -> None:
    """On one image of GitHub, all others stay on the usual one; commands are for bash on each."""
    files = written(replace(PLAIN, runner=runner, installation=UV), tmp_path)
    jobs = parse(files[".github/workflows/quant.yml"])["jobs"]
    assert {name: job["runs-on"] for name, job in jobs.items() if name != "cpu"} == dict.fromkeys(
        ("changes", "split", "verdict", "history"), "ubuntu-latest"
    )
    assert jobs["cpu"]["runs-on"] == runner
    text = json.dumps(jobs["cpu"])
    is_windows = runner.startswith("windows")
    assert ("defaults" in jobs["cpu"]) is is_windows
    assert (".venv/Scripts" in text, ".venv/bin" in text) == (is_windows, not is_windows)
