"""Backends that options name: they must be registered, and required ones must be used."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pytest_quant.backends import backend_names
from pytest_quant.errors import nearest


def refuse_unknown(option: str, names: Collection[str]) -> None:
    """Raise `pytest.UsageError` for a backend that nobody registers."""
    known = backend_names()
    for name in names:
        if name not in known:
            raise pytest.UsageError(f"{option}: unknown backend '{name}'; {nearest(name, known)}")


def unused(required: Collection[str], used: Collection[str]) -> list[str]:
    """Return a line for every required backend that no check was made on."""
    known = backend_names()
    return [
        f"--quant-require: no test used '{name}'"
        + ("" if name in known else f", and no backend has that name; {nearest(name, known)}")
        for name in required
        if name not in used
    ]
