"""Peak memory added by a block."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.measure import resources
from pytest_quant.measure.resources import AddedMemory, PeakMemory

MB = 1_000_000


@pytest.fixture(autouse=True)
def garbage_of_other_tests_is_gone() -> Iterator[None]:
    """Memory that the collector frees amid the block would be taken off what the block adds."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _use(size_mb: int) -> int:
    """Touch so many megabytes, and give them back."""
    return int(np.ones(size_mb * MB, dtype=np.uint8).sum())


def test_the_peak_counts_memory_that_was_given_back() -> None:
    """200 MB that are free again at the end were the peak."""
    with PeakMemory() as found:
        _use(200)
    assert found.peak_mb is not None
    assert 180 <= found.peak_mb <= 260


def test_added_memory_holds_what_was_allocated() -> None:
    """200 megabytes that are written show up; a CPU has no device memory."""
    with AddedMemory("cpu") as memory:
        held = np.ones(200 * MB, dtype=np.uint8)
    assert memory.process_mb is not None
    assert 180 <= memory.process_mb <= 260
    assert memory.device_mb is None
    assert held.size == 200 * MB


def test_an_earlier_peak_does_not_count() -> None:
    """What was used before the block is not the block's."""
    _use(300)
    with PeakMemory() as found:
        _use(20)
    assert found.peak_mb is not None
    assert found.peak_mb <= 60


@pytest.mark.parametrize("file", ["missing/clear_refs", "ignored"])
def test_a_peak_that_cannot_be_reset_is_no_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str) -> None:
    """A sandbox that accepts the reset and does nothing would report the largest earlier block."""
    monkeypatch.setattr(resources, "_CLEAR_REFS", tmp_path / file)
    _use(300)
    with PeakMemory() as found:
        _use(20)
    assert found.peak_mb is None
