"""A project with a history of git, as comparisons and baselines look for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repository import ScratchRepository, make_repository, without_ci


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """A project on a branch of one commit more than ``main``."""
    without_ci(monkeypatch)
    made = make_repository(tmp_path)
    made.commit("1")
    made.git("checkout", "-b", "topic")
    made.commit("2")
    return made
