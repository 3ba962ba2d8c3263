"""The code under test, as git and the CI service have it, and how commits lie to each other."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path, PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.environment.revision import (
    GitState,
    Repository,
    are_apart,
    git_state,
    git_trouble,
    main_branch,
    parse_status,
    path_in_checkout,
)
from pytest_quant.errors import UsageError
from tests.support.repository import ScratchRepository, make_branches, make_repository, without_ci


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """A repository with one commit on ``main`` and no CI around it."""
    without_ci(monkeypatch)
    new_repository = make_repository(tmp_path)
    new_repository.commit("first")
    return new_repository


def test_the_state_is_that_of_the_checkout(repository: ScratchRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that git does not track makes nothing dirty; of a detached head CI's variable names the branch."""
    (repository.path / "untracked").write_text("x")
    commit = repository.git("rev-parse", "HEAD")
    assert git_state(repository.path) == GitState(commit, "main", dirty=False)
    (repository.path / "file").write_text("2")
    repository.git("checkout", "--detach")
    assert git_state(repository.path) == GitState(commit, None, dirty=True)
    monkeypatch.setenv("GITHUB_REF_NAME", "topic")
    assert git_state(repository.path) == GitState(commit, "topic", dirty=True)


@pytest.mark.parametrize(("oid", "commit"), [("abc", "abc"), ("(initial)", None)])
def test_a_checked_out_branch_wins_over_ci(oid: str, commit: str | None) -> None:
    """The variable is a guess, git's answer is not; before the first commit there is a branch too."""
    text = f"# branch.oid {oid}\n# branch.head main\n"
    assert parse_status(text, {"GITHUB_REF_NAME": "topic"}) == GitState(commit, "main", dirty=False)


def test_no_repository_and_no_git_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to use git is no fault, and one that does not answer in time is given up."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert (git_state(tmp_path), git_trouble(tmp_path)) == (None, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (git_state(tmp_path), git_trouble(tmp_path)) == (None, "")
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    slow.chmod(0o755)
    assert git_state(tmp_path, timeout_s=0.05) is None


def test_a_repository_of_another_user(repository: ScratchRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git refuses to read it, as in many containers; the line that lets it is told, and works."""
    for name, value in {
        "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(repository.path.parent / "gitconfig"),
    }.items():
        monkeypatch.setenv(name, value)
    below = repository.path / "a folder"
    below.mkdir()
    assert git_state(below) is None
    trouble = git_trouble(below)
    assert "dubious ownership" in trouble
    subprocess.run(shlex.split(trouble.rpartition("next: ")[2]), check=True)
    assert git_state(below) is not None
    assert git_trouble(below) == ""


def test_a_repository_that_cannot_be_read(repository: ScratchRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its head is damaged, which git takes for no repository; or an image has the checkout and no git."""
    (repository.path / ".git" / "HEAD").write_text("junk\n")
    assert git_state(repository.path) is None
    assert "not a git repository" in git_trouble(repository.path)
    monkeypatch.setenv("PATH", str(repository.path))
    assert git_trouble(repository.path).endswith("next: install git")


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """Three commits on ``main`` and two on ``topic``, which left it after the second; no CI around it."""
    without_ci(monkeypatch)
    return make_branches(tmp_path / "work", shared=2, topic=2, later=1)


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
    assert [each.id for each in git.first_parents(expected[0], limit=1)] == expected[:2]
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
    """Whatever branches of the usual names are here; without a remote it has one of these."""
    scratch.git("update-ref", "refs/remotes/up/trunk", "HEAD")
    scratch.git("symbolic-ref", "refs/remotes/up/HEAD", "refs/remotes/up/trunk")
    assert main_branch(scratch.path, "up") == "trunk"
    assert main_branch(scratch.path) == "main"
    scratch.git("branch", "-m", "main", "master")
    assert main_branch(scratch.path) == "master"


def test_the_main_branch_may_be_the_only_one(tmp_path: Path) -> None:
    """Also before its first commit; outside of a repository it is called ``main``."""
    new_repository = make_repository(tmp_path / "work")
    new_repository.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    assert main_branch(new_repository.path) == "trunk"
    new_repository.commit("one")
    assert main_branch(new_repository.path) == "trunk"
    assert main_branch(tmp_path) == "main"


def _checkout(path: Path, sign: str) -> Path:
    """Make a folder look like a checkout: of a clone, of a worktree or submodule, or like none."""
    (path / "a" / "tests").mkdir(parents=True)
    if sign == "folder":
        (path / ".git").mkdir()
    elif sign == "file":
        (path / ".git").write_text("gitdir: /elsewhere")
    return path


@pytest.mark.parametrize(("sign", "below"), [("folder", "a/tests"), ("file", "a/tests"), ("none", None)])
def test_a_folder_lies_below_the_top_of_its_checkout(tmp_path: Path, sign: str, below: str | None) -> None:
    """Whichever folder below is pytest's root, and whatever links lead to the checkout or to a folder of it."""
    top = _checkout(tmp_path / "top", sign)
    (tmp_path / "link").symlink_to(top)
    (tmp_path / "package").symlink_to(top / "a")
    wanted = None if below is None else PurePath(below)
    for reached in (top / "a", tmp_path / "link" / "a", tmp_path / "package"):
        for root in (reached, reached / "tests", reached.parent if reached.parent != tmp_path else reached):
            assert path_in_checkout(reached / "tests", root) == wanted, (reached, root)
    assert path_in_checkout(tmp_path, top) is None


def test_links_within_a_checkout_are_other_folders(tmp_path: Path) -> None:
    """Two links to one folder of tests, each beside a conftest.py of its own, are two suites."""
    top = _checkout(tmp_path, "folder")
    (top / "b").mkdir()
    (top / "b" / "tests").symlink_to(top / "a" / "tests")
    assert path_in_checkout(top / "b" / "tests", top) == PurePath("b/tests")
    assert path_in_checkout(top / "b" / "tests", top / "b") == PurePath("b/tests")


def test_a_checkout_within_another_is_one_of_its_own(tmp_path: Path) -> None:
    """A submodule: by pytest's root, whose commit a run has."""
    top = _checkout(tmp_path, "folder")
    inner = _checkout(top / "inner", "file")
    assert path_in_checkout(inner / "a", inner) == PurePath("a")
    assert path_in_checkout(inner / "a", top) == PurePath("inner/a")


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://user:s3cret@host.org/Org/repo.git", "host.org/org/repo"),
        ("git@host.org:org/repo.git", "host.org/org/repo"),
        ("ssh://git@host.org:22/org/repo", "host.org/org/repo"),
        ("https://oauth2:p@ss@host.org:8443/org/repo/?private_token=s3cret", "host.org/org/repo"),
        ("/srv/git/repo.git", "/srv/git/repo"),
        ("file:///srv/git/repo", "/srv/git/repo"),
        ("../repo", None),
    ],
)
def test_an_address_is_one_name_without_secrets(repository: ScratchRepository, address: str, name: str | None) -> None:
    """However it is written; a path that depends on where one is names nothing."""
    repository.git("remote", "add", "origin", address)
    assert Repository(repository.path).names() == (repository.git("rev-parse", "HEAD"), *([name] if name else []))


def test_a_repository_is_known_by_its_first_commit_and_its_address(
    repository: ScratchRepository, tmp_path: Path
) -> None:
    """So are a fork, and a clone without a remote; a shallow clone by its address alone; no repository by nothing."""
    first = repository.git("rev-parse", "HEAD")
    repository.commit("second")
    assert Repository(repository.path).names() == (first,)
    for name, words in (("fork", ()), ("shallow", ("--depth=1",))):
        repository.git("clone", *words, f"file://{repository.path}", str(tmp_path / name))
    ScratchRepository(tmp_path / "fork").git("remote", "set-url", "origin", "https://host/me/fork")
    fork, shallow, here = (
        Repository(path).names() for path in (tmp_path / "fork", tmp_path / "shallow", tmp_path.parent)
    )
    assert (fork, shallow, here) == ((first, "host/me/fork"), (str(repository.path).lower(),), ())
    other = make_repository(tmp_path / "other")
    other.commit("other")
    assert are_apart(Repository(other.path).names(), fork)
    assert not any(are_apart((first,), each) for each in (fork, shallow, here))


@given(*[st.sets(st.sampled_from(["1" * 40, "2" * 40, "host/a", "host/b"]))] * 2)
def test_repositories_are_apart_by_what_both_have(names: set[str], others: set[str]) -> None:
    """It does not matter which is asked first; what has no name, or shares one, is never another."""
    assert are_apart(names, others) == are_apart(others, names)
    if not names or names & others:
        assert not are_apart(names, others)
    if len(names) == len(others) == 4 or (names, others) == ({"1" * 40}, {"2" * 40}):
        assert are_apart(names, others) is (names != others)
