"""Clocks of a GPU, on a stub of the driver and on machines with and without a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.environment import gpu_clocks
from pytest_quant.environment.gpu_clocks import Clocks, clock_notes, clock_reader
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, each, error, uuid_of

STEADY = Clocks(sm_mhz=1980, memory_mhz=2619)


def read(device: str = "cuda:0") -> Clocks | None:
    """Read the clocks of a device once."""
    with clock_reader(device) as reader:
        return None if reader is None else reader()


@pytest.mark.parametrize("samples", [[], [STEADY], [STEADY] * 41, [STEADY, replace(STEADY, sm_mhz=1965)] * 3])
def test_a_steady_device_has_no_notes(samples: list[Clocks]) -> None:
    """The same clock in all samples, up to one of its steps."""
    assert clock_notes(samples) == ()


def test_throttling_between_the_ends_is_told() -> None:
    """With its share of the samples, that of each reason, and the lowest and highest clock."""
    capped = Clocks(1500, 2619, ("power limit",))
    hot = Clocks(1200, 2619, ("power limit", "software thermal slowdown"))
    assert clock_notes([STEADY, *[capped] * 3, hot, *[STEADY] * 3]) == (
        "GPU held down in 50 % of 8 samples (power limit 50 %, software thermal slowdown 12 %), "
        "SM clock 1200 to 1980 MHz",
    )
    assert clock_notes([capped] * 5) == ("GPU held down in 100 % of 5 samples (power limit 100 %), SM clock 1500 MHz",)


def test_a_clock_that_moves_by_itself_is_told() -> None:
    """Where the driver names no reason, or the clock is not all that it does not tell."""
    slow = replace(STEADY, sm_mhz=1400)
    assert clock_notes([STEADY, slow, STEADY]) == (
        "GPU clock moved: SM clock 1400 to 1980 MHz in 3 samples, held down by nothing",
    )
    assert clock_notes([Clocks(None, None)] * 3) == ()
    assert clock_notes([Clocks(None, None, ("power brake",))]) == (
        "GPU held down in 100 % of 1 samples (power brake 100 %)",
    )


@pytest.mark.parametrize("device", ["cpu", "npu:0", "cuda:99"])
def test_what_is_no_gpu_here_has_no_clocks(device: str) -> None:
    """Another kind of device, and an index that is not there."""
    assert read(device) is None


def test_a_processor_does_not_open_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check on the CPU pays nothing for GPUs."""
    monkeypatch.setattr(gpu_clocks, "opened_nvml", pytest.fail)
    assert read("cpu") is None


def test_every_field_is_read(nvml_stub: NvmlStub) -> None:
    """Clocks in MHz; of the reasons those that hold down a working GPU, neither idling nor settings."""
    nvml_stub.play(StubCard(sm_mhz=1200, memory_mhz=6251, throttle=0x80 | 0x4 | 0x2 | 0x1))
    assert read() == Clocks(1200, 6251, ("power limit", "power brake"))


def test_the_bits_are_those_of_the_driver() -> None:
    """As nvml.h numbers them, under both of its names."""
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    names = ("SwPowerCap", "HwSlowdown", "SwThermalSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown")
    for prefix in ("nvmlClocksEventReason", "nvmlClocksThrottleReason"):
        assert [getattr(pynvml, prefix + name) for name in names] == list(gpu_clocks._THROTTLES)


def test_a_driver_that_knows_the_reasons_by_their_first_name_is_asked_by_it(
    nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before version 535; the package has both names."""
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")

    def unknown(_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    nvml_stub.play(StubCard(throttle=0x8))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", unknown)
    assert read() == Clocks(2040, 6251, ("hardware slowdown",))


@pytest.mark.parametrize(
    ("lacking", "left"),
    [({"sm_mhz": error(999)}, "sm_mhz"), ({"memory_mhz": None}, "memory_mhz"), ({"throttle": None}, "held_by")],
)
def test_a_field_that_is_not_supported_takes_no_other_with_it(
    lacking: dict[str, str | None], left: str, nvml_stub: NvmlStub
) -> None:
    """Each is not measured by itself, and the others are."""
    nvml_stub.play(replace(StubCard(throttle=0x4), **lacking))  # type: ignore[arg-type]
    whole = Clocks(2040, 6251, ("power limit",))
    assert read() == replace(whole, **{left: () if left == "held_by" else None})  # type: ignore[arg-type]


def test_readings_follow_the_card(nvml_stub: NvmlStub) -> None:
    """One reader for a whole measurement sees each change."""
    nvml_stub.play(StubCard(sm_mhz=each(210, 1980, 1200)))
    with clock_reader("cuda:0") as reader:
        assert reader is not None
        assert [reader().sm_mhz for _ in range(4)] == [210, 1980, 1200, 1200]


def test_the_clocks_are_those_of_cudas_device(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML's first card is not the one that the environment leaves to CUDA."""
    nvml_stub.play(StubCard(sm_mhz=100), StubCard(sm_mhz=200))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid_of(1))
    found = read()
    assert found is not None
    assert found.sm_mhz == 200
    assert read("cuda:1") is None


def test_an_instance_has_the_clocks_of_its_card(nvml_stub: NvmlStub) -> None:
    """NVML refuses them for the instance."""
    part = StubInstance(uuid_of(9, "MIG"))
    nvml_stub.play(StubCard(sm_mhz=1410, mig=1, instances=(part,)))
    assert read() == Clocks(1410, 6251)
