"""The command line teaches, and says what went wrong."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_quant.cli import commands, main
from tests.support.commands import top_commands

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


def test_help_shows_every_command_with_examples() -> None:
    """Each example starts with a command that exists."""
    text = CliRunner().invoke(commands, ["--help"]).stdout
    examples = [line.split() for line in text.splitlines() if line.startswith("    pytest-quant ")]
    assert {words[1] for words in examples} == set(top_commands())


def test_help_of_a_command_loads_no_runtime_nor_database() -> None:
    """An extra may be missing, and its help comes all the same."""
    done = subprocess.run([sys.executable, "-c", _OF_COMMANDS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_list_has_every_command_in_order() -> None:
    """It is written without the modules of the commands."""
    lines = CliRunner().invoke(commands, ["--help"]).stdout.partition("\nCommands:\n")[2].splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert listed == sorted(top_commands())


def test_the_version_is_the_package_s() -> None:
    """As pip knows it."""
    assert version("pytest-quant") in CliRunner().invoke(commands, ["--version"]).stdout


WRONG = [
    (["histroy"], "there is no command 'histroy'", "allowed: did you mean 'history'?"),
    (["history", "--lsat", "1"], "no such option", "next: see: pytest-quant history list --help"),
    (["history", "--last", "0"], "invalid value for '--last'", "next: see: pytest-quant history list --help"),
    (["accept"], "missing option '--reason'", "next: see: pytest-quant accept --help"),
    (["cache", "clera"], "no such command 'clera'", "next: see: pytest-quant cache --help"),
    (["history", "import", "missing"], "missing", "next: "),
    (["history"], "there is no history yet", "next: run tests with a quant mark first"),
    (["history", "resnet"], "there is no history yet", "next: run tests with a quant mark first"),
    (["compare"], "there is no history yet", "next: run tests with a quant mark first"),
]


@pytest.mark.parametrize(("words", "what", "line"), WRONG, ids=lambda one: one[0] if isinstance(one, list) else None)
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
    told = capfd.readouterr()
    assert caught.value.code == 2
    assert told.out == ""
    first, *rest = told.err.splitlines()
    assert first.startswith("error: ")
    assert what in first
    assert any(one.startswith(f"  {line}") for one in rest), told.err
    assert not {"Traceback", "Usage"} & set(told.err.replace(":", " ").split())


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["--version"], ["history", "--help"]])
def test_help_is_no_error(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: list[str]) -> None:
    """Exit 0 and all of it on stdout; no words at all ask for help."""
    monkeypatch.setattr(sys, "argv", ["pytest-quant", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    told = capfd.readouterr()
    assert not caught.value.code
    assert told.out
    assert told.err == ""


def test_the_command_is_installed(tmp_path: Path) -> None:
    """In a process of its own, in a project without a history: exit 2 as of every command that reads one."""
    (tmp_path / ".quant").mkdir()
    command = [sys.executable, "-c", "from pytest_quant.cli import main; main()", "history"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no history yet" in done.stderr
    assert list(tmp_path.rglob("*")) == [tmp_path / ".quant"]
