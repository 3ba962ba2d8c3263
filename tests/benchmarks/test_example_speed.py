"""The example is quick the first time, and builds nothing the second time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.benchmarks.limits import at_most
from tests.support.example import ROOT, ExampleRun, copy_example, run_example

FIRST_RUN_LIMIT_S = 180
SECOND_TO_FIRST = 0.1


@dataclass(frozen=True, slots=True)
class TimedRun:
    """A run of the example, and the seconds that it spent building engines and evaluating references."""

    run: ExampleRun
    obtaining_s: float


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[TimedRun, TimedRun]:
    """The first run of a copy of the example of its own, and the one right after it."""
    project = copy_example(tmp_path_factory.mktemp("timed"))
    return timed_run(project), timed_run(project, "--quant-no-latency")


def timed_run(project: Path, *arguments: str) -> TimedRun:
    """Run the copy with a stopwatch inside."""
    file = project / "seconds.txt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OBTAIN_TIME_FILE", str(file))
        patch.setenv("PYTHONPATH", str(ROOT))
        run = run_example(project, *arguments, "-p", "tests.benchmarks.obtain_time")
    return TimedRun(run, float(file.read_text("utf-8")))


def test_first_run_takes_three_minutes_at_most(runs: tuple[TimedRun, TimedRun], show: Callable[[str], None]) -> None:
    """Everything is built, evaluated and timed in that."""
    seconds = runs[0].run.seconds
    show(f"first run of the example: {seconds:.0f} s")
    at_most(seconds, FIRST_RUN_LIMIT_S, "seconds of the first run")


def test_second_run_builds_and_evaluates_nothing_again(runs: tuple[TimedRun, TimedRun]) -> None:
    """Every engine and every reference comes from the cache."""
    result = [check["cache"] for check in runs[1].run.document["checks"]]
    assert result == [{"engine": "hit", "reference": "hit"}] * len(result)


def test_second_run_spends_a_tenth_on_building_and_references(
    runs: tuple[TimedRun, TimedRun], show: Callable[[str], None]
) -> None:
    """Looking up takes at most a tenth of making."""
    first_s, second_s = (timed.obtaining_s for timed in runs)
    show(f"build and reference: {first_s:.2f} s, then {second_s:.2f} s: {second_s / first_s:.3f}")
    at_most(second_s / first_s, SECOND_TO_FIRST, "second run to first")
