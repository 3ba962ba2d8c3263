"""The code under test, as git and the CI service have it, and how commits lie to each other."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_quant.environment import (
    GitState,
    Repository,
    ci_branch,
    ci_commit,
    ci_pull_request,
    ci_target,
    git_state,
    git_trouble,
)
from pytest_quant.environment.revision import main_branch, parse_status
from pytest_quant.errors import UsageError
from tests.support.repository import ScratchRepository, make_repository, without_ci


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


_SHA = "0123456789abcdef0123456789abcdef01234567"

_GITHUB = {
    "GITHUB_REF": "refs/pull/17/merge",
    "GITHUB_REF_NAME": "17/merge",
    "GITHUB_HEAD_REF": "topic",
    "GITHUB_BASE_REF": "main",
    "GITHUB_SHA": _SHA,
}
_GITLAB = {
    "CI_MERGE_REQUEST_IID": "17",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "topic",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
    "CI_COMMIT_SHA": _SHA,
}
_JENKINS = {
    "CHANGE_ID": "17",
    "CHANGE_TARGET": "main",
    "CHANGE_BRANCH": "topic",
    "GIT_BRANCH": "PR-17",
    "GIT_COMMIT": _SHA,
}
_BUILDKITE = {
    "BUILDKITE_PULL_REQUEST": "17",
    "BUILDKITE_BRANCH": "topic",
    "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main",
    "BUILDKITE_COMMIT": _SHA,
}


@pytest.mark.parametrize("environ", [_GITHUB, _GITLAB, _JENKINS, _BUILDKITE])
def test_a_pull_request_is_known_on_each_system(environ: Mapping[str, str]) -> None:
    """Its number, its branch, the branch it is for, and its commit."""
    assert ci_pull_request(environ) == "17"
    assert ci_branch(environ) == "topic"
    assert ci_target(environ) == "main"
    assert ci_commit(environ) == _SHA


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"GITHUB_REF": "refs/heads/main", "GITHUB_BASE_REF": ""},
        {"BUILDKITE_PULL_REQUEST": "false", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": ""},
    ],
)
def test_a_push_is_no_pull_request(environ: Mapping[str, str]) -> None:
    """Empty variables, and Buildkite's ``false``, mean none."""
    assert ci_pull_request(environ) is None
    assert ci_target(environ) is None


def test_a_commit_that_is_no_id_is_none() -> None:
    """Buildkite says ``HEAD`` before it has checked out."""
    assert ci_commit({"BUILDKITE_COMMIT": "HEAD"}) is None


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """Three commits on ``main`` and two on ``topic``, which left it after the second; no CI around it."""
    without_ci(monkeypatch)
    made = make_repository(tmp_path / "work")
    made.commit("first")
    made.commit("second")
    made.git("checkout", "-b", "topic")
    made.commit("on topic")
    made.commit("more on topic")
    made.git("checkout", "main")
    made.commit("third")
    made.git("checkout", "topic")
    return made


def test_revisions_are_resolved(scratch: ScratchRepository) -> None:
    """Branches, abbreviations and relative names give the full id; what names no commit gives none."""
    git = Repository(scratch.path)
    second = scratch.git("rev-parse", "main~1")
    assert git.resolve("main~1") == git.resolve(second[:9]) == second
    assert git.resolve("no-such-branch") is None
    assert git.resolve("--git-dir") is None
    assert git.resolve("HEAD:file") is None


@pytest.mark.parametrize("name", ["ma\0in", "\ud800"])
def test_a_name_that_no_argument_can_be_names_nothing(scratch: ScratchRepository, name: str) -> None:
    """Runs of others may have recorded such a commit or branch."""
    git = Repository(scratch.path)
    assert git.resolve(name) is None
    assert git.merge_base(name, "main") is None
    with pytest.raises(UsageError, match="cannot be asked about such a name"):
        git.first_parents(name)


def test_the_merge_base_is_where_the_branches_left_each_other(scratch: ScratchRepository) -> None:
    """Commits without a common one have none."""
    git = Repository(scratch.path)
    assert git.merge_base("topic", "main") == scratch.git("rev-parse", "main~1")
    scratch.git("checkout", "--orphan", "other")
    scratch.commit("unrelated")
    assert git.merge_base("other", "main") is None


def test_first_parents_leave_merged_branches_out(scratch: ScratchRepository) -> None:
    """Nearest first, and no more than were asked for."""
    scratch.git("checkout", "main")
    scratch.git("merge", "--strategy=ours", "-m", "merge", "topic")
    git = Repository(scratch.path)
    expected = [scratch.git("rev-parse", name) for name in ("HEAD", "HEAD^1", "HEAD^1~1", "HEAD^1~2")]
    assert [parent.id for parent in git.first_parents(expected[0])] == expected
    assert [one.id for one in git.first_parents(expected[0], limit=1)] == expected[:2]
    assert git.first_parents(expected[0])[0].tree == scratch.git("rev-parse", "HEAD^{tree}")
    assert git.parents(expected[0]) == (expected[1], scratch.git("rev-parse", "topic"))
    assert git.parents(expected[-1]) == ()


def test_the_target_is_the_default_branch(scratch: ScratchRepository) -> None:
    """That of ``origin`` where there is one, else ``main`` or ``master``."""
    git = Repository(scratch.path)
    assert git.target() == "main"
    scratch.git("branch", "-m", "main", "trunk")
    assert git.target() is None
    scratch.git("update-ref", "refs/remotes/origin/trunk", "trunk")
    scratch.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    assert git.target() == "origin/trunk"


def test_ci_names_the_target(scratch: ScratchRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remote's branch before one of the same name here; for one that was not fetched the command, quoted."""
    git = Repository(scratch.path)
    monkeypatch.setenv("GITHUB_BASE_REF", "release")
    with pytest.raises(UsageError, match=r"(?s)'release'.*git fetch origin release"):
        git.target()
    for hostile in ("x;reboot", "$(reboot)", "x&y|z"):
        monkeypatch.setenv("GITHUB_BASE_REF", hostile)
        with pytest.raises(UsageError) as caught:
            git.target()
        wanted = f"{hostile}:refs/remotes/origin/{hostile}"
        assert shlex.split(caught.value.fix or "", posix=True) == ["git", "fetch", "origin", wanted]
        assert f"'{wanted}'" in (caught.value.fix or "")
    monkeypatch.setenv("GITHUB_BASE_REF", "release")
    scratch.git("branch", "release", "main")
    assert git.target() == "release"
    scratch.git("update-ref", "refs/remotes/origin/release", "main~1")
    assert git.target() == "origin/release"


def test_a_shallow_clone_says_so(scratch: ScratchRepository, tmp_path: Path) -> None:
    """A full one does not."""
    scratch.git("clone", "--depth=1", f"file://{scratch.path}", str(tmp_path / "shallow"))
    assert Repository(tmp_path / "shallow").is_shallow()
    assert not Repository(scratch.path).is_shallow()


def test_without_a_repository_git_s_words_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And without git, that."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match="not a git repository"):
        Repository(tmp_path).resolve("HEAD")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="git cannot be started"):
        Repository(tmp_path).resolve("HEAD")


def test_the_remote_names_its_main_branch(scratch: ScratchRepository) -> None:
    """Whatever branches of the usual names are here."""
    scratch.git("update-ref", "refs/remotes/up/trunk", "HEAD")
    scratch.git("symbolic-ref", "refs/remotes/up/HEAD", "refs/remotes/up/trunk")
    assert main_branch(scratch.path, "up") == "trunk"
    assert main_branch(scratch.path) == "main"


def test_without_a_remote_the_main_branch_has_a_usual_name(scratch: ScratchRepository) -> None:
    """An older repository has ``master``."""
    scratch.git("branch", "-m", "main", "master")
    assert main_branch(scratch.path) == "master"


def test_the_main_branch_may_be_the_only_one(tmp_path: Path) -> None:
    """Also before its first commit; outside of a repository it is called ``main``."""
    made = make_repository(tmp_path / "work")
    made.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    assert main_branch(made.path) == "trunk"
    made.commit("one")
    assert main_branch(made.path) == "trunk"
    assert main_branch(tmp_path) == "main"
