"""The whole story once: every commit of the scripted repository run by pytest, into one history."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.history_project import SLOWS
from tests.history_repository import Repository, make_repository

LAUNCHES = 5
"""Of the two commits whose latency is compared, with numbers that are more than noise; all others are launched once."""

MOST_LAUNCHES = 20
"""Beside a busy neighbour the plugin takes some launches for noise, and more are made."""


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
    launches = [("main", commit) for commit in repository.main[:-1]]
    launches += [("feature", commit) for commit in repository.feature]
    documents: list[Path] = []

    def launch(branch: str, commit: str, *files: str) -> bool:
        repository.checkout(branch, commit)
        document = folder / f"run-{len(documents):02}.json"
        said = repository.pytest(str(history), f"--quant-json={document}", *files)
        assert said.returncode == 0, said.stdout + said.stderr
        documents.append(document)
        return _is_timed(document)

    timed = {commit: launch(branch, commit) for branch, commit in launches}
    counted = {commit: int(timed[commit]) for commit in repository.main[SLOWS - 2 : SLOWS]}
    for _ in range(MOST_LAUNCHES):
        for commit in counted:
            if counted[commit] < LAUNCHES:
                counted[commit] += launch("main", commit, "test_speed.py")
    repository.rest()
    run_last(repository, str(history))
    return Story(repository, history, tuple(documents))


def _is_timed(document: Path) -> bool:
    """Whether the plugin found the numbers of ``test_speed`` to be more than noise."""
    checks = json.loads(document.read_text("utf-8"))["checks"]
    (speed,) = (check["latency"] for check in checks if check["nodeid"].endswith("::test_speed"))
    return not speed["reasons"]


def run_last(repository: Repository, history: str, *arguments: str) -> None:
    """Run what is checked out into `history`."""
    said = repository.pytest(history, *arguments)
    assert said.returncode == 0, said.stdout + said.stderr
