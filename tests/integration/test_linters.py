"""The code passes each tool that a commit is checked with."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support.example import ROOT

HOOKS: list[dict[str, Any]] = [
    hook
    for repository in YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    for hook in repository["hooks"]
]


@pytest.mark.parametrize("hook", [pytest.param(hook, id=hook["id"]) for hook in HOOKS])
def test_the_code_passes(hook: dict[str, Any]) -> None:
    """Linters, format and types of all files, by the commands of `.pre-commit-config.yaml`."""
    python, *words = shlex.split(hook["entry"])
    assert python == "python"
    files = ["."] if hook.get("pass_filenames", True) else []
    done = subprocess.run(
        [sys.executable, *words, *files],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
