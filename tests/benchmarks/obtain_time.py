"""A pytest plugin for one run: adds up the seconds in which engines are built and references evaluated, or looked up.

The sum goes to the file that the environment variable ``OBTAIN_TIME_FILE`` names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from pytest_quant.measure import pipeline

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

SPENT_S: list[float] = []


def timed(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return `function` with its time added to the sum."""

    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        started = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            SPENT_S.append(time.perf_counter() - started)

    return call


def pytest_configure() -> None:
    """Time the two functions through which everything comes."""
    for name in ("build_engine", "record_outputs"):
        setattr(pipeline, name, timed(getattr(pipeline, name)))


def pytest_unconfigure() -> None:
    """Write the sum."""
    Path(os.environ["OBTAIN_TIME_FILE"]).write_text(str(sum(SPENT_S)), "utf-8")
