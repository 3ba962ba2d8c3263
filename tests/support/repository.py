"""A repository of git in a temporary folder."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_CI = (
    *("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "GITHUB_REF", "GITHUB_BASE_REF", "GITHUB_SHA", "GITHUB_RUN_ID"),
    *("CI_COMMIT_REF_NAME", "CI_COMMIT_SHA", "CI_MERGE_REQUEST_IID", "CI_PIPELINE_URL"),
    *("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"),
    *("CHANGE_ID", "CHANGE_TARGET", "CHANGE_BRANCH", "GIT_BRANCH", "GIT_COMMIT"),
    *("BUILDKITE_BRANCH", "BUILDKITE_COMMIT", "BUILDKITE_PULL_REQUEST", "BUILDKITE_PULL_REQUEST_BASE_BRANCH"),
    *("SYSTEM_PULLREQUEST_SOURCEBRANCH", "SYSTEM_PULLREQUEST_TARGETBRANCH", "SYSTEM_PULLREQUEST_PULLREQUESTID"),
    *("SYSTEM_PULLREQUEST_PULLREQUESTNUMBER", "SYSTEM_COLLECTIONURI", "BUILD_SOURCEBRANCH", "BUILD_SOURCEVERSION"),
    *("BITBUCKET_BRANCH", "BITBUCKET_COMMIT", "BITBUCKET_PR_ID", "BITBUCKET_PR_DESTINATION_BRANCH"),
    *("BITBUCKET_GIT_HTTP_ORIGIN", "CIRCLE_BRANCH"),
)


def without_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the CI system that runs these tests tells about itself."""
    for name in _CI:
        monkeypatch.delenv(name, raising=False)


@dataclass(frozen=True, slots=True)
class ScratchRepository:
    """A repository whose commits each change one file."""

    path: Path

    def git(self, *arguments: str) -> str:
        """Run git there and return what it prints."""
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
        command = ("git", *identity, "-c", "protocol.file.allow=always", *arguments)
        return subprocess.run(command, cwd=self.path, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, text: str) -> str:
        """Commit a change and return its id."""
        (self.path / "file").write_text(text)
        self.git("add", "file")
        self.git("commit", "-m", text)
        return self.git("rev-parse", "HEAD")


def make_repository(path: Path) -> ScratchRepository:
    """Return a new repository on the branch ``main``, without a commit."""
    path.mkdir(parents=True, exist_ok=True)
    repository = ScratchRepository(path)
    repository.git("init", "-b", "main")
    return repository


def make_branches(path: Path, shared: int, topic: int = 1, later: int = 0) -> ScratchRepository:
    """Return a new repository whose ``topic`` left ``main`` after its `shared` commits, and is checked out.

    It has `topic` commits of its own, and ``main`` so many later ones.
    """
    repository = make_repository(path)
    for number in range(shared):
        repository.commit(f"shared {number}")
    repository.git("checkout", "-b", "topic")
    for number in range(topic):
        repository.commit(f"topic {number}")
    repository.git("checkout", "main")
    for number in range(later):
        repository.commit(f"later {number}")
    repository.git("checkout", "topic")
    return repository
