"""What two trees ask for is told apart from the rest of their files, and an environment is made by a command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.sides.dependencies import changed_dependencies, own_python


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    """Two trees with equal files."""
    for name in ("base", "head"):
        (tmp_path / name / "models").mkdir(parents=True)
        (tmp_path / name / "requirements.txt").write_text("onnxruntime==1.28\n")
        (tmp_path / name / "pyproject.toml").write_text(
            '[project]\nname = "x"\ndependencies = ["numpy"]\n[tool.ruff]\nline-length = 100\n'
        )
    return tmp_path / "base", tmp_path / "head"


def differing(both: tuple[Path, Path], below: str = "models") -> tuple[str, ...]:
    """Return the files that differ."""
    return changed_dependencies(*both, Path(below))


def test_equal_files_do_not_differ_whatever_else_does(both: tuple[Path, Path]) -> None:
    """A ``pyproject.toml`` has much beside the libraries."""
    (both[1] / "model.onnx").write_text("other")
    (both[1] / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "2"\ndependencies = ["numpy"]\n[tool.ruff]\nline-length = 120\n'
    )
    assert differing(both) == ()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("requirements.txt", "onnxruntime==1.29\n"),
        ("models/requirements-dev.txt", "pytest\n"),
        ("uv.lock", "version = 1\n"),
        ("pyproject.toml", '[project]\nname = "x"\ndependencies = ["numpy>=2"]\n'),
        ("pyproject.toml", '[project]\ndependencies = ["numpy"]\n[dependency-groups]\ndev = ["torch"]\n'),
        ("pyproject.toml", "not toml"),
    ],
)
def test_what_names_libraries_differs(both: tuple[Path, Path], file: str, text: str) -> None:
    """At the tests and above them; a file that only one has among them."""
    (both[1] / file).write_text(text)
    assert differing(both) == (file,)


def test_files_of_other_projects_of_the_repository_do_not_count(both: tuple[Path, Path]) -> None:
    """They lie beside the tests."""
    (both[1] / "other").mkdir()
    (both[1] / "other" / "requirements.txt").write_text("torch\n")
    assert differing(both) == ()


def test_an_interpreter_is_taken_as_it_is(tmp_path: Path) -> None:
    """By its path."""
    assert own_python(sys.executable, tmp_path) == sys.executable


def test_a_command_prints_the_interpreter_on_its_last_line(tmp_path: Path) -> None:
    """It runs in the tree, whose folder it is told; a relative path is one from there."""
    (tmp_path / "own-python").symlink_to(sys.executable)
    program = "import os, sys; assert os.getcwd() == sys.argv[1]; print('installing'); print('own-python')"
    assert own_python(f'{sys.executable} -c "{program}" {{worktree}}', tmp_path.resolve()) == str(
        tmp_path.resolve() / "own-python"
    )


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("no-such-command at-all", "No such file"),
        (f"{sys.executable} -c 'import sys; sys.exit(\"no network\")'", "it ended with 1: no network"),
        (f"{sys.executable} -c 'print(1)'", "its last line names no interpreter: 1"),
        ("'unclosed", "No closing quotation"),
        ("''", "No such file|it is empty|Permission"),
    ],
)
def test_what_gives_no_interpreter_is_an_error(tmp_path: Path, asked: str, why: str) -> None:
    """With what the command said."""
    with pytest.raises(UsageError, match=why):
        own_python(asked, tmp_path)
