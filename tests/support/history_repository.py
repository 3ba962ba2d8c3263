"""A git repository with the project of `history_project`, and runs of its commits by pytest in this process."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_quant.backends import get_backend
from pytest_quant.cli import main
from tests.support.example import environment
from tests.support.history_project import FEATURE, FIRST, FORK, MAIN, SLOWS, Edit, write_models
from tests.support.in_process import imports_forgotten
from tests.support.known_speed import PLUGIN

OPTIONS = ("-q", "-W", "ignore", "-p", PLUGIN)
"""Of every run: what is compared are latencies of a known factor, whatever else this machine does."""

WIDTH = 200
"""Columns of the terminal: the lines of tables stay whole."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run or a command said."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository at `root`; `main` and `feature` hold the ids of their commits, the oldest first."""

    root: Path
    main: tuple[str, ...]
    feature: tuple[str, ...]

    def git(self, *arguments: str) -> str:
        """Run git and return what it printed."""
        return _git(self.root, *arguments)

    def checkout(self, branch: str, commit: str | None = None) -> None:
        """Check out `branch` at `commit`, as it stood when that was its last one."""
        if commit is not None:
            self.git("update-ref", f"refs/heads/{branch}", commit)
        self.git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
        self.git("reset", "-q", "--hard")

    def rest(self) -> None:
        """Put both branches back to their last commits, with ``main`` checked out."""
        self.checkout("feature", self.feature[-1])
        self.checkout("main", self.main[-1])

    def pytest(self, history: str, *arguments: str) -> Answer:
        """Run pytest on what is checked out, into `history`."""
        return run_pytest(self.root, *OPTIONS, f"--quant-history={history}", *arguments)

    def command(self, history: str, *arguments: str) -> Answer:
        """Run the command ``pytest-quant`` on `history`; its name comes first in `arguments`."""
        return run_command(self.root, *arguments, f"--history={history}")


def run_command(folder: Path, *arguments: str, columns: int = WIDTH) -> Answer:
    """Run the command ``pytest-quant`` in `folder`, in this process: in one of its own it would mostly import."""

    def run() -> int:
        sys.argv = ["pytest-quant", *arguments]
        with pytest.raises(SystemExit) as end:
            main()
        code = end.value.code or 0
        assert isinstance(code, int), code
        return code

    return _answer(folder, run, columns)


def run_pytest(folder: Path, *arguments: str) -> Answer:
    """Run pytest in `folder`, in this process; the backends that are installed there are those of this run alone."""

    def run() -> int:
        sys.path.insert(0, str(folder))
        return int(pytest.main([*arguments]))

    get_backend.cache_clear()
    answer = _answer(folder, run)
    get_backend.cache_clear()
    return answer


def _answer(folder: Path, run: Callable[[], int], columns: int = WIDTH) -> Answer:
    """Return what `run` says in `folder`, outside of CI; what it imports from there is forgotten, and not compiled.

    A file that a checkout rewrites within one second and at one size would be taken for the compiled one.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    streams = redirect_stdout(out), redirect_stderr(err)
    with pytest.MonkeyPatch.context() as patch, imports_forgotten(folder), streams[0], streams[1]:
        for name in os.environ.keys() - outside_ci().keys():
            patch.delenv(name)
        patch.setenv("COLUMNS", str(columns))
        patch.setattr(sys, "argv", sys.argv)
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.chdir(folder)
        code = run()
    return Answer(code, _written(out), _written(err))


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def make_repository(root: Path) -> Repository:
    """Make the repository with all its commits; nothing has run yet, and ``main`` is checked out."""
    root.mkdir(parents=True)
    _git(root, "init", "-q", "-b", "main")
    write_models(root)
    for name, text in FIRST.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    main = tuple(_commit(root, edit, day) for day, edit in enumerate(MAIN, 1))
    _git(root, "checkout", "-q", "-b", "feature", main[FORK - 1])
    feature = tuple(_commit(root, edit, day) for day, edit in enumerate(FEATURE, FORK + 1))
    _git(root, "checkout", "-q", "main")
    return Repository(root, main, feature)


def _commit(root: Path, edit: Edit, day: int) -> str:
    """Commit `edit` on that day of January; returns the id, which is the same wherever this runs."""
    file = root / edit.file
    text = file.read_text("utf-8")
    if edit.before:
        assert text.count(edit.before) == 1, f"{edit.message}: {edit.before!r} is not in {edit.file} once"
        text = text.replace(edit.before, edit.after)
    else:
        text += f"{edit.message}\n"
    file.write_text(text, encoding="utf-8")
    _git(root, "add", "--all")
    _git(root, "commit", "-q", "-m", edit.message, date=f"2026-01-{day:02}T12:00:00+00:00")
    return _git(root, "rev-parse", "HEAD")


def _git(root: Path, *arguments: str, date: str | None = None) -> str:
    settings = ("-c", "user.name=A User", "-c", "user.email=user@example.invalid", "-c", "commit.gpgsign=false")
    dates = {} if date is None else {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    result = subprocess.run(
        ["git", *settings, *arguments],  # noqa: S607 - the user's git
        cwd=root,
        env=os.environ | dates,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def outside_ci() -> dict[str, str]:
    """Return this environment without what tells branches and pull requests of the project that runs these tests."""
    prefixes = ("GITHUB_", "CI_", "CHANGE_", "BUILDKITE", "BUILD_", "CIRCLE_", "GIT_")
    return {name: value for name, value in environment().items() if not name.startswith(prefixes)}


LAUNCHES = 5
"""Of the two commits whose latency is compared; all others are launched once."""


@dataclass(frozen=True, slots=True)
class Story:
    """The repository, its history in SQLite, and the ``--quant-json`` document of each launch but the last."""

    repository: Repository
    history: Path
    documents: tuple[Path, ...]


def tell(folder: Path) -> Story:
    """Run every commit, and more often the one that gets slower and the one before it, taking turns.

    The last run is that of the last commit of ``main``.
    """
    repository = make_repository(folder / "project")
    history = folder / "history.db"
    documents: list[Path] = []

    def launch(branch: str, commit: str, *files: str) -> None:
        repository.checkout(branch, commit)
        documents.append(folder / f"run-{len(documents):02}.json")
        said = repository.pytest(str(history), f"--quant-json={documents[-1]}", *files)
        assert said.returncode == 0, said.stdout + said.stderr

    for commit in repository.main[:-1]:
        launch("main", commit)
    for commit in repository.feature:
        launch("feature", commit)
    for _ in range(1, LAUNCHES):
        for commit in repository.main[SLOWS - 2 : SLOWS]:
            launch("main", commit, "test_speed.py")
    repository.rest()
    run_last(repository, str(history))
    return Story(repository, history, tuple(documents))


def run_last(repository: Repository, history: str, *arguments: str) -> None:
    """Run what is checked out into `history`."""
    said = repository.pytest(history, *arguments)
    assert said.returncode == 0, said.stdout + said.stderr
