"""A call that takes too long is ended, by the runtime where that can, else with the process."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from pytest_quant.errors import BuildError
from pytest_quant.measure import watchdog
from pytest_quant.measure.watchdog import Watchdog, unwatched

GIVE_UP_S = 60.0


def cannot_stop() -> bool:
    """The call under way cannot be ended."""
    return False


class Process:
    """What the watchdog said and did, in place of the end of this process."""

    def __init__(self, limit_s: float) -> None:
        self.told: list[str] = []
        self.codes: list[int] = []
        self.ended = threading.Event()
        self.watch = Watchdog(limit_s, self.told.append, self._end)

    def _end(self, code: int) -> None:
        self.codes.append(code)
        self.ended.set()


def _looking() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "quant-watchdog"}


def test_a_runtime_that_can_be_stopped_is() -> None:
    """What it raises then is told as the limit, with the option; the process goes on."""
    process = Process(0.05)
    asked = threading.Event()

    def stop() -> bool:
        asked.set()
        return True

    def run() -> None:
        assert asked.wait(GIVE_UP_S)
        raise RuntimeError("terminated")

    with pytest.raises(BuildError, match=r"a run of x did not end within 0.05 s") as raised:  # noqa: SIM117
        with process.watch("a run of x", stop):
            run()
    assert "--quant-step-timeout" in str(raised.value)
    assert str(raised.value.__cause__) == "terminated"
    assert process.codes == []


def test_a_call_that_cannot_be_stopped_ends_the_process() -> None:
    """With a message that names it, before that; the exit code is that of an interrupted run."""
    process = Process(0.05)
    with process.watch("building x", cannot_stop):
        assert process.ended.wait(GIVE_UP_S)
    assert process.codes == [2]
    assert "building x did not end within 0.05 s" in process.told[0]
    assert "finished checks are kept" in process.told[0]


def test_a_runtime_that_was_asked_and_goes_on_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given some time for its last node."""
    monkeypatch.setattr(watchdog, "_STOPS_WITHIN_S", 0.05)
    process = Process(0.05)
    with process.watch("a run of x", lambda: True):
        assert process.ended.wait(GIVE_UP_S)
    assert process.codes == [2]


def test_calls_within_the_limit_are_left_alone() -> None:
    """Each has the whole limit, however many follow each other; an error of its own stays its own."""
    process = Process(GIVE_UP_S)
    for _ in range(1000):
        with process.watch("a run of x", cannot_stop):
            pass
    with pytest.raises(ZeroDivisionError), process.watch("a run of x", cannot_stop):
        _ = 1 / 0
    assert process.codes == []


def test_a_block_around_others_is_bounded_after_them() -> None:
    """A build calibrates: while it does, the time is that of the calibration."""
    process = Process(0.1)
    with process.watch("building x", cannot_stop):
        with process.watch("calibrating x", cannot_stop):
            assert process.ended.wait(GIVE_UP_S)
        assert "calibrating x" in process.told[0]


def test_the_time_of_a_block_within_counts_for_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that calibrates for nearly the whole limit has all of its own time left."""
    now = iter([0.0, 10.0, 95.0, *[100.0] * 100])
    clock = SimpleNamespace(monotonic=lambda: next(now))
    monkeypatch.setattr(watchdog, "time", clock)
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    watch = Process(100.0).watch
    with watch("building x", cannot_stop):
        with watch("calibrating x", cannot_stop):
            pass
        assert watch._call is not None
        assert watch._call.until == 100.0 + 85.0


def test_one_thread_looks_and_leaves_when_nothing_runs() -> None:
    """A run of tests is not left with a thread for each of its calls."""
    process, before = Process(0.2), _looking()
    for _ in range(100):
        with process.watch("a run of x", cannot_stop):
            pass
    assert len(_looking() - before) <= 1
    given_up = time.monotonic() + GIVE_UP_S
    while _looking() - before:
        assert time.monotonic() < given_up
        threading.Event().wait(0.01)
    with unwatched("anything", cannot_stop):
        assert process.codes == []
