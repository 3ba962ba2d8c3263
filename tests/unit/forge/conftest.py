"""A forge on this machine, which no proxy stands before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.forge_server import FakeForge, serving


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeForge]:
    """A server that speaks the shapes of both forges."""
    monkeypatch.setenv("no_proxy", "*")
    with serving() as found:
        yield found
