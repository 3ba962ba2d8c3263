"""Benchmarks show their figures, also when they pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def figures_are_shown(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Let what a benchmark prints through to the terminal and the CI log."""
    with capsys.disabled():
        yield
