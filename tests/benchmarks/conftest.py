"""Benchmarks show their figures, also when they pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a line through to the terminal and the CI log."""

    def write(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}")  # noqa: T201 - the figure is what a benchmark is for

    return write
