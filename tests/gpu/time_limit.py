"""A plugin for the suites of this folder: a test that takes longer than ``--test-limit`` fails, and the next one runs.

It interrupts Python code only. Where a library does not return, the time of the whole part ends it; the log of the part
has every test before.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the limit."""
    parser.addoption("--test-limit", type=float, default=0.0, help="seconds of a set-up or call; 0 for no limit")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Any:
    """Bound the set-up."""
    with _limit(item.config.getoption("--test-limit")):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Bound the test itself."""
    with _limit(item.config.getoption("--test-limit")):
        return (yield)


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        pytest.fail(f"it did not end within {seconds:g} s", pytrace=True)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
