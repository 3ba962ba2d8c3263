"""One network trained for int8 (QAT), judged in the toolchain it was trained with and after export in others."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.quant(
    model="digits_module", data="digits_samples", quantized="digits_qat", scheme="qat", max_drop=1.0
)


@pytest.mark.quant(backend=["torch", "ort", "openvino"])
def test_same_network_everywhere() -> None:
    """The converted module in PyTorch, and its Q/DQ export in the other two."""
