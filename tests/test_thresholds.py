"""Rates of wrong verdicts in the guide "From a threshold to a limit" are those of the simulation that it names."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import pytest

from tests.benchmarks.thresholds import HEAD, TRIALS, TRIALS_OF_RATIOS, Gate, gates, ours, theirs
from tests.support.documents import GUIDES, Document

AGAIN = 250
"""Draws of each figure here, from another seed."""

ROWS = {row[0]: row[1:] for row in Document(GUIDES / "thresholds.md").table(HEAD[0])}


def near(told: str, found: float, trials: int, again: int) -> bool:
    """Whether two counts of a rate, in percent, lie within five standard errors of each other, and what was rounded."""
    said = float(told.removesuffix(" %"))
    # Neither count is the rate: one of none, or of all, stands for some.
    rate = min(max((said + found) / 200.0, 0.01), 0.99)
    return abs(said - found) <= 0.5 + 500.0 * sqrt(rate * (1.0 - rate) * (1.0 / trials + 1.0 / again))


def far(told: Sequence[str], found: Sequence[float], trials: int, again: int) -> list[tuple[str, float]]:
    """Return the figures that are not near."""
    return [pair for pair in zip(told, found, strict=True) if not near(*pair, trials, again)]


def test_every_gate_is_in_the_table() -> None:
    """In its order, with all of its figures."""
    assert list(ROWS) == [gate.title for gate in gates()]
    assert {len(row) for row in ROWS.values()} == {len(HEAD) - 1}


@pytest.mark.parametrize("gate", [*gates()], ids=lambda gate: gate.title)
def test_figures_are_those_of_the_simulation(gate: Gate) -> None:
    """To the errors of both; of bootstraps that take long only one is drawn, which shows little."""
    row, is_quick = ROWS[gate.title], gate.metric.rate is not None
    again = AGAIN if is_quick else 30 if gate.n < 100 else 1
    assert far(row[:3], theirs(gate, 7, AGAIN), TRIALS, AGAIN) == []
    assert far(row[3:], ours(gate, 7, again), TRIALS if is_quick else TRIALS_OF_RATIOS, again) == []


@pytest.mark.parametrize(("found", "is_near"), [(40.0, True), (60.0, True), (75.0, False), (20.0, False)])
def test_what_is_near(found: float, is_near: bool) -> None:
    """Five standard errors of 250 draws of a half are 16 points."""
    assert near("50 %", found, 2000, 250) is is_near
