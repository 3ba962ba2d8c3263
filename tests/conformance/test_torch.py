"""The shipped conformance suite on PyTorch."""

from __future__ import annotations

import pytest

from pytest_quant.backends import Backend, get_backend
from pytest_quant.testing import ModuleBackendConformance


class TestTorch(ModuleBackendConformance):
    """PyTorch on the CPU, compiled by Inductor."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Come through the entry point, as in a real run."""
        return get_backend("torch")
