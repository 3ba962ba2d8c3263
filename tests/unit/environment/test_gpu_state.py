"""Clocks, memory and energy of a GPU, on machines with and without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.environment.gpu_state import GpuState, clock_notes, gpu_state
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, error, uuid_of

STEADY = GpuState(sm_mhz=1980, memory_mhz=2619, throttled_by=(), used_mb=100.0, energy_mj=1.0)


def test_a_steady_device_has_no_notes() -> None:
    """The same clocks before and after, held down by nothing."""
    assert clock_notes(STEADY, replace(STEADY, used_mb=900.0, energy_mj=7.0)) == ()


def test_a_device_that_slows_down_is_told() -> None:
    """Both clocks and the reason stand in the notes, each reason once."""
    slow = replace(STEADY, sm_mhz=1200, throttled_by=("power limit",))
    assert clock_notes(slow, slow) == ("GPU held down by power limit",)
    assert clock_notes(STEADY, slow) == ("GPU held down by power limit", "GPU clock moved from 1980 to 1200 MHz")


@pytest.mark.parametrize("device", ["cpu", "npu:0", "cuda:99"])
def test_what_is_no_gpu_here_has_no_state(device: str) -> None:
    """Another kind of device, and an index that is not there, are not measured."""
    assert gpu_state(device) is None


def test_every_field_is_read(nvml_stub: NvmlStub) -> None:
    """Clocks in MHz, memory in 10^6 bytes, energy in millijoules, reasons in words."""
    nvml_stub.play(StubCard(sm_mhz=1200, memory_mhz=6251, memory_used=2_500_000_000, energy_mj=7, throttle=0x4 | 0x1))
    assert gpu_state("cuda:0") == GpuState(1200, 6251, ("power limit",), 2500.0, 7.0)


@pytest.mark.parametrize(
    ("lacking", "left"),
    [
        ({"memory_total": None, "memory_used": None}, "used_mb"),
        ({"energy_mj": None}, "energy_mj"),
        ({"sm_mhz": error(999)}, "sm_mhz"),
        ({"memory_mhz": None}, "memory_mhz"),
        ({"throttle": None}, "throttled_by"),
    ],
)
def test_a_field_that_is_not_supported_takes_no_other_with_it(
    lacking: dict[str, str | None], left: str, nvml_stub: NvmlStub
) -> None:
    """GB10 tells no memory, virtual devices no energy: each is not measured, and the others are."""
    nvml_stub.play(StubCard(throttle=0x4))
    whole = gpu_state("cuda:0")
    assert whole is not None
    nvml_stub.play(replace(StubCard(throttle=0x4), **lacking))  # type: ignore[arg-type]
    assert gpu_state("cuda:0") == replace(whole, **{left: () if left == "throttled_by" else None})  # type: ignore[arg-type]


def test_the_state_is_of_cudas_device(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML's first card is not the one that the environment leaves to CUDA."""
    nvml_stub.play(StubCard(sm_mhz=100), StubCard(sm_mhz=200))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid_of(1))
    state = gpu_state("cuda:0")
    assert state is not None
    assert state.sm_mhz == 200
    assert gpu_state("cuda:1") is None


def test_an_instance_has_the_clocks_and_energy_of_its_card(nvml_stub: NvmlStub) -> None:
    """NVML refuses them for the instance; its memory is its own."""
    part = StubInstance(uuid_of(9, "MIG"), memory_used=13_000_000)
    nvml_stub.play(StubCard(sm_mhz=1410, energy_mj=55, memory_used=900_000_000, mig=1, instances=(part,)))
    assert gpu_state("cuda:0") == GpuState(1410, 6251, (), 13.0, 55.0)
