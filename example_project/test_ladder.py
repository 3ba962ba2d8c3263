"""Every way to run the digit classifier, side by side in one table."""

from __future__ import annotations

import pytest


@pytest.mark.quant(precision=["fp32", "int8"], scheme=["static", "dynamic"], max_drop=0.5, min_coverage=0)
def test_ladder() -> None:
    """The two lists make three tests: fp32 has no scheme.

    Dynamic INT8 takes the dense layer alone, 0.91 % of the compute, which fails by default: 0 asks for any at all.
    """
