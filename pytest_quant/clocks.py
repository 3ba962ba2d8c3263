"""The real clocks, held where tests cannot replace them.

Libraries such as freezegun put a clock of their own in the place of each function of `time` and `datetime` that an
attribute of a module holds, and time-machine changes what the functions for the time of day return. What is measured,
waited for and dated here goes by the clocks of this module, which the plugin loads before any test.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple, TypeAlias


class _Clocks(NamedTuple):
    perf_counter: Callable[[], float]
    perf_counter_ns: Callable[[], int]


REAL = _Clocks(time.perf_counter, time.perf_counter_ns)
"""Seconds and nanoseconds that only grow. An attribute of an instance is no attribute of a module."""

_BEGAN = datetime.now(UTC) - timedelta(seconds=time.perf_counter())

Moment: TypeAlias = Annotated[datetime, "the class of the standard library"]
"""For fields whose type is looked up while a test may have replaced the name `datetime` in every module."""


def now() -> datetime:
    """Return the time of day in UTC: when this module was loaded, plus the time that has passed since."""
    return _BEGAN + timedelta(seconds=REAL.perf_counter())
