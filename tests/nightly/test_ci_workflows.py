"""The workflows that ``pytest-quant init`` writes do in CI what they say: a push, then a pull request, on clean clones.

Every command in them is run, with the variables that the forge sets and against a server that speaks its API. A clone
that keeps no token reaches no server of git.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.history.git_branch import BRANCH
from tests.integration.test_init import LABELLED
from tests.support import workflows
from tests.support.documents import GUIDES, Document
from tests.support.example import EXAMPLE
from tests.support.forge_server import FakeForge, serving
from tests.support.history_repository import run_command
from tests.support.repository import make_repository
from tests.support.workflows import Machine, Ran, Served, parse

WORKFLOW, PIPELINE = ".github/workflows/quant.yml", ".gitlab-ci.yml"
OPTIONS = ("--github", "--gitlab", "--backend=ort", "--gpu-backend=ort")
"""The job for a GPU runs on the processor here, by the backend that its test names."""


@dataclass(frozen=True, slots=True)
class Story:
    """What the jobs of a push, and then those of a pull request, did."""

    served: Served
    forge: FakeForge
    pushed: list[Ran]
    request_steps: list[Ran]
    shards: list[dict[str, Any]]
    report: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    """A new repository with a model, labelled samples, and what ``init`` writes for it, on a server."""
    place = tmp_path_factory.mktemp("ci")
    work = make_repository(place / "work")
    bare = place / "bare.git"
    work.git("init", "-q", "--bare", "-b", "main", str(bare))
    work.git("remote", "add", "origin", bare.as_uri())
    (work.path / "digits.onnx").write_bytes((EXAMPLE / "digits.onnx").read_bytes())
    said = run_command(work.path, "init", "digits.onnx", *OPTIONS)
    assert said.returncode == 0, said.stderr
    conftest = work.path / "tests" / "quant" / "conftest.py"
    text = conftest.read_text("utf-8")
    conftest.write_text(text[: text.index("    rng = ")] + LABELLED.lstrip("\n"), "utf-8")
    repository = Served(work, bare, place)
    repository.push("The model and its checks")
    return repository


def loaded(folder: Path) -> list[dict[str, Any]]:
    """Return every document of records below a folder."""
    return [json.loads(file.read_text("utf-8")) for file in sorted(folder.rglob("quant.json"))]


def topic(served: Served, name: str) -> str:
    """Push a branch with a change and return its commit."""
    served.work.git("checkout", "-q", "-B", name, "main")
    (served.work.path / "NOTES").write_text(f"{name}\n")
    return served.push("A note")


@pytest.fixture(scope="module")
def on_github(served: Served) -> Iterator[Story]:
    """A push to ``main`` and a pull request, with whole clones, as the workflow asks for."""
    file = served.work.path / WORKFLOW
    with serving() as forge:
        main = served.work.git("rev-parse", "main")

        def runs(event: str, commit: str, ref: str, jobs: tuple[str, ...]) -> Iterator[Ran]:
            for job in jobs:
                machine = served.machine(f"github-{event}-{job}", ref, commit, depth=None, artifacts=f"github-{event}")
                machine.environ |= workflows.github(event, commit, forge.address)
                machine.values = workflows.github_values(event)
                yield from machine.run_github(file, job)

        pushed = list(runs("push", main, "refs/heads/main", ("split", "cpu", "gpu", "history")))
        topic(served, "topic")
        merged = served.request("topic")
        ref = f"refs/pull/{workflows.REQUEST}/merge"
        request_steps = list(runs("pull_request", merged, ref, ("split", "cpu", "gpu", "verdict")))
        shards = loaded(served.place / "github-pull_request")
        yield Story(served, forge, pushed, request_steps, shards, served.place / "github-pull_request" / "quant-report")


@pytest.fixture(scope="module")
def on_gitlab(served: Served, on_github: Story) -> Iterator[Story]:
    """A push to ``main`` with clones of one commit, and a merge request with whole clones."""
    file = served.work.path / PIPELINE
    with serving() as forge:
        served.work.git("push", "-q", "--delete", "origin", BRANCH)
        main = served.work.git("rev-parse", "main")

        def runs(event: str, commit: str, ref: str, depth: int | None, jobs: tuple[str, ...]) -> Iterator[Ran]:
            shared: dict[str, Machine] = {}
            for job in jobs:
                machine = served.machine(f"gitlab-{event}-{job}", ref, commit, depth=depth, artifacts=f"gitlab-{event}")
                machine.environ |= workflows.gitlab(event, commit, f"{forge.address}/api/v4")
                machine.environ["GIT_CONFIG_GLOBAL"] = str(_redirection(served))
                _hand_over(shared.values(), machine)
                yield from machine.run_gitlab(file, job, "merge_request_event" if "merge" in event else "BRANCH")
                shared[job] = machine

        pushed = list(
            runs("push", main, "refs/heads/main", 1, ("quant-split", "quant-cpu", "quant-gpu", "quant-history"))
        )
        commit = topic(served, "other")
        jobs = ("quant-split", "quant-cpu", "quant-gpu", "quant-verdict")
        request_steps = list(runs("merge_request_event", commit, "refs/heads/other", None, jobs))
        last = served.place / "gitlab-merge_request_event-quant-verdict" / "clone"
        yield Story(served, forge, pushed, request_steps, loaded(last / "shards"), last / "report")


def _redirection(served: Served) -> Path:
    """Return settings with which git takes the server of the test for the one of the forge."""
    file = served.place / "gitconfig"
    server = "https://pytest-quant@gitlab.invalid/group/models.git"
    file.write_text(f'[url "{served.address}"]\n\tinsteadOf = {server}\n')
    return file


def _hand_over(done: Any, machine: Machine) -> None:
    """Copy the artifacts of earlier jobs, as GitLab does for a job that needs them."""
    for other in done:
        for name in ("shards", "durations"):
            if (other.clone / name).is_dir():
                shutil.copytree(other.clone / name, machine.clone / name, dirs_exist_ok=True)


@pytest.fixture(params=["github", "gitlab"])
def story(request: pytest.FixtureRequest) -> Story:
    """What happened on either forge."""
    result: Story = request.getfixturevalue(f"on_{request.param}")
    return result


def test_every_command_of_the_push_is_green(story: Story) -> None:
    """In a repository that has no history yet."""
    assert [each for each in story.pushed if each.returncode] == []
    assert len({each.job for each in story.pushed}) == 4


def test_every_command_of_the_request_is_green(story: Story) -> None:
    """With the history that the push has left."""
    assert [each for each in story.request_steps if each.returncode] == []
    assert len({each.job for each in story.request_steps}) == 4


def test_the_push_begins_the_history(story: Story) -> None:
    """On a branch of its own, which holds a run of each job."""
    listed = story.served.work.git("ls-remote", "--heads", "origin")
    assert f"refs/heads/{BRANCH}" in listed
    output = "".join(each.output for each in story.request_steps)
    assert set(re.findall(r"(\d+) runs added to .*already there", output)) == {"2"}


def test_the_request_is_compared_with_the_push(story: Story) -> None:
    """The base is the commit of ``main``, and nothing of it is missing."""
    main = story.served.work.git("rev-parse", "main")
    output = "".join(each.output for each in story.request_steps)
    assert f"base {main[:12]}: merge base with origin/main" in output
    assert "no base" not in output


def test_the_gpu_job_times_both_commits(story: Story) -> None:
    """The base comes from the clone."""
    (output,) = [each.output for each in story.request_steps if "gpu" in each.job and "quant against" in each.output]
    assert "test_digits_int8_on_gpu" in output


def test_one_comment_is_posted_and_then_updated(story: Story) -> None:
    """It has the verdict, and nobody's token."""
    (body,) = [comment["body"] for comment in story.forge.comments]
    assert body.startswith("<!-- pytest-quant")
    assert "test_digits_int8" in body or "NO REGRESSION" in body.upper()
    assert workflows.TOKEN not in body


def test_the_verdict_is_in_the_summary_too(on_github: Story) -> None:
    """A pull request from a fork gets no comment."""
    (summary,) = [each.summary for each in on_github.request_steps if each.job == "verdict" and each.summary]
    (comment,) = on_github.forge.comments
    assert summary == comment["body"]


def test_every_shard_is_merged(story: Story) -> None:
    """Each job wrote its records, a page, a comment and JUnit; the report is on all of them."""
    assert len(story.shards) == 2
    nodeids = {check["nodeid"] for shard in story.shards for check in shard["checks"]}
    assert nodeids == {
        "tests/quant/test_digits.py::test_digits_int8",
        "tests/quant/gpu/test_digits_on_gpu.py::test_digits_int8_on_gpu",
    }
    page = (story.report / "index.html").read_text("utf-8")
    assert all(nodeid.partition("::")[2] in page for nodeid in nodeids)


def test_labelled_samples_pass(story: Story) -> None:
    """And INT8 is proven to have run."""
    for check in (check for shard in story.shards for check in shard["checks"]):
        assert check["status"] == "PASS"
        assert check["coverage"]["pct"] > 50


def test_no_secret_is_printed(story: Story) -> None:
    """The token is in no output of a command."""
    output = "".join(each.output for each in (*story.pushed, *story.request_steps))
    assert workflows.TOKEN not in output


def test_the_workflow_of_language_models_judges_two_runs_and_keeps_them(tmp_path: Path) -> None:
    """A job for each side, and one that finds what both logged: a push begins the history, a request is compared."""
    guide = Document(GUIDES / "language-models.md")
    work, bare = make_repository(tmp_path / "work"), tmp_path / "bare.git"
    work.git("init", "-q", "--bare", "-b", "main", str(bare))
    work.git("remote", "add", "origin", bare.as_uri())
    file = work.path / ".github" / "workflows" / "llm.yml"
    (test,) = [block.text for block in guide.blocks("python") if block.file_name == "test_gsm8k.py"]
    (workflow,) = [block.text for block in guide.blocks("yaml") if "\njobs:\n" in block.text]
    for path, text in ((work.path / "tests" / "llm" / "test_gsm8k.py", test), (file, workflow)):
        path.parent.mkdir(parents=True)
        path.write_text(text, "utf-8")
    served = Served(work, bare, tmp_path)
    main = served.push("The test and the workflow")
    _write_harness(tmp_path / "programs")

    def runs(event: str, ref: str, commit: str, jobs: tuple[str, ...]) -> Iterator[Ran]:
        for job in jobs:
            for side in parse(file)["jobs"][job].get("strategy", {}).get("matrix", {}).get("include", [{}]):
                name = "-".join((event, job, *side.values()))
                machine = served.machine(name, ref, commit, depth=None, artifacts=f"shared-{event}")
                machine.environ |= workflows.github(event, commit, "http://127.0.0.1:9")
                machine.environ["PATH"] = f"{tmp_path / 'programs'}:{machine.environ['PATH']}"
                compares = "--quant-compare" if event == "pull_request" else ""
                machine.values = {f"matrix.{key}": value for key, value in side.items()} | {
                    "!cancelled()": "true",
                    "github.event_name == 'pull_request' && '--quant-compare' || ''": compares,
                }
                yield from machine.run_github(file, job)

    pushed = list(runs("push", "refs/heads/main", main, ("lm-eval", "scores", "history")))
    assert [(each.job, each.step, each.output) for each in pushed if each.returncode] == []
    assert BRANCH in work.git("ls-remote", "origin")
    topic(served, "topic")
    merged = served.request("topic")
    asked = list(runs("pull_request", f"refs/pull/{workflows.REQUEST}/merge", merged, ("lm-eval", "scores")))
    assert [(each.job, each.step, each.output) for each in asked if each.returncode] == []
    (check,) = loaded(tmp_path / "shared-pull_request")[0]["checks"]
    assert (check["status"], check["accuracy"]["n"]) == ("PASS", 1319)
    (summary,) = [each.summary for each in asked if each.step == "Judge"]
    assert "NO REGRESSION: 2 unchanged" in summary


def _write_harness(folder: Path) -> None:
    """Write a program ``lm_eval`` as the machine of the job has it."""
    folder.mkdir()
    program = folder / "lm_eval"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.support.harness "$@"\n', "utf-8")
    program.chmod(0o755)
