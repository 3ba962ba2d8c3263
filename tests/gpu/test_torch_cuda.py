"""PyTorch on a real GPU: the shipped conformance suite, and TF32."""

from __future__ import annotations

import pytest

from pytest_quant.backends import Backend, get_backend
from pytest_quant.testing import ModuleBackendConformance

pytestmark = pytest.mark.gpu


class TestTorchCuda(ModuleBackendConformance):
    """Half precision and int8 weights on the device."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Come through the entry point, or be skipped with the reason."""
        backend = get_backend("torch-cuda")
        found = backend.availability()
        if not found.available:
            pytest.skip(found.reason)
        return backend
