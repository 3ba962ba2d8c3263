"""The main branch is the remote's own, else the usual name that is here."""

from __future__ import annotations

from pathlib import Path

from pytest_quant.cli.places import main_branch
from tests.support.repository import make_repository


def test_the_remote_tells_its_main_branch(tmp_path: Path) -> None:
    """Whatever branches of the usual names are here."""
    scratch = make_repository(tmp_path / "repository")
    first = scratch.commit("one")
    scratch.git("update-ref", "refs/remotes/origin/trunk", first)
    scratch.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    assert main_branch(scratch.path) == "trunk"


def test_without_a_remote_it_is_the_usual_name_that_is_here(tmp_path: Path) -> None:
    """An older repository has ``master``."""
    scratch = make_repository(tmp_path / "repository")
    scratch.commit("one")
    assert main_branch(scratch.path) == "main"
    scratch.git("branch", "-m", "master")
    assert main_branch(scratch.path) == "master"


def test_without_a_repository_it_is_main(tmp_path: Path) -> None:
    """A history may be read anywhere."""
    assert main_branch(tmp_path) == "main"
