"""A comparison starts from the merge base, or the nearest commit before it that has records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.environment.revision import Committed, Repository
from pytest_quant.errors import UsageError
from pytest_quant.history.merge_base import ChosenBase, base_to_run, records_of, select_base
from pytest_quant.history.rows import StoredCheck
from tests.support.repository import ScratchRepository, make_branches, make_repository, without_ci
from tests.unit.history.in_memory import InMemory
from tests.unit.record.examples import RUN, a_pass


def _having(*commits: str) -> Callable[[Sequence[str]], set[str]]:
    return lambda candidates: set(commits) & set(candidates)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """Four commits on ``main`` and one on ``topic``, which left it after the third and is checked out."""
    without_ci(monkeypatch)
    return make_branches(tmp_path / "work", shared=3, later=1)


def test_the_merge_base_is_the_base(scratch: ScratchRepository) -> None:
    """Not the tip of the target branch, whose later work is none of ours."""
    fork, tip = (scratch.git("rev-parse", name) for name in ("main~1", "main"))
    assert select_base(_having(fork, tip), Repository(scratch.path)) == ChosenBase(fork, fork, "merge base with main")


def test_without_records_there_the_nearest_before_it_is(scratch: ScratchRepository) -> None:
    """The distance is told."""
    fork, first = (scratch.git("rev-parse", name) for name in ("main~1", "main~3"))
    result = select_base(_having(first), Repository(scratch.path))
    assert result == ChosenBase(first, fork, "merge base with main", distance=2)
    assert (
        str(result)
        == f"base {first[:12]}: 2 first parents below {fork[:12]} (merge base with main), which has no records"
    )


def test_a_named_base_is_looked_for_in_the_same_way(scratch: ScratchRepository) -> None:
    """A tag without records is not silently another commit."""
    scratch.git("tag", "v1", "main~2")
    tagged, first = (scratch.git("rev-parse", name) for name in ("v1", "main~3"))
    assert select_base(_having(first), Repository(scratch.path), "v1") == ChosenBase(first, tagged, "v1", distance=1)


def test_a_commit_is_found_by_its_tree(scratch: ScratchRepository) -> None:
    """Its content was run as another commit, which an amended or a squashed one replaced."""
    fork, tree = (scratch.git("rev-parse", name) for name in ("main~1", "main~1^{tree}"))
    result = select_base(_having(tree), Repository(scratch.path))
    assert result == ChosenBase(fork, fork, "merge base with main")
    assert result.committed == Committed(fork, tree)


def _run(number: int, commit: str, tree: str | None) -> StoredCheck:
    return StoredCheck(replace(RUN, id=str(number), commit=commit, tree=tree), a_pass())


def test_records_of_a_commit_are_those_of_its_content() -> None:
    """Beside a commit with the same content each has its own, as far as it has any."""
    runs = (_run(1, "old", "t"), _run(2, "new", "t"), _run(3, "other", "u"), _run(4, "older", None))
    result = [each.run.id for each in records_of(InMemory(runs), Committed("new", "t"), Committed("other", "u"))]
    assert result == ["1", "2"]
    beside = Committed("old", "t")
    assert [each.run.id for each in records_of(InMemory(runs), Committed("new", "t"), beside)] == ["2"]
    assert [each.run.id for each in records_of(InMemory(runs), Committed("newest", "t"), beside)] == ["1", "2"]
    assert [each.run.id for each in records_of(InMemory(runs), Committed("older"), beside)] == ["4"]


def test_no_records_anywhere_is_no_base(scratch: ScratchRepository) -> None:
    """It says how far it looked, where it looked further than at one commit."""
    fork, first = (scratch.git("rev-parse", name)[:12] for name in ("main~1", "main~3"))
    said = [str(select_base(_having(), Repository(scratch.path), base)) for base in (None, "main~3")]
    assert said == [
        f"no base: there are no records of {fork} (merge base with main) and 2 first parents below it",
        f"no base: there are no records of {first} (main~3)",
    ]


def test_on_the_target_branch_the_commit_before_is_the_base(scratch: ScratchRepository) -> None:
    """Nobody wants to compare a commit with itself."""
    scratch.git("checkout", "main")
    tip, before = (scratch.git("rev-parse", name) for name in ("main", "main~1"))
    result = select_base(_having(tip, before), Repository(scratch.path))
    assert result.commit == before
    assert result.start_name == f"the commit before {tip[:12]}, which is on main"
    dirty = select_base(_having(tip), Repository(scratch.path), dirty=True)
    assert dirty == ChosenBase(tip, tip, "merge base with main"), "what is not committed is what is new"


def test_a_shallow_clone_names_the_fix(
    scratch: ScratchRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the merge base was not fetched, where it has no records, and where the target was not."""
    shallow = tmp_path / "shallow"
    scratch.git("clone", "--depth=1", "--no-single-branch", f"file://{scratch.path}", str(shallow))
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    with pytest.raises(UsageError, match=r"(?s)no common commit here.*git fetch --unshallow"):
        select_base(_having(), Repository(shallow))
    result = select_base(_having(), Repository(shallow), "HEAD")
    assert "git fetch --unshallow" in str(result)
    with pytest.raises(UsageError, match=r"(?s)git knows no such commit.*git fetch --depth=1 origin v1:"):
        select_base(_having(), Repository(shallow), "v1")


def _shallow(scratch: ScratchRepository, path: Path, *arguments: str) -> Repository:
    scratch.git("clone", "--depth=1", *arguments, f"file://{scratch.path}", str(path))
    return Repository(path)


def test_a_clone_of_one_commit_knows_the_parent_that_the_commit_names(
    scratch: ScratchRepository, tmp_path: Path
) -> None:
    """On the target branch, where its records are in the history; without any the way to more commits is told."""
    tip, before = (scratch.git("rev-parse", name) for name in ("main", "main~1"))
    git = _shallow(scratch, tmp_path / "shallow", "--branch=main")
    assert git.parents(tip) == (before,)
    result = select_base(_having(before), git)
    assert result == ChosenBase(before, before, f"the commit before {tip[:12]}, which is on origin/main")
    hint = select_base(_having(), git).hint
    assert "git fetch --unshallow" in hint
    assert select_base(_having(before), git, "HEAD") == ChosenBase(before, tip, "HEAD", 1, hint)


def test_a_clone_of_a_merge_commit_is_compared_with_its_first_parent(
    scratch: ScratchRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CI tests that commit of a pull request; its target is not fetched."""
    target = scratch.git("rev-parse", "main")
    scratch.git("checkout", "-b", "pull", "main")
    scratch.git("merge", "--strategy=ours", "-m", "merge", "topic")
    git = _shallow(scratch, tmp_path / "shallow", "--branch=pull")
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    tip = scratch.git("rev-parse", "pull")
    result = select_base(_having(target), git)
    assert result.commit == target
    assert result.start_name == f"the first parent of {tip[:12]}, for the merge base is not in this shallow clone"
    with pytest.raises(UsageError, match="that branch is not here"):
        select_base(_having(), git)


def test_a_commit_that_was_not_fetched_is_known_by_its_full_id(scratch: ScratchRepository, tmp_path: Path) -> None:
    """Where the history has records of it; else git's answer stands."""
    first = scratch.git("rev-parse", "main~3")
    git = _shallow(scratch, tmp_path / "shallow", "--branch=main")
    assert select_base(_having(first), git, first) == ChosenBase(first, first, first)
    for unknown in (first[:12], "f" * 40):
        with pytest.raises(UsageError, match="git knows no such commit"):
            select_base(_having(first), git, unknown)


def test_a_base_further_back_in_a_shallow_clone_carries_the_hint(scratch: ScratchRepository, tmp_path: Path) -> None:
    """A nearer one has none: nothing that was not fetched could be nearer than itself."""
    shallow = tmp_path / "shallow"
    scratch.git("clone", "--depth=2", f"file://{scratch.path}", str(shallow))
    fork, tip = (scratch.git("rev-parse", name) for name in ("topic~1", "topic"))
    assert "git fetch --unshallow" in str(select_base(_having(fork), Repository(shallow), "HEAD"))
    assert select_base(_having(fork, tip), Repository(shallow), "HEAD").hint == ""


def test_a_first_commit_has_nothing_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is said, and what to do."""
    without_ci(monkeypatch)
    repository = make_repository(tmp_path)
    repository.commit("only")
    with pytest.raises(UsageError, match="no commit before it"):
        select_base(_having(), Repository(tmp_path))


def test_without_a_target_branch_the_base_is_to_be_named(scratch: ScratchRepository) -> None:
    """Nothing is guessed."""
    scratch.git("branch", "-m", "main", "trunk")
    with pytest.raises(UsageError, match="no branch to compare with"):
        select_base(_having(), Repository(scratch.path))


_LONG = "a" * 5000
_QUOTED = """'it'"'"'s:refs/remotes/origin/it'"'"'s'"""
_HERE = "git branch -a lists those that are here"
_THEN = " brings another, then called origin/"
FETCHED = [
    (False, "a" * 40, f"git fetch origin {'a' * 40}"),
    (False, "origin/it's", f"{_HERE}; git fetch origin {_QUOTED}{_THEN}it's"),
    (False, _LONG, f"{_HERE}; git fetch origin {_LONG}:refs/remotes/origin/{_LONG}{_THEN}{_LONG}"),
    (False, "mian", f"did you mean main? {_HERE}; git fetch origin mian:refs/remotes/origin/mian{_THEN}mian"),
    (False, "HEAD~9", "git fetch origin; 'git log' shows what is here"),
    (True, "b" * 40, f"git fetch --depth=1 origin {'b' * 40}"),
    (True, "HEAD~2", "git fetch --unshallow origin"),
]  # fmt: skip


@pytest.mark.parametrize(("shallow", "revision", "fix"), FETCHED)
def test_what_git_does_not_have_is_fetched(
    scratch: ScratchRepository, tmp_path: Path, shallow: bool, revision: str, fix: str
) -> None:
    """The message has the command; a shallow clone fetches one commit, or as many as lie between."""
    git = _shallow(scratch, tmp_path / "clone") if shallow else Repository(scratch.path)
    if not shallow:
        scratch.git("remote", "add", "origin", "elsewhere")
    with pytest.raises(UsageError, match="no such commit") as error:
        base_to_run(git, revision, dirty=False)
    assert error.value.fix == fix


def test_without_a_remote_nothing_is_fetched(scratch: ScratchRepository, tmp_path: Path) -> None:
    """What is here is listed; in a repository without a commit the first one is missing."""
    with pytest.raises(UsageError) as error:
        base_to_run(Repository(scratch.path), "mian", dirty=False)
    assert error.value.fix == "did you mean main? git branch -a lists those that are here"
    empty = make_repository(tmp_path / "empty")
    with pytest.raises(UsageError) as error:
        base_to_run(Repository(empty.path), "HEAD", dirty=False)
    assert error.value.what == "there is no commit yet: make the first one and run again"
    assert error.value.fix == "git add and git commit"


def test_no_merge_base_says_to_name_the_base(scratch: ScratchRepository) -> None:
    """As in a fork whose history was cut off."""
    scratch.git("checkout", "-q", "--orphan", "alone")
    scratch.commit("alone")
    with pytest.raises(UsageError) as error:
        base_to_run(Repository(scratch.path), None, dirty=False)
    # Not the commit before, which there is none of here.
    assert error.value.fix == "name the base, for example: --quant-against=main"
    commit, line = base_to_run(Repository(scratch.path), error.value.fix.rpartition("=")[2], dirty=False)
    assert (commit, line) == (scratch.git("rev-parse", "main"), f"base {commit[:12]}: main")
