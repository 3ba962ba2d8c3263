"""Further launches of a check: how many, what they say together, and what happens when one fails."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import psutil
import pytest

from pytest_quant.measure.engine_trio import EngineTrio
from pytest_quant.measure.timing import add_launches, next_look
from pytest_quant.result import LatencyResult
from pytest_quant.spec import LatencyPlan, Limits
from pytest_quant.verdict import Judge
from tests.support.measuring import QuietSteps, quiet_tools
from tests.unit.measure.played_apart import PlayedBackend, played
from tests.unit.record.examples import a_check

PLAN = LatencyPlan(max_s=0.2, max_warmup_s=0.01)
CHECK = replace(a_check(), limits=Limits(min_speedup=0.5), latency=PLAN)


@dataclass(frozen=True)
class Doubting(Judge):
    """A judge whose doubts are given, one for each time that it is asked."""

    doubts: list[bool] = field(default_factory=list)

    def undecided(self, latency: LatencyResult) -> bool:
        """Take the next doubt."""
        del latency
        return self.doubts.pop(0)


def launched(
    steps: QuietSteps, folder: Path, wanted: int | Literal["auto"], doubts: list[bool], candidate: str = "quiet"
) -> LatencyResult:
    """Time a check here, and add launches as long as `doubts`, which are asked for one after the other, say so."""
    timed = played("quiet"), played("quiet")
    with EngineTrio(*timed, "huge") as sessions:
        first = sessions.measure(PLAN)
    tools = quiet_tools(folder, steps)
    subjects = timed[0], played(candidate, OnlyHere() if candidate == "only here" else None)
    result = add_launches(
        CHECK, replace(first, reasons=()), subjects, wanted, Doubting(CHECK.limits, doubts=doubts), tools
    )
    assert not [child for child in psutil.Process().children() if "timing_process" in " ".join(child.cmdline())]
    return result


class OnlyHere(PlayedBackend):
    """A backend that no other process can have."""

    def __reduce__(self) -> str:
        raise TypeError("it holds a socket")


def test_as_many_as_are_asked_for(tmp_path: Path) -> None:
    """Each is shown, each has its figures, and all of them are judged together."""
    steps = QuietSteps()
    result = launched(steps, tmp_path, 3, [False] * 2)
    assert steps.texts == [f"launch {number} of 3 of ort-int8-static of digits" for number in (2, 3)]
    assert len(result.launches) == 2
    assert result.over is not None
    assert result.over.launches == 3
    everyone = [result.speedup, *(each.speedup or 0.0 for each in result.launches)]
    assert min(everyone) <= result.over.speedup <= max(everyone)
    assert result.over.speedup_ci.low < result.over.speedup < result.over.speedup_ci.high
    assert result.over.candidate_p50_ci_ms.low < result.over.candidate_p50_ms < result.over.candidate_p50_ci_ms.high
    assert all(launch.error is not None and launch.started_at.endswith("+00:00") for launch in result.launches)


@pytest.mark.parametrize(("doubts", "launches"), [([False], 1), ([True, True, False], 5)])
def test_until_there_is_no_doubt(tmp_path: Path, doubts: list[bool], launches: int) -> None:
    """It is asked before the first, after three and after five."""
    result = launched(QuietSteps(), tmp_path, "auto", doubts)
    assert len(result.launches) + 1 == launches
    assert not doubts


def test_ten_are_the_most() -> None:
    """Whatever doubt is left."""
    assert [next_look(number, "auto", is_in_doubt=True) for number in (1, 3, 5, 10)] == [3, 5, 10, 0]
    assert [next_look(number, 4, is_in_doubt=True) for number in (1, 4)] == [4, 0]


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (
            "refuses",
            "launch 2 of 3 of ort-int8-static of digits: opening played-refuses of net",
        ),
        ("dies in a run", "it died with signal 9"),
        ("only here", "can be timed in this process only"),
    ],
)
def test_one_that_fails_is_the_last(tmp_path: Path, candidate: str, words: str) -> None:
    """A note says why; what this process measured stands."""
    result = launched(QuietSteps(), tmp_path, 3, [False], candidate)
    assert (result.launches, result.over) == ((), None)
    assert words in result.notes[-1]


@pytest.mark.parametrize("is_open", [False, True])
def test_a_first_launch_that_was_disturbed_is_made_again_where_their_number_is_open(
    tmp_path: Path, is_open: bool
) -> None:
    """Once, in a process of its own, and a note says why; else it is not repeated, and the reason stays."""
    steps, timed = QuietSteps(), (played("quiet"), played("quiet"))
    with EngineTrio(*timed, "huge") as sessions:
        void = replace(sessions.measure(PLAN), reasons=("the null is off",))
    judge = Doubting(CHECK.limits, doubts=[not is_open])
    tools = quiet_tools(tmp_path, steps)
    latency = add_launches(CHECK, void, timed, "auto" if is_open else 3, judge, tools)
    assert steps.texts == (["timing played-quiet of net again in a fresh process"] if is_open else [])
    assert ("the first launch does not count: the null is off" in latency.notes) is is_open
    assert ("the null is off" in latency.reasons) is not is_open
