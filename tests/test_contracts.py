"""Style, types and layers are part of the one test command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
COMMANDS = {
    "ruff check": ["-m", "ruff", "check", "."],
    "ruff format": ["-m", "ruff", "format", "--check", "."],
    "mypy": ["-m", "mypy"],
    "layers": ["-c", LINT_IMPORTS],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_contract_is_kept(name: str) -> None:
    """The tool finds nothing; what it finds is the message."""
    result = subprocess.run([sys.executable, *COMMANDS[name]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_hooks_run_the_same_tools() -> None:
    """What a commit is checked with is what this file checks, by the same names; layers are left to the tests."""
    text = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    names = re.findall(r"^ +name: (.+)$", text, re.MULTILINE)
    entries = [entry.split() for entry in re.findall(r"^ +entry: python (.+)$", text, re.MULTILINE)]
    assert names == [name for name in COMMANDS if name != "layers"]
    for name, entry in zip(names, entries, strict=True):
        # Hooks hand over the files that changed, and the option keeps those out that the configuration leaves out.
        assert [word for word in entry if word != "--force-exclude"] == [word for word in COMMANDS[name] if word != "."]


def test_nothing_is_downloaded_for_a_hook() -> None:
    """Every hook is a tool that is installed already."""
    text = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    assert re.findall(r"repo: (.+)$", text, re.MULTILINE) == ["local"]
    assert set(re.findall(r"language: (.+)$", text, re.MULTILINE)) == {"system"}
