"""The shipped conformance suite on OpenVINO."""

from __future__ import annotations

import pytest

from pytest_quant.backends import Backend, get_backend
from pytest_quant.testing import BackendConformance


class TestOpenVino(BackendConformance):
    """OpenVINO on the CPU, quantized by NNCF."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Come through the entry point, as in a real run."""
        return get_backend("openvino")
