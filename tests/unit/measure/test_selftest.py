"""A self-test starts fresh processes until it has enough, keeps what it has, and says what is missing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import get_backend
from pytest_quant.backends.workload import WORKLOADS
from pytest_quant.errors import BackendUnavailable, LaunchError, UsageError
from pytest_quant.measure import selftest
from pytest_quant.measure.selftest import Effort, run_selftest
from pytest_quant.result import SelfTest

IDENTITY = {"cpu": "Some CPU"}
TINY = WORKLOADS[:1]


class Played:
    """Stands in for the processes, and is the clock: time passes only while one of them runs.

    Each writes `rounds` of known noise and takes `seconds`; the one with the number `ends` is interrupted, and with a
    `code` it dies.
    """

    def __init__(self, rounds: int = 40, ends: int | None = None, code: int = 0, seconds: float = 0.0) -> None:
        self._rounds, self._ends, self._code, self._seconds = rounds, ends, code, seconds
        self._rng, self._started = np.random.default_rng(0), 0

    def clock(self) -> float:
        """Return the seconds that have passed."""
        return self._started * self._seconds

    def __call__(self, command: Sequence[str], _limit_s: float) -> subprocess.CompletedProcess[str]:
        """Be one process."""
        self._started += 1
        if self._started == self._ends:
            raise KeyboardInterrupt
        if not self._code:
            found = {"rounds": [self._found() for _ in command[4:]], "notes": self._notes()}
            Path(command[3]).write_text(json.dumps(found))
        return subprocess.CompletedProcess(command, self._code, "", "loading\nIllegal instruction\n")

    def _notes(self) -> list[str]:
        """Name what disturbed the first two."""
        busy = "busy machine: other processes used 1.4 of 2 processors"
        return ["wide spread: of rounds", *([busy, busy] if self._started < 3 else [])]

    def _found(self) -> dict[str, list[float]]:
        sides = {"reference": 1e5, "null": 1e5, "candidate": 5e4}
        return {name: list(ns * np.exp(self._rng.normal(0.0, 0.01, self._rounds))) for name, ns in sides.items()}


def measured(monkeypatch: pytest.MonkeyPatch, processes: Played, effort: Effort) -> tuple[SelfTest, list[str]]:
    """Run a self-test with played processes; the engines are built for real."""
    monkeypatch.setattr(selftest, "run_apart", processes)
    said: list[str] = []
    found = run_selftest(
        effort, IDENTITY, step=lambda _: nullcontext(), notify=said.append, backend="ort", clock=processes.clock
    )
    return found, said


def test_every_process_counts_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five of five, one line each."""
    found, said = measured(monkeypatch, Played(), Effort(processes=5, kinds=TINY))
    assert (found.processes, found.asked, found.backend, found.device) == (5, 5, "ort", "cpu")
    assert dict(found.identity) == IDENTITY
    assert [line.split(":")[0] for line in said[1:]] == [f"process {number} of 5" for number in range(1, 6)]
    assert found.notes == ("busy machine in 2 of 5 processes",)
    assert found.kinds[0].round_sd_pct == pytest.approx(1.4, abs=0.3)


def test_an_interrupt_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of twenty are enough to say something."""
    found, said = measured(monkeypatch, Played(ends=4), Effort(kinds=TINY))
    assert (found.processes, found.asked) == (3, 20)
    assert said[-1] == "interrupted: the 3 processes that were measured count"


def test_an_early_interrupt_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processes there is nothing to say."""
    with pytest.raises(KeyboardInterrupt):
        measured(monkeypatch, Played(ends=3), Effort(kinds=TINY))


def test_no_process_is_begun_that_would_end_past_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes 10 s by a played clock: after four, another one would be over at 50 of 45 s."""
    found, said = measured(monkeypatch, Played(seconds=10.0), Effort(10, 45.0, kinds=TINY))
    assert found.processes == 4
    assert said[-1] == "the time is spent after 4 of 10 processes"
    assert found.seconds == 40.0


def test_a_slow_machine_measures_the_fewest_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three, however long they take."""
    found, _ = measured(monkeypatch, Played(seconds=100.0), Effort(10, 45.0, kinds=TINY))
    assert found.processes == 3


def test_a_process_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its last words and the next step."""
    with pytest.raises(LaunchError, match="died with code 132") as caught:
        measured(monkeypatch, Played(code=132), Effort(kinds=TINY))
    assert "Illegal instruction" in str(caught.value)
    assert "pytest-quant doctor" in str(caught.value)


def test_a_machine_without_time_for_eight_rounds_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures would mean nothing."""
    with pytest.raises(LaunchError, match="too slow, or too busy"):
        measured(monkeypatch, Played(rounds=7), Effort(processes=3, kinds=TINY))


def test_without_a_backend_there_is_nothing_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names those that could be, and the command that tells what they need."""
    monkeypatch.setattr(selftest, "backend_names", lambda: ("ort-cuda", "torch"))
    with pytest.raises(BackendUnavailable, match="nothing to time") as caught:
        run_selftest(Effort(kinds=TINY), IDENTITY, step=lambda _: nullcontext(), notify=print)
    assert "pytest-quant doctor" in str(caught.value)


@pytest.mark.parametrize("names", [("openvino", "ort", "trt-rtx"), ("openvino", "trt-rtx")])
def test_an_installed_backend_is_taken_that_is_no_simulation(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    """The one that offers most, and another where that is not there."""
    wanted = "ort" if "ort" in names else "openvino"
    if not get_backend(wanted).availability().available:
        pytest.skip(f"{wanted} cannot run here")
    monkeypatch.setattr(selftest, "backend_names", lambda: names)
    monkeypatch.setattr(selftest, "run_apart", Played())
    found = run_selftest(Effort(3, kinds=TINY), IDENTITY, step=lambda _: nullcontext(), notify=lambda _: None)
    assert found.backend == wanted


@pytest.mark.parametrize(
    ("name", "error"), [("torch", UsageError), ("otr", UsageError), ("ort-cuda", BackendUnavailable)]
)
def test_a_backend_that_cannot_be_timed_is_refused(name: str, error: type[Exception]) -> None:
    """It reads no files, is unknown, or its device is not here."""
    if get_backend("ort-cuda").availability().available:
        pytest.skip("a GPU is here")
    with pytest.raises(error):
        run_selftest(Effort(kinds=TINY), IDENTITY, step=lambda _: nullcontext(), notify=print, backend=name)
