"""Where the history is, and which branch is the main one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.cli.places import existing_history, main_branch
from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store
from pytest_quant.history.unfinished_runs import Journal
from pytest_quant.record import to_json
from tests.support.repository import make_repository
from tests.unit.record.examples import RUN, a_pass


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


def test_what_a_killed_run_had_finished_is_in_the_history_that_a_command_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was the first run, so that there was no history yet; what the command prints stays apart from the note."""
    place = tmp_path / ".quant" / "history.db"
    kept = Journal(place, tmp_path, RUN)
    kept.keep(to_json(a_pass()))
    kept.close(stored=False)
    monkeypatch.chdir(tmp_path)
    assert existing_history(None) == str(place)
    assert list(open_store(place).each_run()) == [(RUN, (a_pass(),))]
    assert capsys.readouterr() == (
        "",
        "1 finished check of 1 run that was killed has been added to the history\n",
    )


def test_a_file_that_cannot_be_looked_at_is_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is longer than the system allows, as one that a variable or a script made by mistake."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HistoryError, match="cannot be opened"):
        existing_history("x" * 300)
