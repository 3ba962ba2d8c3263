"""For authors of backends: a reference backend in numpy, and the tests that every backend passes.

Write, in your own test suite::

    import pytest
    from pytest_quant.testing import BackendConformance

    class TestMyBackend(BackendConformance):
        @pytest.fixture
        def backend(self):
            return MyBackend()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_quant.testing.conformance import BackendConformance, ModuleBackendConformance
    from pytest_quant.testing.numpy_backend import NumpyBackend

__all__ = ["BackendConformance", "ModuleBackendConformance", "NumpyBackend"]


def __getattr__(name: str) -> object:
    """Import a public name from where it lives: the backend needs no pytest."""
    if name not in __all__:
        raise AttributeError(f"module 'pytest_quant.testing' has no attribute '{name}'")
    home = "numpy_backend" if name == "NumpyBackend" else "conformance"
    return getattr(import_module(f"pytest_quant.testing.{home}"), name)
