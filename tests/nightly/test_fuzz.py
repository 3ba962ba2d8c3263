"""Hostile input of every kind, drawn by hypothesis: nothing but our own errors comes out, and they can be printed."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import TARGETS
from tests.fuzz.hunt import Tally, hunt


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_our_errors_comes_out(name: str) -> None:
    """The same inputs each time; ``python -m tests.fuzz`` draws others, for as long as it is told."""
    tally, target = Tally(), TARGETS[name]
    hunt(target, 0, target.examples, tally)
    assert [finding.text for finding in tally.findings.values()] == []
    assert tally.tried > 0
