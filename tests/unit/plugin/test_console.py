"""A step that lasts is shown, then the time it takes; one that does not is silent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.plugin.console import REPEAT_EVERY_S, SHOW_AFTER_S, Progress


class Watched:
    """A `Progress` whose clock stands still until it is told, looked at by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.lines: list[str] = []
        self.watches: list[Callable[[], None]] = []
        self.progress = Progress(self.lines.append, clock=lambda: self.now_s, watch=self.watches.append)

    def pass_by(self, seconds: float) -> None:
        """Let time pass, looking whenever something may be due."""
        end_s = self.now_s + seconds
        while (wait_s := self.progress.look()) is not None and self.now_s + wait_s <= end_s:
            self.now_s += wait_s
        self.now_s = end_s


def test_a_short_step_is_silent() -> None:
    """Nothing is shown before 2 s."""
    watched = Watched()
    with watched.progress.step("building x"):
        watched.pass_by(SHOW_AFTER_S - 0.01)
    assert watched.lines == []


@given(st.integers(1, 6))
def test_a_long_step_is_shown_once_and_then_its_time(times: int) -> None:
    """After 2 s the text, then every 10 s the time, at the end that it is done."""
    watched = Watched()
    with watched.progress.step("building x"):
        watched.pass_by(SHOW_AFTER_S + REPEAT_EVERY_S * (times - 1) + 1)
    shown = [f"quant: building x ... {2 + 10 * i} s" for i in range(1, times)]
    end = f"quant: building x: done after {2 + 10 * (times - 1) + 1} s"
    assert watched.lines == ["quant: building x ...", *shown, end]


@given(st.lists(st.floats(0.01, 5.0), min_size=1, max_size=20), st.floats(2.1, 9.0))
def test_a_step_among_short_ones_is_shown(short: Sequence[float], long: float) -> None:
    """Inside, before and after others: each is watched from its own beginning."""
    watched = Watched()
    with watched.progress.step("all"):
        for seconds in short:
            with watched.progress.step("short"):
                watched.pass_by(min(seconds, 1.9))
        with watched.progress.step("long"):
            watched.pass_by(long)
    assert watched.lines.count("quant: long ...") == 1
    assert not any("short" in line for line in watched.lines)


def test_steps_in_a_row_need_one_thread() -> None:
    """And another one only after there was nothing to watch."""
    watched = Watched()
    for _ in range(3):
        with watched.progress.step("building x"):
            watched.pass_by(0.1)
    assert len(watched.watches) == 1
    assert watched.progress.look() is None
    with watched.progress.step("building x"):
        assert len(watched.watches) == 2


def test_a_step_that_raises_ends() -> None:
    """The error passes, and nothing is watched any more."""
    watched = Watched()
    with pytest.raises(KeyError), watched.progress.step("building x"):
        raise KeyError
    assert watched.progress.look() is None


def test_the_thread_ends_with_the_last_step() -> None:
    """It is a real one here, whose clock says that the step has lasted for long."""
    shown = threading.Event()
    times = chain([0.0], repeat(SHOW_AFTER_S))
    watchers: list[threading.Thread] = []

    def watch(look: Callable[[], None]) -> None:
        watchers.append(threading.Thread(target=look))
        watchers[-1].start()

    with Progress(lambda _: shown.set(), clock=lambda: next(times), watch=watch).step("building x"):
        assert shown.wait(60)
    (watcher,) = watchers
    watcher.join(60)
    assert not watcher.is_alive()


def test_notify_is_one_line_now() -> None:
    """A message needs no waiting."""
    lines: list[str] = []
    Progress(lines.append).notify("waiting for another process")
    assert lines == ["quant: waiting for another process"]


def test_foreign_text_in_a_line_acts_upon_nothing() -> None:
    """Steps name models and data, whose names are somebody else's."""
    lines: list[str] = []
    Progress(lines.append).notify("building a\x1b[2J\n::error::b ##[error]c")
    assert lines == ["quant: building a\\x1b[2J\\n::error::b \\x23#[error]c"]
