"""A step that lasts is shown, then the time it takes; one that does not is silent."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.plugin.console import REPEAT_EVERY_S, SHOW_AFTER_S, Progress


def waiting(times: int, waited: list[float], reached: threading.Event) -> Callable[[threading.Event, float], bool]:
    """Return a wait that times out so many times at once, and then waits for the end of the step."""

    def wait(done: threading.Event, timeout_s: float) -> bool:
        waited.append(timeout_s)
        if len(waited) <= times:
            return False
        reached.set()
        return done.wait()

    return wait


def _lines(times: int) -> tuple[list[str], list[float]]:
    """Return what a step shows that lasts for so many waits, and how long each of them was."""
    lines: list[str] = []
    waited: list[float] = []
    reached = threading.Event()
    with Progress(lines.append, wait=waiting(times, waited, reached)).step("building x"):
        reached.wait()
    return lines, waited


def test_a_short_step_is_silent() -> None:
    """Nothing is shown before 2 s."""
    lines, waited = _lines(0)
    assert lines == []
    assert waited == [SHOW_AFTER_S] == [2.0]


@given(st.integers(1, 6))
def test_a_long_step_is_shown_once_and_then_its_time(times: int) -> None:
    """After 2 s the text, then every 10 s the time, at the end that it is done."""
    lines, waited = _lines(times)
    shown = [f"quant: building x ... {2 + 10 * i} s" for i in range(1, times)]
    assert lines[:-1] == ["quant: building x ...", *shown]
    assert lines[-1].startswith("quant: building x: done after ")
    assert waited == [SHOW_AFTER_S, *[REPEAT_EVERY_S] * times]


def test_a_step_that_raises_ends_its_watch() -> None:
    """The error passes, and no thread stays."""
    before = threading.active_count()
    lines: list[str] = []
    with pytest.raises(KeyError), Progress(lines.append).step("building x"):
        raise KeyError
    assert threading.active_count() == before


def test_notify_is_one_line_now() -> None:
    """A message needs no waiting."""
    lines: list[str] = []
    Progress(lines.append).notify("waiting for another process")
    assert lines == ["quant: waiting for another process"]
