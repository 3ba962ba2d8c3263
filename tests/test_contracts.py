"""Layers are kept, and what linters pass over has a reason."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from pytest_quant.backends import GROUP

ROOT = Path(__file__).parents[1]
LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"


def test_the_layers_are_kept() -> None:
    """No import goes up; what the tool finds is the message."""
    result = subprocess.run([sys.executable, "-c", LINT_IMPORTS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_what_bandit_is_told_to_pass_over_has_a_reason() -> None:
    """Each such line names the one rule it breaks, for both tools that have it, and why that is right there."""
    lines = [line for file in (ROOT / "pytest_quant").rglob("*.py") for line in file.read_text("utf-8").splitlines()]
    passed_over = [line for line in lines if "# nosec" in line]
    assert passed_over
    assert [line for line in passed_over if not re.search(r"# nosec B(\d{3}) # noqa: S\1 - \w+ \w+", line)] == []


def test_nothing_is_downloaded_for_a_hook() -> None:
    """Every hook is a tool that is installed already."""
    text = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    assert re.findall(r"repo: (.+)$", text, re.MULTILINE) == ["local"]
    assert set(re.findall(r"language: (.+)$", text, re.MULTILINE)) == {"system"}


NAMED_ELSEWHERE = {
    "environment/machine.py": "distributions whose versions are recorded, some of which are called as a backend is",
    "metrics/metric.py": "the module that the user's torchmetrics object has imported",
    "plugin/settings.py": "the default of the ini option",
}
"""Modules outside `backends` that hold the name of a backend, and why."""


def test_the_core_names_no_backend() -> None:
    """It asks a backend what it can do, and never which one it is: another one can do the same."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = set(project["entry-points"][GROUP])
    package = ROOT / "pytest_quant"
    modules = {file.relative_to(package).as_posix(): file for file in package.rglob("*.py")}
    naming = {
        place: sorted(names.intersection(_strings_of(file)))
        for place, file in modules.items()
        if not place.startswith("backends/")
    }
    assert {place: result for place, result in naming.items() if result and place not in NAMED_ELSEWHERE} == {}
    assert [place for place in NAMED_ELSEWHERE if not naming[place]] == []


def _strings_of(file: Path) -> Iterator[str]:
    """Yield the string constants of a module, and the packages of `backends` that it imports by name."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_quant.backends."):
            yield str(node.module).split(".")[2]


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    """400 lines, of the package and of its tests."""
    files = (file for folder in ("pytest_quant", "tests") for file in (ROOT / folder).rglob("*.py"))
    lines = {file.relative_to(ROOT).as_posix(): len(file.read_text("utf-8").splitlines()) for file in files}
    assert {place: n for place, n in lines.items() if n > 400} == {}
