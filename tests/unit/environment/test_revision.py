"""Commit and branch are read from git, and nothing breaks without it."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from pytest_quant.environment import GitState, git_state, git_trouble
from pytest_quant.environment.revision import parse_status


def _git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    command = ("git", *identity, *arguments)
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit on ``main`` and no CI around it."""
    for name in (
        "GITHUB_HEAD_REF",
        "GITHUB_REF_NAME",
        "CI_COMMIT_REF_NAME",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME",
        "BUILD_SOURCEBRANCHNAME",
        "BUILDKITE_BRANCH",
        "CIRCLE_BRANCH",
        "GIT_BRANCH",
    ):
        monkeypatch.delenv(name, raising=False)
    _git(tmp_path, "init", "-b", "main")
    (tmp_path / "file").write_text("1")
    _git(tmp_path, "add", "file")
    _git(tmp_path, "commit", "-m", "first")
    return tmp_path


def test_a_clean_checkout(repository: Path) -> None:
    """The commit is git's own answer; a file git does not track makes nothing dirty."""
    (repository / "untracked").write_text("x")
    assert git_state(repository) == GitState(_git(repository, "rev-parse", "HEAD"), "main", dirty=False)


def test_a_changed_file_is_dirty(repository: Path) -> None:
    """A tracked file that differs from the commit says so."""
    (repository / "file").write_text("2")
    state = git_state(repository)
    assert state is not None
    assert state.dirty


def test_a_detached_head_takes_the_branch_from_ci(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CI checks out a commit; its variable names the branch, and without one there is none."""
    _git(repository, "checkout", "--detach")
    state = git_state(repository)
    assert state is not None
    assert state.branch is None
    monkeypatch.setenv("GITHUB_REF_NAME", "topic")
    state = git_state(repository)
    assert state is not None
    assert state.branch == "topic"


def test_a_checked_out_branch_wins_over_ci() -> None:
    """The variable is a guess, git's answer is not."""
    text = "# branch.oid abc\n# branch.head main\n"
    assert parse_status(text, {"GITHUB_REF_NAME": "topic"}) == GitState("abc", "main", dirty=False)


def test_a_repository_without_a_commit() -> None:
    """There is a branch and no commit yet."""
    assert parse_status("# branch.oid (initial)\n# branch.head main\n", {}) == GitState(None, "main", dirty=False)


def test_outside_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No repository is no error."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) is None


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without git is no error."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) is None


def test_git_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A git that does not answer in time is given up."""
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path, timeout_s=0.05) is None


def test_a_repository_of_another_user(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git refuses to read it, as in many containers; the line that lets it is told, and works."""
    for name, value in {
        "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(repository.parent / "gitconfig"),
    }.items():
        monkeypatch.setenv(name, value)
    below = repository / "a folder"
    below.mkdir()
    assert git_state(below) is None
    trouble = git_trouble(below)
    assert "dubious ownership" in trouble
    subprocess.run(shlex.split(trouble.rpartition("next: ")[2]), check=True)
    assert git_state(below) is not None
    assert git_trouble(below) == ""


def test_a_damaged_repository(repository: Path) -> None:
    """A head that cannot be read is told; git itself says that there is no repository."""
    (repository / ".git" / "HEAD").write_text("junk\n")
    assert git_state(repository) is None
    assert "not a git repository" in git_trouble(repository)


def test_no_trouble_without_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to use git is no fault, whether it is installed or not."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_trouble(tmp_path) == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_trouble(tmp_path) == ""


def test_a_repository_without_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image with the checkout and without git is told."""
    monkeypatch.setenv("PATH", str(repository))
    assert git_trouble(repository).endswith("next: install git")
