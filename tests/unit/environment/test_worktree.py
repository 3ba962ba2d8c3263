"""The files of another commit are written and removed, and what they say about libraries is compared."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pytest_quant.environment.worktree import changed_dependencies, check_out, own_python, top_level, workplace
from pytest_quant.errors import UsageError
from tests.support.repository import ScratchRepository, make_repository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """A repository with two commits, and a temporary folder of its own beside it."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    scratch = make_repository(tmp_path / "repository")
    scratch.commit("first")
    scratch.commit("second")
    return scratch


def left(repository: ScratchRepository) -> tuple[list[str], list[str]]:
    """Return what lies in the temporary folder, and the trees that git knows beside the checkout."""
    trees = repository.git("worktree", "list", "--porcelain").split("\n\n")
    return [file.name for file in Path(tempfile.gettempdir()).glob("*/*")], trees[1:]


def test_the_files_of_a_commit_are_there_and_the_checkout_is_as_it_was(repository: ScratchRepository) -> None:
    """With uncommitted changes, staged ones among them, which the tree does not have."""
    first = repository.git("rev-parse", "HEAD~1")
    (repository.path / "file").write_text("mine")
    repository.git("add", "file")
    with workplace(repository.path) as place:
        tree = check_out(repository.path, first, place / "base")
        assert (tree.path / "file").read_text() == "first"
        assert tree.notes == ()
        assert top_level(tree.path) == tree.path
        assert (repository.path / "file").read_text() == "mine"
        assert repository.git("diff", "--cached", "--name-only") == "file"
    assert left(repository) == ([], [])


def test_nothing_stays_after_an_interrupt(repository: ScratchRepository) -> None:
    """Nor of a tree that git keeps locked while it makes it."""
    with pytest.raises(KeyboardInterrupt), workplace(repository.path) as place:  # noqa: PT012 - both are the fact
        tree = check_out(repository.path, "HEAD", place / "base")
        repository.git("worktree", "lock", str(tree.path))
        raise KeyboardInterrupt
    assert left(repository) == ([], [])


def test_no_hook_runs_and_none_of_a_hooks_variables_count(
    repository: ScratchRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Within a hook git names the user's index, which a checkout elsewhere would overwrite."""
    hook = repository.path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    hook.chmod(0o755)
    index = (repository.path / ".git" / "index").read_bytes()
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository.path / ".git" / "index"))
    monkeypatch.setenv("GIT_DIR", str(repository.path / ".git"))
    with workplace(repository.path) as place:
        first = check_out(repository.path, "HEAD~1", place / "base")
        assert (first.path / "file").read_text() == "first"
    assert (repository.path / ".git" / "index").read_bytes() == index
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def nested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """A repository with a submodule in a submodule, whose second commit has moved it; their servers are gone."""
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.file.allow")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "always")
    inner, outer, top = (make_repository(tmp_path / name) for name in ("inner", "outer", "top"))
    inner.commit("inner")
    for around, module, path in ((outer, inner, "inner"), (top, outer, "data")):
        around.git("submodule", "add", "-q", str(module.path), path)
        around.git("commit", "-qm", "with a submodule")
    top.git("submodule", "update", "-q", "--init", "--recursive")
    top.git("mv", "data", "moved")
    top.git("commit", "-qm", "moved")
    monkeypatch.delenv("GIT_CONFIG_COUNT")
    outer.path.rename(tmp_path / "gone")
    inner.path.rename(tmp_path / "gone too")
    return top


@pytest.mark.parametrize(("commit", "name"), [("HEAD", "moved"), ("HEAD~1", "data")])
def test_submodules_are_filled_from_the_checkout(nested: ScratchRepository, commit: str, name: str) -> None:
    """At any depth, where the base has them, without a network; the checkout's own settings stay as they are."""
    settings = (nested.path / ".git" / "config").read_text()
    with workplace(nested.path) as place:
        tree = check_out(nested.path, commit, place / "base")
        assert (tree.path / name / "inner" / "file").is_file()
        assert tree.notes == ()
    assert (nested.path / ".git" / "config").read_text() == settings
    assert nested.git("worktree", "list").count("\n") == 0


def test_a_submodule_that_is_not_here_is_named_with_the_line_that_brings_it(nested: ScratchRepository) -> None:
    """One that the checkout has never fetched."""
    nested.git("submodule", "deinit", "-q", "-f", "moved")
    shutil.rmtree(nested.path / ".git" / "modules")
    for old, new in (("gone", "outer"), ("gone too", "inner")):
        (nested.path.parent / old).rename(nested.path.parent / new)
    for name in ("moved", "moved/inner"):
        with workplace(nested.path) as place:
            (note,) = check_out(nested.path, "HEAD", place / "base").notes
        told, _, line = note.rpartition(": ")
        assert told == f"the submodule {name} is empty in the files of the base, for its commit is not here"
        command = shlex.split(line.replace("git ", "git -c protocol.file.allow=always ", 1))
        subprocess.run(command, cwd=nested.path, check=True, capture_output=True)
    with workplace(nested.path) as place:
        assert check_out(nested.path, "HEAD", place / "base").notes == ()


def test_a_commit_of_a_submodule_that_was_not_fetched_is_fetched_by_the_line(nested: ScratchRepository) -> None:
    """As in a clone of one commit, whose submodules have that of the head alone."""
    outer = ScratchRepository(nested.path.parent / "gone")
    outer.commit("later")
    nested.git("-C", "moved", "remote", "set-url", "origin", str(outer.path))
    nested.git("update-index", "--cacheinfo", f"160000,{outer.git('rev-parse', 'HEAD')},moved")
    nested.git("commit", "-qm", "later")
    with workplace(nested.path) as place:
        (note,) = check_out(nested.path, "HEAD", place / "base").notes
    subprocess.run(shlex.split(note.rpartition(": ")[2]), cwd=nested.path, check=True, capture_output=True)
    with workplace(nested.path) as place:
        assert check_out(nested.path, "HEAD", place / "base").notes == ()


def test_what_git_says_is_passed_on(repository: ScratchRepository, tmp_path: Path) -> None:
    """An object that is missing, or no repository at all."""
    with workplace(repository.path) as place, pytest.raises(UsageError, match="cannot write the files of 00000000"):
        check_out(repository.path, "0" * 40, place / "base")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(UsageError, match="no checkout"):
        top_level(tmp_path / "elsewhere")


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
    """A ``pyproject.toml`` has much beside the libraries, and a repository other projects beside the tests."""
    (both[1] / "model.onnx").write_text("other")
    (both[1] / "other").mkdir()
    (both[1] / "other" / "requirements.txt").write_text("torch\n")
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
        ("pyproject.toml", 'project = "x"\ntool = []\n'),
        ("pyproject.toml", f"x = {'[' * 5000}"),
    ],
)
def test_what_names_libraries_differs(both: tuple[Path, Path], file: str, text: str) -> None:
    """At the tests and above them; a file that only one has among them."""
    (both[1] / file).write_text(text)
    assert differing(both) == (file,)


def test_a_command_prints_the_interpreter_on_its_last_line(tmp_path: Path) -> None:
    """It runs in the tree, whose folder it is told; a relative path is one from there. An interpreter is itself."""
    assert own_python(sys.executable, tmp_path) == sys.executable
    (tmp_path / "own-python").symlink_to(sys.executable)
    program = "import os, sys; assert os.getcwd() == sys.argv[1]; print('installing'); print('own-python')"
    assert own_python(f'{sys.executable} -c "{program}" {{worktree}}', tmp_path.resolve()) == str(
        tmp_path.resolve() / "own-python"
    )


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("no-such-command at-all", "No such file"),
        (f"{sys.executable} -c 'import sys; sys.exit(\"no network\")'", "it ended with 1: no network"),
        (f"{sys.executable} -c 'print(1)'", "its last line names no interpreter: 1"),
        ("'unclosed", "No closing quotation"),
        ("", "gives no environment"),
    ],
)
def test_what_gives_no_interpreter_is_an_error(tmp_path: Path, command: str, why: str) -> None:
    """With what the command said."""
    with pytest.raises(UsageError, match=why):
        own_python(command, tmp_path)
