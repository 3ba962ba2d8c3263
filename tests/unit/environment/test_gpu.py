"""NVIDIA GPUs: those of this machine, and those of a machine that a stub of the driver's libraries plays."""

from __future__ import annotations

import pytest

from pytest_quant.environment.cuda_driver import VISIBLE_VARIABLE
from pytest_quant.environment.gpu import alike_gpus, cuda_gpu, cuda_gpus, find_gpus
from pytest_quant.environment.gpu_clocks import clock_reader
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, error, uuid_of

L4 = StubCard(name="NVIDIA L4", uuid=uuid_of(0))
T4 = StubCard(name="NVIDIA T4", uuid=uuid_of(1), capability="7.5")
SMALL, LARGE = uuid_of(16, "MIG"), uuid_of(17, "MIG")
SPLIT = StubCard(
    name="NVIDIA A100-SXM4-40GB",
    uuid=uuid_of(2),
    capability="8.0",
    mig=1,
    instances=(StubInstance(SMALL), StubInstance(LARGE, "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 2)),
)


def names() -> list[str]:
    """Return the UUIDs of CUDA's devices in its order."""
    return [gpu.uuid for gpu in cuda_gpus().gpus]


def test_every_gpu_found_has_clocks() -> None:
    """What NVML lists it can also describe; without a GPU the list is empty and nothing is raised."""
    for gpu in find_gpus():
        assert gpu.uuid.startswith("GPU-")
        assert gpu.sm is None or gpu.sm.startswith("SM")
    for number in range(len(cuda_gpus().gpus)):
        with clock_reader(f"cuda:{number}") as read:
            assert read is not None
            assert (read().sm_mhz or 0) >= 0


def test_a_card_is_told_by_uuid_and_place(nvml_stub: NvmlStub) -> None:
    """Everything that NVML tells of the one card; CUDA's driver is asked once, for its number."""
    nvml_stub.play(L4, driver="580.1")
    gpu = cuda_gpu()
    assert gpu is not None
    assert gpu == find_gpus()[0] == cuda_gpu("cuda")
    assert (gpu.name, gpu.sm, gpu.memory_mb, gpu.driver) == ("NVIDIA L4", "SM89", 24_000.0, "580.1")
    assert (gpu.uuid, gpu.card, gpu.pci_bus_id) == (uuid_of(0), uuid_of(0), "00000000:01:00.0")
    assert nvml_stub.asked == 1


@pytest.mark.parametrize("device", ["cpu", "npu:0", "cuda:1", "cuda:-1", "cuda:x"])
def test_another_device_is_no_card(device: str, nvml_stub: NvmlStub) -> None:
    """One of another kind, one that is not there, one that is no number."""
    nvml_stub.play(L4)
    assert cuda_gpu(device) is None


def test_the_order_is_the_drivers(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """By speed, and of what the environment leaves; it is asked once for each value of the variable."""
    nvml_stub.play(T4, L4, cuda=(uuid_of(0), uuid_of(1)))
    assert names() == names() == [uuid_of(0), uuid_of(1)]
    assert find_gpus()[0].uuid == uuid_of(1)
    assert cuda_gpu("cuda:1") == find_gpus()[0]
    assert nvml_stub.asked == 1
    monkeypatch.setenv(VISIBLE_VARIABLE, "1")
    assert names() == [uuid_of(1)]
    assert nvml_stub.asked == 2


def test_what_the_driver_does_not_say_is_not_guessed(nvml_stub: NvmlStub) -> None:
    """The reason has the driver's error and names the cards."""
    nvml_stub.play(T4, L4, cuda=999)
    assert cuda_gpu() is None
    said = cuda_gpus().reason
    assert "cuInit gave error 999" in said
    assert f"{uuid_of(0)} (NVIDIA L4)" in said


def test_a_hidden_card_is_named(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, and the environment hides it; that is not the same as no card."""
    nvml_stub.play(L4)
    monkeypatch.setenv(VISIBLE_VARIABLE, "")
    assert cuda_gpus().reason == f"CUDA_VISIBLE_DEVICES='' leaves none of {uuid_of(0)} (NVIDIA L4)"
    nvml_stub.play()
    assert "no NVIDIA GPU here" in cuda_gpus().reason


def test_an_instance_is_a_device(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to its card, whose clocks it has."""
    nvml_stub.play(L4, SPLIT)
    monkeypatch.setenv(VISIBLE_VARIABLE, LARGE)
    gpu = cuda_gpu()
    assert gpu is not None
    assert (gpu.uuid, gpu.card, gpu.name) == (LARGE, uuid_of(2), "NVIDIA A100-SXM4-40GB MIG 3g.20gb")
    assert (gpu.sm, gpu.pci_bus_id, gpu.memory_mb) == ("SM80", "00000000:02:00.0", 4980.736)
    assert len(names()) == 1


def test_which_of_several_instances_is_the_drivers_choice(nvml_stub: NvmlStub) -> None:
    """CUDA takes one of them, and the card itself is no device while it is split."""
    nvml_stub.play(SPLIT, cuda=(LARGE,))
    assert names() == [LARGE]
    assert [gpu.uuid for gpu in find_gpus()] == [uuid_of(2)]


def test_a_split_card_without_instances_is_no_device(nvml_stub: NvmlStub) -> None:
    """It has nothing to compute on until somebody makes an instance."""
    nvml_stub.play(StubCard(mig=1))
    assert cuda_gpu() is None
    assert "a split card needs an instance" in cuda_gpus().reason


def test_a_card_off_the_bus_is_left_out(nvml_stub: NvmlStub) -> None:
    """NVML counts it and refuses its handle; the others are there."""
    nvml_stub.play(StubCard(lost="yes"), T4)
    assert [gpu.name for gpu in find_gpus()] == ["NVIDIA T4"]


def test_fields_that_a_device_lacks_are_none(nvml_stub: NvmlStub) -> None:
    """GB10 shares the memory of its CPU and tells no size of it; the other fields are there."""
    nvml_stub.play(StubCard(name="NVIDIA GB10", memory_total=None, capability=error(999), pci=None))
    (gpu,) = find_gpus()
    assert (gpu.name, gpu.memory_mb, gpu.sm, gpu.pci_bus_id) == ("NVIDIA GB10", None, None, "")
    assert cuda_gpu() == gpu


def test_alike_are_cards_of_the_model_of_the_first(nvml_stub: NvmlStub) -> None:
    """A check is not to be measured on another model because another worker took it."""
    nvml_stub.play(T4, StubCard(uuid=uuid_of(5)), L4, cuda=(uuid_of(0), uuid_of(5), uuid_of(1)))
    assert [gpu.uuid for gpu in alike_gpus()] == [uuid_of(0), uuid_of(5)]
    nvml_stub.play()
    assert alike_gpus() == ()
