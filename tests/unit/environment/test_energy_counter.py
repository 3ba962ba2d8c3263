"""Energy counters of devices."""

from __future__ import annotations

import pytest

from pytest_quant.environment import energy_counter as module
from pytest_quant.environment.energy_counter import energy_counter
from pytest_quant.environment.rapl import RaplReading
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, each, error, uuid_of


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


def test_a_gpu_has_the_counter_of_its_card(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the card that the environment leaves to CUDA, as often as it is read; NVML is opened once."""
    nvml_stub.play(StubCard(energy_mj=5), StubCard(energy_mj=each(7_000_000, 7_000_900)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid_of(1))
    with energy_counter("cuda:0") as counter:
        assert counter is not None
        assert [counter() for _ in range(3)] == [7_000_000.0, 7_000_900.0, 7_000_900.0]
    with energy_counter("cuda:1") as counter:
        assert counter is None


def test_an_instance_has_the_counter_of_its_card(nvml_stub: NvmlStub) -> None:
    """NVML refuses it for the instance."""
    nvml_stub.play(StubCard(energy_mj=55, mig=1, instances=(StubInstance(uuid_of(9, "MIG")),)))
    with energy_counter("cuda:0") as counter:
        assert counter is not None
        assert counter() == 55.0


@pytest.mark.parametrize("energy_mj", [None, error(999)])
def test_a_gpu_that_does_not_count_is_no_zero(energy_mj: str | None, nvml_stub: NvmlStub) -> None:
    """Virtual devices and cards before Volta have no counter."""
    nvml_stub.play(StubCard(energy_mj=energy_mj))
    with energy_counter("cuda:0") as counter:
        assert counter is None or counter() is None


def test_a_processor_does_not_open_the_driver_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check on the CPU pays nothing for them."""
    monkeypatch.setattr(module, "opened_nvml", pytest.fail)
    with energy_counter("cpu"):
        pass
