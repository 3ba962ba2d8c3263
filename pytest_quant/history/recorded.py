"""What baselines and comparisons ask of a history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pytest_quant.history.rows import StoredCheck


class Recorded(Protocol):
    """The records of commits; `Store` is one. Both methods raise `HistoryError` when they cannot be read."""

    def commits(self, known: Sequence[str]) -> set[str]:
        """Return those of the commits `known` that have a run of a clean tree."""

    def launches(self, commit: str) -> list[StoredCheck]:
        """Return every record of every run of the clean commit, oldest first."""
