"""A backend for a test on a GPU: skipped where it or the device is absent, failed where it is here and broken."""

from __future__ import annotations

import pytest

from pytest_quant.backends import Backend, get_backend
from pytest_quant.spec import EngineSpec


def usable(name: str, spec: EngineSpec | None = None) -> Backend:
    """Return the backend `name` as it comes through the entry point, where it can run, and `spec` if that is given."""
    backend = get_backend(name)
    result = backend.availability(spec)
    if result.broken:
        pytest.fail(f"{name} is installed and does not load: {result.reason}; {result.fix}", pytrace=False)
    if not result.available:
        pytest.skip(result.reason)
    return backend
