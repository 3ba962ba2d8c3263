"""How commits lie to each other is git's own answer."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pytest_quant.environment import Repository
from pytest_quant.environment.revision import main_branch
from pytest_quant.errors import UsageError
from tests.support.repository import ScratchRepository, make_repository, without_ci


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
    assert [one.id for one in git.first_parents(expected[0])] == expected
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
