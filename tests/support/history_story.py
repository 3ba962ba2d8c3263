"""The whole story once: every commit of the scripted repository run by pytest, into one history."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.support.history_project import SLOWS
from tests.support.history_repository import Repository, make_repository

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
