"""The example is quick the first time, and builds nothing the second time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.example import ROOT, ExampleRun, copy_example, run_example

FIRST_RUN_LIMIT_S = 180
SECOND_TO_FIRST = 0.1


def timed_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ExampleRun, float]:
    """Run without timing of engines; return the run and the seconds spent building and evaluating references."""
    file = project / "seconds.txt"
    monkeypatch.setenv("OBTAIN_TIME_FILE", str(file))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    run = run_example(project, "--quant-no-latency", "-p", "tests.benchmarks.obtain_time")
    return run, float(file.read_text("utf-8"))


def test_first_run_takes_three_minutes_at_most(first_run: ExampleRun, show: Callable[[str], None]) -> None:
    """Everything is built, evaluated and timed in that."""
    show(f"first run of the example: {first_run.seconds:.0f} s")
    assert first_run.seconds <= FIRST_RUN_LIMIT_S


def test_second_run_builds_and_evaluates_nothing_again(second_run: ExampleRun) -> None:
    """Every engine and every reference comes from the cache."""
    found = [check["cache"] for check in second_run.document["checks"]]
    assert found == [{"engine": "hit", "reference": "hit"}] * len(found)


def test_second_run_spends_a_tenth_on_building_and_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, show: Callable[[str], None]
) -> None:
    """Looking up takes at most a tenth of making."""
    project = copy_example(tmp_path)
    _, first_s = timed_run(project, monkeypatch)
    _, second_s = timed_run(project, monkeypatch)
    show(f"build and reference: {first_s:.2f} s, then {second_s:.2f} s: {second_s / first_s:.3f}")
    assert second_s <= SECOND_TO_FIRST * first_s
