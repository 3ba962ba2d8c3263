"""A history in memory, for what asks for the records of commits only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_quant.history import StoredCheck


@dataclass(frozen=True, slots=True)
class InMemory:
    """Records in the order in which they were made."""

    checks: tuple[StoredCheck, ...]

    def commits(self, known: Sequence[str]) -> set[str]:
        """Those of a clean tree."""
        return {
            one.run.commit for one in self.checks if one.run.commit in known and not one.run.dirty and one.run.commit
        }

    def launches(self, commit: str) -> list[StoredCheck]:
        """Those of the clean commit."""
        return [one for one in self.checks if one.run.commit == commit and not one.run.dirty]
