# written by pytest-quant init
"""The first quant check of digits; the fixtures in conftest.py give its model and its samples."""

from __future__ import annotations

import pytest


@pytest.mark.quant(backend="trt", max_drop=1.0)
def test_digits_int8_on_gpu() -> None:
    """INT8 is at most one percentage point less accurate than FP32, and half of the compute at least runs as INT8.

    More limits, when you know what to expect: min_speedup=1.2, max_latency_ms=5, max_size_mb=30, max_slowdown=5.
    """
