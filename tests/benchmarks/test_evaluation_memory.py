"""A check takes at most twice the memory of ONNX Runtime alone, and 150 MB on top."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.benchmarks.evaluation_memory import peaks_of
from tests.benchmarks.memory_networks import SUBJECTS


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count the resident set in other units")
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_check_takes_little_beside_the_runtime(name: str, show: Callable[[str], None]) -> None:
    """Peaks are sizes, and hold on a busy machine too."""
    peaks = peaks_of(SUBJECTS[name])
    show(f"{name}: {peaks.check_mb:.0f} MB, allowed {peaks.allowed_mb:.0f}")
    assert peaks.check_mb <= peaks.allowed_mb
