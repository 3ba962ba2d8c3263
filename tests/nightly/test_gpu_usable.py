"""What a test on a GPU does where its backend cannot run."""

from __future__ import annotations

import pytest

from pytest_quant.backends import Availability
from pytest_quant.testing import NumpyBackend
from tests.gpu import usable


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (Availability(False, reason="not installed"), pytest.skip.Exception),
        (Availability(False, reason="does not load", broken=True), pytest.fail.Exception),
    ],
)
def test_what_is_broken_is_no_skip(
    found: Availability, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider that is here and does not load would pass for one that the machine lacks."""
    backend = NumpyBackend()
    monkeypatch.setattr(backend, "availability", lambda _: found)
    monkeypatch.setattr(usable, "get_backend", lambda _: backend)
    # A skip that is not caught would skip this test.
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception), match=found.reason) as raised:
        usable.usable("numpy")
    assert raised.type is outcome
