"""Everything that a command prints goes one way, which foreign text in it cannot act upon."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from pytest_quant.cli import echo
from pytest_quant.cli.echo import say, show, show_json

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
    module = Path(echo.__file__)
    found = [
        f"{path.name}:{node.lineno}"
        for path in sorted(module.parent.glob("*.py"))
        if path != module
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("click.echo", "click.secho", "print")
    ]
    assert found == []
