"""The whole story once: every commit of the scripted repository run by pytest, into one history."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.history_project import SLOWS
from tests.support.history_repository import Repository, make_repository

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

    The first and the last count once at least, since they are compared too.

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
    needed = {repository.main[0]: 1} | dict.fromkeys(repository.main[SLOWS - 2 : SLOWS], LAUNCHES)
    counted = {commit: int(timed[commit]) for commit in needed}
    for _ in range(MOST_LAUNCHES):
        for commit, least in needed.items():
            if counted[commit] < least:
                counted[commit] += launch("main", commit, "test_speed.py")
    repository.rest()
    run_last(repository, str(history))
    return Story(repository, history, tuple(documents))


def _is_timed(document: Path) -> bool:
    """Whether the plugin found the numbers of ``test_speed`` to be more than noise; true where it was not to time."""
    checks = json.loads(document.read_text("utf-8"))["checks"]
    (speed,) = (check["latency"] for check in checks if check["nodeid"].endswith("::test_speed"))
    return speed is None or not speed["reasons"]


def run_last(repository: Repository, history: str, *arguments: str) -> None:
    """Run what is checked out into `history`, until its numbers are more than noise where it is timed."""
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder, "last.json")
        for _ in range(MOST_LAUNCHES):
            said = repository.pytest(history, f"--quant-json={document}", *arguments)
            assert said.returncode == 0, said.stdout + said.stderr
            if _is_timed(document):
                return
