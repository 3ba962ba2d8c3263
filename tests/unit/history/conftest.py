"""A project with a history of git, as comparisons and baselines look for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repository import ScratchRepository, make_branches, without_ci


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """A project on a branch of one commit more than ``main``."""
    without_ci(monkeypatch)
    return make_branches(tmp_path, shared=1)
