"""The shipped conformance suite on ONNX Runtime's OpenVINO plugin."""

from __future__ import annotations

import pytest

from pytest_quant.backends import Backend
from pytest_quant.backends.ort.openvino import OrtOpenVinoBackend
from pytest_quant.testing import BackendConformance
from tests.integration.ort_provider_traps.any_cpu import offer_any_cpu


@pytest.fixture(scope="module", autouse=True)
def _plugin() -> None:
    offer_any_cpu()


class TestOrtOpenVino(BackendConformance):
    """OpenVINO as a provider of ONNX Runtime, on a CPU of any maker."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Quantized by ONNX Runtime, run by OpenVINO."""
        return OrtOpenVinoBackend()
