"""The command line teaches, and says what went wrong."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_quant.cli import commands, main

_LOADED = """
import sys
from click.testing import CliRunner
from pytest_quant.cli import commands
for command in ("--help", *(f"{name} --help" for name in commands.commands), "cache clear --help"):
    assert CliRunner().invoke(commands, command.split()).exit_code == 0
print(sorted({"sqlalchemy", "numpy", "rich", "pytest", "onnx", "onnxruntime", "filelock"} & set(sys.modules)))
"""


def test_help_loads_nothing_heavy() -> None:
    """It comes at once."""
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_shows_every_command_with_examples() -> None:
    """Each example starts with a command that exists."""
    text = CliRunner().invoke(commands, ["--help"]).stdout
    examples = [line.split() for line in text.splitlines() if line.startswith("    pytest-quant ")]
    assert {words[1] for words in examples} == set(commands.commands)


def test_the_version_is_the_package_s() -> None:
    """As pip knows it."""
    assert version("pytest-quant") in CliRunner().invoke(commands, ["--version"]).stdout


def test_an_unknown_command_is_a_usage_error() -> None:
    """Exit 2, as click and pytest have it apart from success."""
    assert CliRunner().invoke(commands, ["histroy"]).exit_code == 2


def test_what_goes_wrong_is_told_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A message without a traceback, exit 2, nothing on stdout."""
    monkeypatch.setattr(sys, "argv", ["pytest-quant", "import", str(tmp_path / "missing")])
    with pytest.raises(SystemExit) as caught:
        main()
    told = capfd.readouterr()
    assert caught.value.code == 2
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert "Traceback" not in told.err


def test_the_command_is_installed(tmp_path: Path) -> None:
    """In a process of its own, in a folder without a history: that is no error."""
    command = [sys.executable, "-c", "from pytest_quant.cli import main; main()", "history"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == ""
    assert "no history yet" in done.stderr
    assert list(tmp_path.iterdir()) == []
