"""Energy counters of devices."""

from __future__ import annotations

import pytest

from pytest_quant.environment import energy_counter as module
from pytest_quant.environment.energy_counter import energy_counter
from pytest_quant.environment.rapl import RaplReading


def test_packages_are_added_up_over_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """In millijoules; a counter that starts again more than once is followed, and one that falls silent is no 0."""
    readings = [RaplReading((energy, 5 * energy), (10_000, 50_000)) for energy in (0, 9000, 8000, 7000)]
    monkeypatch.setattr(module, "read_rapl", lambda: readings.pop(0) if readings else None)
    with energy_counter("cpu") as counter:
        assert counter is not None
        assert [counter() for _ in range(4)] == [54.0, 108.0, 162.0, None]


@pytest.mark.parametrize("device", ["cpu", "npu:0"])
def test_a_device_without_a_counter_has_none(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no package can be read, and where the device is neither a processor nor a GPU."""
    monkeypatch.setattr(module, "read_rapl", lambda: None)
    with energy_counter(device) as counter:
        assert counter is None
