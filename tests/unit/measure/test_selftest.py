"""A self-test makes launches until it has enough, keeps what it has, and says what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pytest

from pytest_quant.backends import get_backend
from pytest_quant.backends.workload import WORKLOADS
from pytest_quant.errors import BackendUnavailable, LaunchError, UsageError
from pytest_quant.measure import selftest
from pytest_quant.measure.selftest import Effort, run_selftest
from pytest_quant.result import Blocks, LatencyResult, SelfTest
from pytest_quant.spec import LatencyPlan
from tests.support.quiet_steps import QuietSteps
from tests.unit.record.examples import LATENCY

IDENTITY = {"cpu": "Some CPU"}
TINY = WORKLOADS[:1]


class Played:
    """Stands in for all launches, and is the clock: time passes only while one of them runs.

    Each times `rounds` of known noise and takes `seconds`; the one with the number `ends` is interrupted, and `dies`
    lets the first one die.
    """

    def __init__(self, rounds: int = 40, ends: int | None = None, seconds: float = 0.0, *, dies: bool = False) -> None:
        self._rounds, self._ends, self._seconds, self._dies = rounds, ends, seconds, dies
        self._rng, self._started = np.random.default_rng(0), 0
        self.seeds: list[int] = []

    def clock(self) -> float:
        """Return the seconds that have passed."""
        return self._started * self._seconds

    def __call__(self, _file: Path, limit_s: float) -> Self:
        """Be one launch."""
        assert limit_s > 0.0
        return self

    def __enter__(self) -> Self:
        """Open the engines."""
        self._started += 1
        if self._started == self._ends:
            raise KeyboardInterrupt
        if self._dies:
            raise LaunchError("opening ort-int8 failed", value="it died with signal 4", fix="ask", log="its.log")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End."""

    def measure(self, plan: LatencyPlan) -> LatencyResult:
        """Time them; load disturbs the first two launches."""
        self.seeds.append(plan.seed)
        busy = "busy machine: other processes used 1.4 of 2 processors"
        notes = ("wide spread: of rounds", *([busy, busy] if self._started < 3 else []))
        reference, null, candidate = (self._blocks(ns) for ns in (1e5, 1e5, 5e4))
        return replace(LATENCY, rounds=self._rounds, reference=reference, null=null, candidate=candidate, notes=notes)

    def _blocks(self, ns: float) -> Blocks:
        times = ns * np.exp(self._rng.normal(0.0, 0.01, self._rounds))
        return Blocks(tuple((round(time),) for time in times))


class Said(QuietSteps):
    """Keeps its messages."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def notify(self, text: str) -> None:
        """Keep it."""
        self.said.append(text)


def measured(monkeypatch: pytest.MonkeyPatch, launches: Played, effort: Effort) -> tuple[SelfTest, list[str]]:
    """Run a self-test with played launches; the engines are built for real."""
    monkeypatch.setattr(selftest, "TimingProcess", launches)
    steps = Said()
    result = run_selftest(effort, IDENTITY, steps=steps, backend="ort", clock=launches.clock)
    return result, steps.said


def test_every_launch_counts_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five of five, one line each, and each in an order of its own."""
    launches = Played()
    result, said = measured(monkeypatch, launches, Effort(launches=5, kinds=TINY))
    assert (result.launches, result.planned, result.backend, result.device) == (5, 5, "ort", "cpu")
    assert dict(result.identity) == IDENTITY
    assert [line.split(":")[0] for line in said[1:]] == [f"launch {number} of 5" for number in range(1, 6)]
    assert result.notes == ("busy machine in 2 of 5 launches",)
    assert len(result.kinds[0].draws) == 5
    assert len(set(launches.seeds)) == 5


def test_each_kind_of_model_is_timed_in_each_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in a process of its own, as a check is; its figures are its own."""
    launches = Played()
    result, _ = measured(monkeypatch, launches, Effort(launches=3, kinds=WORKLOADS[:2]))
    assert [kind.name for kind in result.kinds] == ["tiny", "compute-bound"]
    assert len(launches.seeds) == 6
    assert result.kinds[0].draws != result.kinds[1].draws


def test_an_interrupt_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of twenty are enough to say something."""
    result, said = measured(monkeypatch, Played(ends=4), Effort(kinds=TINY))
    assert (result.launches, result.planned) == (3, 20)
    assert said[-1] == "interrupted: the 3 launches that were measured count"


def test_an_early_interrupt_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two launches there is nothing to say."""
    with pytest.raises(KeyboardInterrupt):
        measured(monkeypatch, Played(ends=3), Effort(kinds=TINY))


def test_no_launch_is_begun_that_would_end_past_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes 10 s by a played clock: after four, another one would be over at 50 of 45 s."""
    result, said = measured(monkeypatch, Played(seconds=10.0), Effort(10, 45.0, kinds=TINY))
    assert result.launches == 4
    assert said[-1] == "the time is spent after 4 of 10 launches"
    assert result.seconds == 40.0


def test_a_slow_machine_measures_the_fewest_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three, however long they take."""
    result, _ = measured(monkeypatch, Played(seconds=100.0), Effort(10, 45.0, kinds=TINY))
    assert result.launches == 3


def test_a_launch_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its last words and the next step."""
    with pytest.raises(LaunchError, match="opening ort-int8 failed") as raised:
        measured(monkeypatch, Played(dies=True), Effort(kinds=TINY))
    assert "it died with signal 4" in str(raised.value)
    assert "pytest-quant doctor" in str(raised.value)
    assert raised.value.log == "its.log"


def test_a_machine_without_time_for_eight_rounds_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures would mean nothing."""
    with pytest.raises(LaunchError, match="too slow, or too busy"):
        measured(monkeypatch, Played(rounds=7), Effort(launches=3, kinds=TINY))


def test_without_a_backend_there_is_nothing_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names those that could be, and the command that tells what they need."""
    monkeypatch.setattr(selftest, "backend_names", lambda: ("ort-cuda", "torch"))
    with pytest.raises(BackendUnavailable, match="nothing to time") as raised:
        run_selftest(Effort(kinds=TINY), IDENTITY, steps=Said())
    assert "pytest-quant doctor" in str(raised.value)


@pytest.mark.parametrize("names", [("openvino", "ort", "trt-rtx"), ("openvino", "trt-rtx")])
def test_an_installed_backend_is_taken_that_is_no_simulation(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    """The one that offers most, and another where that is not there."""
    wanted = "ort" if "ort" in names else "openvino"
    if not get_backend(wanted).availability().available:
        pytest.skip(f"{wanted} cannot run here")
    monkeypatch.setattr(selftest, "backend_names", lambda: names)
    monkeypatch.setattr(selftest, "TimingProcess", Played())
    result = run_selftest(Effort(3, kinds=TINY), IDENTITY, steps=Said())
    assert result.backend == wanted


@pytest.mark.parametrize(
    ("name", "error"), [("torch", UsageError), ("otr", UsageError), ("ort-cuda", BackendUnavailable)]
)
def test_a_backend_that_cannot_be_timed_is_refused(name: str, error: type[Exception]) -> None:
    """It reads no files, is unknown, or its device is not here."""
    if get_backend("ort-cuda").availability().available:
        pytest.skip("a GPU is here")
    with pytest.raises(error):
        run_selftest(Effort(kinds=TINY), IDENTITY, steps=Said(), backend=name)
