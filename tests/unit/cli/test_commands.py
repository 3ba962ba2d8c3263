"""The command line teaches, says what went wrong, and prints in one way, which foreign text cannot act upon."""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_quant.cli import commands, common, main
from pytest_quant.cli.common import existing_history, say, show_json
from pytest_quant.history import open_store
from pytest_quant.history.unfinished_runs import UnfinishedRun
from pytest_quant.record import to_json
from tests.support.commands import top_commands
from tests.unit.record.examples import RUN, a_pass

_LOADED = """
import sys
from click.testing import CliRunner
from pytest_quant.cli import commands
assert CliRunner().invoke(commands, ["--help"]).exit_code == 0
heavy = {"sqlalchemy", "numpy", "rich", "pytest", "onnx", "onnxruntime", "filelock", "msgspec", "psutil", "torch"}
heavy |= {"jinja2", "github", "gitlab"}
ours = {f"pytest_quant.{name}" for name in ("environment", "history", "init", "record", "report", "result")}
print(sorted((heavy | ours) & set(sys.modules)))
"""
_OF_COMMANDS = """
import sys
from click.testing import CliRunner
from pytest_quant.cli import commands
from tests.support.commands import all_commands
for name in all_commands():
    assert CliRunner().invoke(commands, [*name.split(), "--help"]).exit_code == 0
print(sorted({"sqlalchemy", "onnx", "onnxruntime", "openvino", "torch", "github", "gitlab"} & set(sys.modules)))
"""


def test_help_loads_nothing_heavy() -> None:
    """It comes at once."""
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_shows_every_command_on_one_screen() -> None:
    """A line each, within 80 columns and 24 lines, and a prompt below; each command's own help has its examples."""
    lines = CliRunner().invoke(commands, ["--help"], terminal_width=80).stdout.splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[lines.index("Commands:") + 1 :]] == list(top_commands())
    helps = {name: inspect.cleandoc(command.help or "") for name, command in top_commands().items()}
    assert [name for name, text in helps.items() if f"Examples:\n  pytest-quant {name}" not in text] == []


def test_help_of_a_command_loads_no_runtime_nor_database() -> None:
    """An extra may be missing, and its help comes all the same."""
    done = subprocess.run([sys.executable, "-c", _OF_COMMANDS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


WRONG = [
    (["histroy"], "there is no command 'histroy'", "allowed: did you mean 'history'?"),
    (["history", "--last", "0"], "invalid value for '--last'", "next: see: pytest-quant history list --help"),
    (["accept"], "missing option '--reason'", "next: see: pytest-quant accept --help"),
    (["cache", "clera"], "no such command 'clera'", "next: see: pytest-quant cache --help"),
    (["history"], "there is no history yet", "next: run tests with a quant mark first"),
    (["compare"], "there is no history yet", "next: run tests with a quant mark first"),
]


@pytest.mark.parametrize(("words", "what", "line"), WRONG, ids=lambda item: item[0] if isinstance(item, list) else None)
def test_what_goes_wrong_is_told_on_stderr(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
    what: str,
    line: str,
) -> None:
    """In one style, whoever found it: without a traceback or a usage line, exit 2, nothing on stdout."""
    (tmp_path / ".quant").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pytest-quant", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    output = capfd.readouterr()
    assert caught.value.code == 2
    assert output.out == ""
    first, *rest = output.err.splitlines()
    assert first.startswith("error: ")
    assert what in first
    assert any(each.startswith(f"  {line}") for each in rest), output.err
    assert not {"Traceback", "Usage"} & set(output.err.replace(":", " ").split())


def _environment(**variables: str) -> dict[str, str]:
    """A system without UTF-8, as a bare container has it."""
    return {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", **variables}


def test_the_module_is_the_command_and_prints_utf8_anywhere(tmp_path: Path) -> None:
    """Names of files and tests may have any letters; half of a surrogate pair is escaped."""
    command = [sys.executable, "-m", "pytest_quant", "history", "--history"]
    for name, shown in (("Prüfstand-试验.db", "Prüfstand-试验.db"), ("half\udcff.db", "half")):
        done = subprocess.run([*command, name], capture_output=True, env=_environment(), cwd=tmp_path, check=False)
        assert done.returncode == 2
        assert done.stderr.decode().startswith("error: ")
        assert shown in done.stderr.decode()
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(("no_color", "is_colored"), [("", True), ("1", False)])
def test_no_color_is_heeded(no_color: str, is_colored: bool) -> None:
    """See https://no-color.org: set and not empty, nothing is coloured, on a terminal neither."""
    terminal, end = os.openpty()
    command = [sys.executable, "-m", "pytest_quant", "histroy"]
    subprocess.run(command, stderr=end, env=_environment(NO_COLOR=no_color, TERM="xterm"), check=False)
    os.close(end)
    told = os.read(terminal, 4096)
    os.close(terminal)
    assert b"error: there is no command 'histroy'" in told
    assert (b"\x1b[" in told) is is_colored


_NASTY = "::error::a\x1b[2J\n##[command]https://me:s3cret@host/x"


def test_a_message_acts_upon_nothing_and_gives_nothing_away(capsys: pytest.CaptureFixture[str]) -> None:
    """On both streams."""
    say(_NASTY)
    say(_NASTY, err=True)
    clean = "\\x3a:error::a\\x1b[2J\n\\x23#[command]https://***@host/x\n"
    assert capsys.readouterr() == (clean, clean)


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
    unfinished = UnfinishedRun(place, tmp_path, RUN)
    unfinished.keep(to_json(a_pass()))
    unfinished.close(stored=False)
    monkeypatch.chdir(tmp_path)
    assert existing_history(None) == str(place)
    assert list(open_store(place).each_run()) == [(RUN, (a_pass(),))]
    assert capsys.readouterr() == (
        "",
        "1 check of 1 run that did not end well added to the history\n",
    )
