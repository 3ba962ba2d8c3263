"""A repository on a server, and machines of CI that a push and a pull request start, with the variables they have."""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tests.support.example import ROOT
from tests.support.history_repository import outside_ci
from tests.support.repository import ScratchRepository
from tests.support.workflows import Machine

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

    def told(yes: bool) -> str:
        return "true" if yes else "false"

    same = "github.event.pull_request.head.repo.full_name == github.repository"
    return {
        "!cancelled()": "true",
        "github.event_name == 'push'": told(not asks),
        f"!cancelled() && {same}": told(asks),
        "github.event_name == 'pull_request' && '--quant-against=merge-base' || ''": (
            "--quant-against=merge-base" if asks else ""
        ),
        "github.event_name == 'pull_request' && '--quant-compare --quant-launches=5' || '--quant-launches=5'": (
            "--quant-compare" if asks else "--quant-launches=1"
        ),
        "contains(needs.*.result, 'skipped') && '--partial' || '--full-suite'": "--full-suite",
        "github.run_id": "1",
        "github.token": TOKEN,
        "hashFiles('.quant/cache/*/*/manifest.json')": "0",
        "matrix.tests": "",
        "strategy.job-index": "0",
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
