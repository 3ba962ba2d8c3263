"""Everything that a command prints goes one way, which foreign text in it cannot act upon; the history is found."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from pytest_quant.cli import common
from pytest_quant.cli.common import existing_history, say, show, show_json
from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store
from pytest_quant.history.unfinished_runs import UnfinishedRun
from pytest_quant.record import to_json
from tests.unit.record.examples import RUN, a_pass

_NASTY = "::error::a\x1b[2J\n##[command]https://me:s3cret@host/x"


def test_a_message_acts_upon_nothing_and_gives_nothing_away(capsys: pytest.CaptureFixture[str]) -> None:
    """On both streams."""
    say(_NASTY)
    say(_NASTY, err=True)
    clean = "\\x3a:error::a\\x1b[2J\n\\x23#[command]https://***@host/x\n"
    assert capsys.readouterr() == (clean, clean)


def test_a_report_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """No line of it is a command; styles go where the output is no terminal."""
    show("a \x1b[31mFAIL\x1b[0m\n  ::error::b")
    assert capsys.readouterr().out == "a FAIL\n  \\x3a:error::b\n"


@pytest.mark.parametrize("indent", [None, 1])
def test_a_document_is_the_same_for_programs(capsys: pytest.CaptureFixture[str], indent: int | None) -> None:
    """What JSON leaves as it is but a CI service reads is escaped as JSON does."""
    document = {"::error::": ["###[error]x\x1b\u202e", "##vso[a]", "#", "##"]}
    show_json(document, indent=indent)
    written = capsys.readouterr().out
    assert json.loads(written) == document
    assert "##" not in written
    assert written.rstrip("\n").replace("\n", "").isprintable()


def test_no_command_prints_by_itself() -> None:
    """Neither by click nor by Python: `say`, `show` and `show_json` are there for all of them."""
    module = Path(common.__file__)
    printing = [
        f"{path.name}:{node.lineno}"
        for path in sorted(module.parent.glob("*.py"))
        if path != module
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("click.echo", "click.secho", "print")
    ]
    assert printing == []


def test_what_a_killed_run_had_finished_is_in_the_history_that_a_command_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was the first run, so that there was no history yet; what the command prints stays apart from the note."""
    place = tmp_path / ".quant" / "history.db"
    kept = UnfinishedRun(place, tmp_path, RUN)
    kept.keep(to_json(a_pass()))
    kept.close(stored=False)
    monkeypatch.chdir(tmp_path)
    assert existing_history(None) == str(place)
    assert list(open_store(place).each_run()) == [(RUN, (a_pass(),))]
    assert capsys.readouterr() == (
        "",
        "1 check of 1 run that did not end well added to the history\n",
    )


def test_a_file_that_cannot_be_looked_at_is_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is longer than the system allows, as one that a variable or a script made by mistake."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HistoryError, match="cannot be opened"):
        existing_history("x" * 300)
