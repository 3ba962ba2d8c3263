"""The repository tells its forge and its target branch; what it cannot tell is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.init.checkout import Checkout, find_checkout, find_forge, host_of, is_in_lfs, is_kept_by_git
from tests.support.repository import make_repository


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://github.com/me/models.git", "github.com"),
        ("https://token:x@GitHub.example.org:8443/me/models", "github.example.org"),
        ("git@github.com:me/models.git", "github.com"),
        ("github-work:me/models.git", "github-work"),
        ("ssh://git@gitlab.example.org:2222/group/models.git", "gitlab.example.org"),
        ("git://gitlab.com/group/models", "gitlab.com"),
        ("/srv/git/github/models.git", ""),
        ("../models.git", ""),
        ("file:///srv/gitlab/models.git", ""),
        ("", ""),
    ],
)
def test_the_host_is_read_from_every_form_of_an_address(address: str, host: str) -> None:
    """As git writes them; a path has no host, whatever folders are called."""
    assert host_of(address) == host


@pytest.mark.parametrize(
    ("address", "forge"),
    [
        ("git@github.com:me/models.git", "github"),
        ("https://github.example.org/me/models", "github"),
        ("https://gitlab.com/group/models.git", "gitlab"),
        ("ssh://git@gitlab.example.org:2222/group/models.git", "gitlab"),
    ],
)
def test_the_host_names_the_forge(tmp_path: Path, address: str, forge: str) -> None:
    """Also that of a server of one's own."""
    assert find_forge(Checkout(tmp_path, address, "main")) == forge


@pytest.mark.parametrize(("sign", "forge"), [(".github/workflows", "github"), (".gitlab", "gitlab")])
def test_files_name_the_forge_where_the_host_does_not(tmp_path: Path, sign: str, forge: str) -> None:
    """A mirror has any address."""
    (tmp_path / sign).mkdir(parents=True)
    assert find_forge(Checkout(tmp_path, "https://code.example.org/models", "main")) == forge


@pytest.mark.parametrize(
    "address",
    ["", "https://me:secret@code.example.org/models.git", "/srv/github/models.git", "ssh://code.example.org/gitlab/m"],
)
def test_an_unknown_remote_is_told_with_both_ways_out(tmp_path: Path, address: str) -> None:
    """Its address is shown without the password; a folder that is called as a forge is none."""
    with pytest.raises(UsageError) as error:
        find_forge(Checkout(tmp_path, address, "main"))
    text = str(error.value)
    assert "--github" in text
    assert "--gitlab" in text
    assert "secret" not in text
    assert address.rpartition("@")[2].partition("//")[2] in text


def test_files_of_both_forges_tell_nothing(tmp_path: Path) -> None:
    """A guess would write the wrong one."""
    (tmp_path / ".github").mkdir()
    (tmp_path / ".gitlab-ci.yml").touch()
    with pytest.raises(UsageError, match="which forge"):
        find_forge(Checkout(tmp_path, "", "main"))


def test_outside_of_a_repository_git_is_named(tmp_path: Path) -> None:
    """With the command that makes one."""
    with pytest.raises(UsageError, match="git init"):
        find_checkout(tmp_path)


def test_a_folder_below_finds_the_top(tmp_path: Path) -> None:
    """Workflows lie there and nowhere else; the remote is ``origin``, else the only one."""
    made = make_repository(tmp_path / "models")
    (made.path / "a" / "b").mkdir(parents=True)
    made.git("remote", "add", "upstream", "git@gitlab.com:group/models.git")
    found = find_checkout(made.path / "a" / "b")
    assert found.root.samefile(made.path)
    assert found.remote == "git@gitlab.com:group/models.git"
    made.git("remote", "add", "fork", "git@github.com:me/models.git")
    assert find_checkout(made.path).remote == ""
    made.git("remote", "add", "origin", "git@github.com:them/models.git")
    assert find_checkout(made.path).remote == "git@github.com:them/models.git"


def test_the_target_branch_is_found(tmp_path: Path) -> None:
    """The one that is about to be made, the usual one among others, and the remote's own before all."""
    made = make_repository(tmp_path / "models")
    made.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    assert find_checkout(made.path).branch == "trunk"
    first = made.commit("one")
    made.git("branch", "master")
    assert find_checkout(made.path).branch == "master"
    made.git("update-ref", "refs/remotes/origin/develop", first)
    made.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/develop")
    assert find_checkout(made.path).branch == "develop"


def test_a_name_that_a_workflow_would_read_as_something_else_is_refused(tmp_path: Path) -> None:
    """Git takes quotes and dollars in the name of a branch."""
    made = make_repository(tmp_path / "models")
    made.git("symbolic-ref", "HEAD", 'refs/heads/a"$b')
    with pytest.raises(UsageError, match="target branch"):
        find_checkout(made.path)


def test_what_git_has_of_a_file_is_known(tmp_path: Path) -> None:
    """Whether a clone has it, and whether only a pointer to it."""
    made = make_repository(tmp_path / "models")
    (made.path / ".gitattributes").write_text("large/*.onnx filter=lfs\n")
    made.commit("one")
    assert is_kept_by_git(made.path, "file")
    assert not is_kept_by_git(made.path, "other")
    assert is_in_lfs(made.path, "large/net.onnx")
    assert not is_in_lfs(made.path, "net.onnx")
