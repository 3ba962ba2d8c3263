"""The whole story once: every commit of the scripted repository run by pytest, into one history."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.history_project import SLOWS
from tests.history_repository import Repository, make_repository

LAUNCHES = 5
"""Of the two commits whose latency is compared; all others are launched once."""


@dataclass(frozen=True, slots=True)
class Story:
    """The repository, its history in SQLite, and the ``--quant-json`` document of each launch but the last."""

    repository: Repository
    history: Path
    documents: tuple[Path, ...]


def tell(folder: Path) -> Story:
    """Run every commit, and five times the one that gets slower and the one before it, taking turns.

    The last run is that of the last commit of ``main``.
    """
    repository = make_repository(folder / "project")
    history = folder / "history.db"
    launches = [("main", commit, "") for commit in repository.main[:-1]]
    launches += [("feature", commit, "") for commit in repository.feature]
    around = repository.main[SLOWS - 2 : SLOWS]
    launches += [("main", commit, "test_speed.py") for _ in range(LAUNCHES - 1) for commit in around]
    documents = []
    for number, (branch, commit, file) in enumerate(launches):
        repository.checkout(branch, commit)
        document = folder / f"run-{number:02}.json"
        said = repository.pytest(str(history), f"--quant-json={document}", *filter(None, [file]))
        assert said.returncode == 0, said.stdout + said.stderr
        documents.append(document)
    repository.rest()
    run_last(repository, str(history))
    return Story(repository, history, tuple(documents))


def run_last(repository: Repository, history: str, *arguments: str) -> None:
    """Run what is checked out into `history`."""
    said = repository.pytest(history, *arguments)
    assert said.returncode == 0, said.stdout + said.stderr
