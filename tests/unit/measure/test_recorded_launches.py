"""Launches and histories that were recorded are judged as they were then."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.recorded_launches import RECORDED, histories, launches_by_arm, rows

RECORDED_ROWS = [json.loads(line) for line in (RECORDED / "verdicts.jsonl").read_text("utf-8").splitlines()]


def differing(now: list[dict[str, Any]], then: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the rows that are not equal, but for the last digit of their figures."""
    pairs = zip(now, then, strict=True)
    return [(ours, theirs) for ours, theirs in pairs if ours != _with_speedup(theirs, ours)]


def _with_speedup(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    if "speedup" in theirs and ours["speedup"] == pytest.approx(theirs["speedup"], rel=1e-5):
        return theirs | {"speedup": ours["speedup"]}
    return theirs


def test_launches_are_judged_as_they_were() -> None:
    """Each by itself by a limit on the speedup and by limits in milliseconds, and those of an arm together."""
    assert sum(map(len, launches_by_arm().values())) == 200
    assert differing(list(rows()), [row for row in RECORDED_ROWS if "arm" in row]) == []


def test_histories_are_judged_as_they_were() -> None:
    """By `max_slowdown`, and by a comparison with the last commit."""
    assert differing(list(histories.rows()), [row for row in RECORDED_ROWS if "history" in row]) == []
    assert sum("history" in row for row in RECORDED_ROWS) == histories.HISTORIES
