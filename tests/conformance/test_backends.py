"""The shipped conformance suite, on the backends of this package."""

from __future__ import annotations

import pytest

from pytest_quant.backends import Backend, get_backend
from pytest_quant.backends.ort.openvino import OrtOpenVinoBackend
from pytest_quant.testing import BackendConformance, NumpyBackend
from tests.integration.ort_provider_traps.any_cpu import offer_any_cpu


class TestOrt(BackendConformance):
    """ONNX Runtime on the CPU."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Come through the entry point, as in a real run."""
        return get_backend("ort")


class TestNumpy(BackendConformance):
    """The reference backend in numpy."""

    @pytest.fixture
    def backend(self) -> Backend:
        """It has no entry point: it is for authors of backends, and no check of a user names it."""
        return NumpyBackend()


class TestOpenVino(BackendConformance):
    """OpenVINO on the CPU, quantized by NNCF."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Come through the entry point, as in a real run."""
        return get_backend("openvino")


class TestOrtOpenVino(BackendConformance):
    """OpenVINO as a provider of ONNX Runtime, on a CPU of any maker."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Quantized by ONNX Runtime, run by OpenVINO."""
        offer_any_cpu()
        return OrtOpenVinoBackend()
