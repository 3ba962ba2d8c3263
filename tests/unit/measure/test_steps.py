"""A step that lasts is shown with its time; one that takes too long is ended, else the process is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.errors import BuildError
from pytest_quant.measure import steps
from pytest_quant.measure.steps import Steps


class Watched:
    """A `Steps` whose clock stands still until it is told, looked at by hand; `in_place` shows them on a terminal."""

    def __init__(self, *, in_place: bool = False) -> None:
        self.now_s = 100.0
        self.lines: list[str] = []
        self.passing: list[str] = []
        self.watches: list[Callable[[], None]] = []
        passing = self.passing.append if in_place else None
        self.steps = Steps(self.lines.append, passing=passing, clock=lambda: self.now_s, start=self.watches.append)

    def pass_by(self, seconds: float) -> None:
        """Let time pass, looking whenever something may be due."""
        end_s = self.now_s + seconds
        while (wait_s := self.steps.look()) is not None and self.now_s + wait_s <= end_s:
            self.now_s += wait_s
        self.now_s = end_s


@pytest.mark.parametrize("lasts_s", [9, 10, 59, 130, 600])
def test_in_a_log_a_long_step_has_few_lines(lasts_s: int) -> None:
    """After 10, 30, 60 and 120 s, then every two minutes, and at its end; a short one has none."""
    watched = Watched()
    with watched.steps.show("building x"):
        watched.pass_by(lasts_s)
    shown = [f"{at_s} s: building x" for at_s in (10, 30, 60, 120, 240, 360, 480, 600) if at_s <= lasts_s]
    assert watched.lines == [*shown, *([f"building x: took {lasts_s} s"] if shown else [])]


def test_on_a_terminal_the_innermost_step_is_shown_in_one_place() -> None:
    """Every 2 s, with what it says by then; nothing is left of it at its end, nor where it fails."""
    watched = Watched(in_place=True)
    with watched.steps.show("all"):
        watched.pass_by(2)
        with suppress(ZeroDivisionError), watched.steps.show("building x"):
            watched.pass_by(3)
            watched.steps.describe("calibrating x")
            watched.pass_by(2)
            raise ZeroDivisionError
    assert watched.passing == ["2 s: all", "2 s: building x", "4 s: calibrating x", "", ""]
    assert watched.lines == []


@given(st.lists(st.floats(0.01, 5.0), min_size=1, max_size=20), st.floats(10.1, 19.0))
def test_a_step_among_short_ones_is_shown(short: Sequence[float], long: float) -> None:
    """Inside, before and after others: each is watched from its own beginning."""
    watched = Watched()
    with watched.steps.show("all"):
        for seconds in short:
            with watched.steps.show("short"):
                watched.pass_by(min(seconds, 1.9))
        with watched.steps.show("long"):
            watched.pass_by(long)
    assert watched.lines.count("10 s: long") == 1
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
        self.texts: list[str] = []
        self.codes: list[int] = []
        self.ended = threading.Event()
        self.watch = Steps(self.texts.append, limit_s, end=self._end).watch

    def _end(self, code: int) -> None:
        self.codes.append(code)
        self.ended.set()


def _looking() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "quant-steps"}


def test_a_runtime_that_can_be_stopped_is() -> None:
    """What it raises then is told as the limit, with the option; the process goes on."""
    process = Process(0.05)
    stopped = threading.Event()

    def stop() -> bool:
        stopped.set()
        return True

    def run() -> None:
        assert stopped.wait(GIVE_UP_S)
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
    assert "building x did not end within 0.05 s" in process.texts[0]
    assert "finished checks are kept" in process.texts[0]


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
