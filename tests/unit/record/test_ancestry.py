"""A run knows where its code comes from and where it is to go."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.record import start_run
from pytest_quant.record.run import Ancestry, ancestry
from tests.support.repository import make_repository, without_ci

_SHA = "f" * 40


def test_git_tells_parents_and_merge_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch in a pull request: its number comes from CI, all else from git."""
    without_ci(monkeypatch)
    made = make_repository(tmp_path)
    first = made.commit("first")
    made.git("update-ref", "refs/remotes/origin/main", first)
    made.git("checkout", "-b", "topic")
    second, third = made.commit("second"), made.commit("third")
    monkeypatch.setenv("GITHUB_REF", "refs/pull/8/merge")
    monkeypatch.setenv("GITHUB_SHA", _SHA)
    tree = made.git("rev-parse", "HEAD^{tree}")
    expected = Ancestry(third, "topic", False, (second,), first, "main", "8", tree)
    assert ancestry(tmp_path) == expected
    run = start_run(tmp_path)
    assert (run.commit, run.parents, run.merge_base) == (third, (second,), first)
    assert (run.target, run.pull_request, run.tree) == ("main", "8", tree)


def test_uncommitted_changes_are_no_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree of the commit is not what was run."""
    without_ci(monkeypatch)
    made = make_repository(tmp_path)
    made.commit("first")
    (tmp_path / "file").write_text("changed")
    assert ancestry(tmp_path).tree is None


def test_ci_tells_what_git_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without a repository, as a container may be given them."""
    without_ci(monkeypatch)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert ancestry(tmp_path) == Ancestry(None, None, dirty=False)
    monkeypatch.setenv("CI_COMMIT_SHA", _SHA)
    monkeypatch.setenv("CI_COMMIT_REF_NAME", "topic")
    monkeypatch.setenv("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main")
    monkeypatch.setenv("CI_MERGE_REQUEST_IID", "3")
    assert ancestry(tmp_path) == Ancestry(_SHA, "topic", False, target="main", pull_request="3")


def test_a_target_that_was_not_fetched_stops_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CI's name of it is kept, the merge base is not known."""
    without_ci(monkeypatch)
    made = make_repository(tmp_path)
    first = made.commit("first")
    monkeypatch.setenv("CHANGE_TARGET", "release")
    tree = made.git("rev-parse", "HEAD^{tree}")
    assert ancestry(tmp_path) == Ancestry(first, "main", False, target="release", tree=tree)


def test_a_repository_without_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a branch and nothing to compare with."""
    without_ci(monkeypatch)
    make_repository(tmp_path)
    assert ancestry(tmp_path) == Ancestry(None, "main", dirty=False)
