"""``pytest-quant report``: which records become a page, and where it is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_quant.cli import commands
from pytest_quant.errors import UsageError
from pytest_quant.history import open_store
from tests.support.pages import figures_of, ladder, rich_record, words_of
from tests.support.repository import make_repository, without_ci
from tests.unit.record.examples import RUN, a_pass, unavailable


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without git, whose history has two runs."""
    store = open_store(tmp_path / ".quant" / "history.db")
    store.append(RUN, [a_pass()])
    later = replace(RUN, id="20260203T000000Z-bb", started_at="2026-02-03T00:00:00+00:00", branch="topic")
    store.append(later, [rich_record(), unavailable(), *ladder()])
    monkeypatch.chdir(tmp_path)
    without_ci(monkeypatch)
    return tmp_path


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["report", *arguments], catch_exceptions=False)


def test_without_a_name_the_last_run_is_shown(project: Path) -> None:
    """The file is named; there is no base without git, and the page says so."""
    said = _run("-o", "out.html").stdout
    assert "20260203T000000Z-bb" in said
    assert said.splitlines()[-1] == "written: out.html"
    html = (project / "out.html").read_text("utf-8")
    assert "topic" in words_of(html)
    assert "There is no base to compare with" in words_of(html)
    assert {one.check for one in figures_of(html)} >= {0, 2}


def test_one_file_holds_everything(project: Path) -> None:
    """Its folder is made."""
    assert _run("-o", "deep/page.html").stdout.splitlines()[-1] == "written: deep/page.html"
    assert [file.name for file in (project / "deep").iterdir()] == ["page.html"]
    assert 'data-series="series-0"' in (project / "deep" / "page.html").read_text("utf-8")


def test_a_run_is_named_by_the_beginning_of_its_id(project: Path) -> None:
    """Then it is the one that is shown."""
    _run(RUN.id[:12], "-o", "out.html")
    assert {figure.check for figure in figures_of((project / "out.html").read_text("utf-8"))} == {0}


def test_two_runs_are_compared(project: Path) -> None:
    """The first is the base; figures of the comparison are those of both records."""
    _run(f"{RUN.id[:12]}..20260203T0", "-o", "page.html")
    html = (project / "page.html").read_text("utf-8")
    assert "There is no base" not in words_of(html)
    assert "(main, 1 launch)" in words_of(html)
    assert "(topic, 1 launch)" in words_of(html)


def test_commits_are_compared_with_their_merge_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `pytest-quant compare` finds it."""
    without_ci(monkeypatch)
    repository = make_repository(tmp_path / "repository")
    monkeypatch.chdir(repository.path)
    store = open_store(repository.path / ".quant" / "history.db")
    base, head = repository.commit("one"), repository.commit("two")
    for number, (commit, record) in enumerate(((base, a_pass()), (head, rich_record("test_int8")))):
        run = replace(RUN, id=f"2026010{number + 1}T000000Z-{number}", commit=commit, branch="main")
        store.append(run, [replace(record, nodeid="tests/test_digits.py::test_int8", series=rich_record().series)])
    _run("-o", "page.html")
    said = words_of((repository.path / "page.html").read_text("utf-8"))
    assert base[:12] in said
    assert head[:12] in said
    assert "There is no base" not in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a...b", "-o", "out.html"), "three dots"),
        (("20250101T0000", "-o", "out.html"), "there is no run"),
    ],
)
def test_what_cannot_be_drawn_is_told(project: Path, arguments: tuple[str, ...], message: str) -> None:
    """With what to write in its place; nothing is written."""
    with pytest.raises(UsageError, match=message):
        _run(*arguments)
    assert {file.name for file in project.iterdir()} == {".quant"}


def test_a_place_that_cannot_be_written_is_told(project: Path) -> None:
    """With the next step."""
    (project / "file").touch()
    with pytest.raises(UsageError, match="the page cannot be written") as told:
        _run("-o", "file/page.html")
    assert "writable folder" in (told.value.fix or "")


def test_a_folder_is_no_page(project: Path) -> None:
    """It is told before the history is read."""
    (project / "report").mkdir()
    told = _run("-o", "report")
    assert told.exit_code == 2
    assert "'report' is a directory" in told.stderr
