"""A step that lasts is shown, then the time it takes; one that takes too long is ended, else the process is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.errors import BuildError
from pytest_quant.measure import steps
from pytest_quant.measure.steps import REPEAT_EVERY_S, SHOW_AFTER_S, Steps


class Watched:
    """A `Steps` whose clock stands still until it is told, looked at by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.lines: list[str] = []
        self.watches: list[Callable[[], None]] = []
        self.steps = Steps(self.lines.append, clock=lambda: self.now_s, start=self.watches.append)

    def pass_by(self, seconds: float) -> None:
        """Let time pass, looking whenever something may be due."""
        end_s = self.now_s + seconds
        while (wait_s := self.steps.look()) is not None and self.now_s + wait_s <= end_s:
            self.now_s += wait_s
        self.now_s = end_s


@given(st.integers(1, 6))
def test_a_long_step_is_shown_once_and_then_its_time(times: int) -> None:
    """After 2 s the text, then every 10 s the time, at the end that it is done."""
    watched = Watched()
    with watched.steps.show("building x"):
        watched.pass_by(SHOW_AFTER_S + REPEAT_EVERY_S * (times - 1) + 1)
    shown = [f"building x ... {2 + 10 * i} s" for i in range(1, times)]
    end = f"building x: done after {2 + 10 * (times - 1) + 1} s"
    assert watched.lines == ["building x ...", *shown, end]


@given(st.lists(st.floats(0.01, 5.0), min_size=1, max_size=20), st.floats(2.1, 9.0))
def test_a_step_among_short_ones_is_shown(short: Sequence[float], long: float) -> None:
    """Inside, before and after others: each is watched from its own beginning."""
    watched = Watched()
    with watched.steps.show("all"):
        for seconds in short:
            with watched.steps.show("short"):
                watched.pass_by(min(seconds, 1.9))
        with watched.steps.show("long"):
            watched.pass_by(long)
    assert watched.lines.count("long ...") == 1
    assert not any("short" in line for line in watched.lines)


def test_foreign_text_in_a_line_acts_upon_nothing() -> None:
    """Steps name models and data, whose names are somebody else's."""
    lines: list[str] = []
    Steps(lines.append).notify("building a\x1b[2J\n::error::b ##[error]c")
    assert lines == ["building a\\x1b[2J\\n::error::b \\x23#[error]c"]


GIVE_UP_S = 60.0


def cannot_stop() -> bool:
    """The call under way cannot be ended."""
    return False


class Process:
    """What was said and done in place of the end of this process."""

    def __init__(self, limit_s: float) -> None:
        self.told: list[str] = []
        self.codes: list[int] = []
        self.ended = threading.Event()
        self.watch = Steps(self.told.append, limit_s, end=self._end).watch

    def _end(self, code: int) -> None:
        self.codes.append(code)
        self.ended.set()


def _looking() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "quant-steps"}


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
    monkeypatch.setattr(steps, "_STOPS_WITHIN_S", 0.05)
    process = Process(0.05)
    with process.watch("a run of x", lambda: True):
        assert process.ended.wait(GIVE_UP_S)
    assert process.codes == [2]


def test_the_time_of_a_block_within_counts_for_it_alone() -> None:
    """A build that calibrates for nearly the whole limit has all of its own time left."""
    now_s = iter([0.0, 10.0, 95.0, 184.9, 185.0, 185.0])
    ended: list[int] = []
    steps = Steps(str, 100.0, clock=lambda: next(now_s), start=lambda _: None, end=ended.append)
    with steps.watch("building x", cannot_stop):
        with steps.watch("calibrating x", cannot_stop):
            pass
        steps.look()
        assert ended == []
        steps.look()
    assert ended == [2]


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
    with Steps(str).watch("anything", cannot_stop):
        assert process.codes == []
