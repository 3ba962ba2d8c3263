"""The base of a run is a commit that git has here, or the message says how to bring it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.environment import Repository
from pytest_quant.errors import UsageError
from pytest_quant.sides.base_commit import find_base, find_commit
from tests.support.repository import ScratchRepository, make_repository, without_ci


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """A repository with two commits on ``main`` and one on ``topic``, which is checked out."""
    without_ci(monkeypatch)
    made = make_repository(tmp_path / "repository")
    made.commit("first")
    made.git("checkout", "-q", "-b", "topic")
    made.commit("mine")
    made.git("checkout", "-q", "main")
    made.commit("second")
    made.git("checkout", "-q", "topic")
    return made


def test_without_a_revision_it_is_the_merge_base(scratch: ScratchRepository) -> None:
    """Whatever has happened on the target branch since."""
    commit, named = find_base(Repository(scratch.path), None, dirty=False)
    assert commit == scratch.git("merge-base", "main", "topic")
    assert named == f"base {commit[:12]}: merge base with main"


def test_on_the_target_branch_it_is_the_commit_before_or_with_changes_the_commit_itself(
    scratch: ScratchRepository,
) -> None:
    """Otherwise a commit would be compared with itself."""
    scratch.git("checkout", "-q", "main")
    for dirty, revision in ((False, "HEAD~1"), (True, "HEAD")):
        assert find_base(Repository(scratch.path), None, dirty=dirty)[0] == scratch.git("rev-parse", revision)


def test_any_name_of_a_commit_will_do(scratch: ScratchRepository) -> None:
    """With a detached head too, and the head itself among them."""
    scratch.git("checkout", "-q", "--detach")
    for name in ("main", "HEAD", "main~1", scratch.git("rev-parse", "main")):
        assert find_base(Repository(scratch.path), name, dirty=False)[0] == scratch.git("rev-parse", name)


@pytest.mark.parametrize(
    ("revision", "fix"),
    [
        ("a" * 40, f"git fetch origin {'a' * 40}"),
        ("later", "git fetch origin later:refs/remotes/origin/later, and name origin/later"),
        ("origin/it's", """git fetch origin 'it'"'"'s:refs/remotes/origin/it'"'"'s', and name origin/it's"""),
        ("HEAD~9", "git fetch origin; 'git log' shows what is here"),
    ],
)
def test_what_is_not_here_is_fetched(scratch: ScratchRepository, revision: str, fix: str) -> None:
    """The message has the command."""
    with pytest.raises(UsageError, match="no such commit") as error:
        find_commit(Repository(scratch.path), revision)
    assert error.value.fix == fix


@pytest.mark.parametrize(
    ("revision", "fix"),
    [
        ("b" * 40, f"git fetch --depth=1 origin {'b' * 40}"),
        ("HEAD~2", "git fetch --deepen=2 origin"),
        ("HEAD^^", "git fetch --deepen=2 origin"),
        ("v1^{}", "git fetch --unshallow origin"),
    ],
)
def test_a_shallow_clone_fetches_no_more_than_it_needs(
    scratch: ScratchRepository, tmp_path: Path, revision: str, fix: str
) -> None:
    """One commit, or as many as lie between."""
    scratch.git("clone", "-q", "--depth=1", f"file://{scratch.path}", str(tmp_path / "clone"))
    with pytest.raises(UsageError) as error:
        find_commit(Repository(tmp_path / "clone"), revision)
    assert error.value.fix == fix


def test_no_merge_base_says_to_name_the_base(scratch: ScratchRepository) -> None:
    """As in a fork whose history was cut off."""
    scratch.git("checkout", "-q", "--orphan", "alone")
    scratch.commit("alone")
    with pytest.raises(UsageError) as error:
        find_base(Repository(scratch.path), None, dirty=False)
    assert error.value.fix == "name the base, for example: --quant-against=HEAD~1"
