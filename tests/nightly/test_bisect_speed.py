"""``pytest-quant bisect`` finds the commit that made an engine slower, by pairs of processes at each step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_bisect import bisected
from tests.support.history_project import SLOWS
from tests.support.history_repository import Repository, make_repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """The project of a user whose commits have known effects."""
    return make_repository(tmp_path / "repository")


def test_a_slower_engine_is_traced(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of the project takes three times as long from that commit on, the second of two."""
    good, bad = repository.main[SLOWS - 1], repository.main[SLOWS + 1]
    result = bisected(repository, "test_speed.py::test_speed", good, bad, "--limit=20", monkeypatch=monkeypatch)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "first bad commit: " in result.stdout
    named = next(line for line in result.stdout.splitlines() if line.startswith("first bad commit: "))
    assert named.endswith("another turbo"), result.stdout
    assert "limit 20 %; 5 pairs of processes" in result.stdout
