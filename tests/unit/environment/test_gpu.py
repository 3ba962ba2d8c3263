"""NVIDIA GPUs: those of this machine, and those of a machine that a stub of the driver's libraries plays."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pytest_quant.environment import gpu as gpus
from pytest_quant.environment.cuda_driver import VISIBLE_VARIABLE, is_initialized
from pytest_quant.environment.gpu import (
    cuda_gpu,
    cuda_gpus,
    driver_cuda,
    find_alike_gpus,
    find_gpus,
    gpu_kind,
    open_nvml,
    pin_gpu,
    pin_share,
)
from pytest_quant.errors import UsageError
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, error, uuid_of

CARD, OTHER = uuid_of(0), uuid_of(1)
L4 = StubCard(name="NVIDIA L4", uuid=CARD)
T4 = StubCard(name="NVIDIA T4", uuid=OTHER, capability="7.5")
SMALL, LARGE = uuid_of(16, "MIG"), uuid_of(17, "MIG")
SPLIT = StubCard(
    name="NVIDIA A100-SXM4-40GB",
    uuid=uuid_of(2),
    capability="8.0",
    mig=1,
    instances=(StubInstance(SMALL), StubInstance(LARGE, "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 2)),
)


@pytest.fixture
def environment(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the environment that are brought back after the test."""
    monkeypatch.setenv(VISIBLE_VARIABLE, "")
    monkeypatch.delenv(VISIBLE_VARIABLE)


def names() -> list[str]:
    """Return the UUIDs of CUDA's devices in its order."""
    return [gpu.uuid for gpu in cuda_gpus()[0]]


def test_without_the_package_there_is_no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is raised on a machine that does not have nvidia-ml-py."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with open_nvml() as (nvml, _):
        assert nvml is None


def test_a_card_has_all_its_facts(nvml_stub: NvmlStub) -> None:
    """CUDA's driver is asked once, for its number; a device of another kind, or that is not there, is no card."""
    nvml_stub.play(L4, driver="580.1")
    gpu = cuda_gpu()
    assert gpu is not None
    assert gpu == find_gpus()[0] == cuda_gpu("cuda")
    assert (gpu.name, gpu.sm, gpu.memory_mb, gpu.driver) == ("NVIDIA L4", "SM89", 24_000.0, "580.1")
    assert gpu.uuid == gpu.card == CARD
    assert (gpu_kind("cuda:0"), gpu_kind("cpu")) == ("NVIDIA L4 (SM89), driver 580.1", "")
    assert [cuda_gpu(device) for device in ("cpu", "npu:0", "cuda:1", "cuda:-1", "cuda:x")] == [None] * 5
    assert nvml_stub.cuda_starts == 1


def test_the_order_is_the_drivers(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """By speed, and of what the environment leaves; it is asked once for each value of the variable."""
    nvml_stub.play(T4, L4, cuda=(CARD, OTHER))
    assert names() == names() == [CARD, OTHER]
    assert find_gpus()[0].uuid == OTHER
    assert cuda_gpu("cuda:1") == find_gpus()[0]
    assert nvml_stub.cuda_starts == 1
    monkeypatch.setenv(VISIBLE_VARIABLE, "1")
    assert names() == [OTHER]
    assert nvml_stub.cuda_starts == 2


def test_what_the_driver_does_not_say_is_not_guessed(nvml_stub: NvmlStub) -> None:
    """The reason has the driver's error and names the cards."""
    nvml_stub.play(T4, L4, cuda=999)
    assert cuda_gpu() is None
    assert "cuInit gave error 999" in cuda_gpus()[1]
    assert f"{CARD} (NVIDIA L4)" in cuda_gpus()[1]


def test_a_hidden_card_is_named(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, and the environment hides it; that is not the same as no card."""
    nvml_stub.play(L4)
    monkeypatch.setenv(VISIBLE_VARIABLE, "")
    assert cuda_gpus()[1] == f"CUDA_VISIBLE_DEVICES='' leaves none of {CARD} (NVIDIA L4)"
    nvml_stub.play()
    assert "no NVIDIA GPU here" in cuda_gpus()[1]


def test_an_instance_is_a_device(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to its card, which is no device itself; of several the driver chooses."""
    nvml_stub.play(L4, SPLIT)
    monkeypatch.setenv(VISIBLE_VARIABLE, LARGE)
    gpu = cuda_gpu()
    assert gpu is not None
    assert (gpu.uuid, gpu.card, gpu.name) == (LARGE, uuid_of(2), "NVIDIA A100-SXM4-40GB MIG 3g.20gb")
    assert (gpu.sm, gpu.memory_mb) == ("SM80", 4980.736)
    assert len(names()) == 1
    monkeypatch.delenv(VISIBLE_VARIABLE)
    nvml_stub.play(SPLIT, cuda=(LARGE,))
    assert names() == [LARGE]
    assert [gpu.uuid for gpu in find_gpus()] == [uuid_of(2)]
    nvml_stub.play(StubCard(mig=1))
    assert cuda_gpu() is None
    assert "a split card needs an instance" in cuda_gpus()[1]


def test_what_cannot_be_read_is_left_out(nvml_stub: NvmlStub) -> None:
    """A card off the bus, whose handle NVML refuses; GB10's size of memory, which it shares with its CPU."""
    nvml_stub.play(StubCard(lost="yes"), StubCard(name="NVIDIA GB10", memory_total=None, capability=error(999)))
    (gpu,) = find_gpus()
    assert (gpu.name, gpu.memory_mb, gpu.sm) == ("NVIDIA GB10", None, None)


def test_alike_are_cards_of_the_model_of_the_first(nvml_stub: NvmlStub) -> None:
    """A check is not to be measured on another model because another worker took it."""
    nvml_stub.play(T4, StubCard(uuid=uuid_of(5)), L4, cuda=(CARD, uuid_of(5), OTHER))
    assert [gpu.uuid for gpu in find_alike_gpus()] == [CARD, uuid_of(5)]
    nvml_stub.play()
    assert find_alike_gpus() == ()


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("name", ["cuda:1", OTHER, "GPU-00000001"])
def test_the_named_card_is_cudas_only_one(name: str, nvml_stub: NvmlStub) -> None:
    """By whichever name; done twice it is as done once. An instance is one where CUDA would take another."""
    nvml_stub.play(L4, T4)
    assert pin_gpu(name).uuid == OTHER
    assert os.environ[VISIBLE_VARIABLE] == OTHER
    assert names() == [OTHER]
    assert pin_gpu(OTHER).uuid == OTHER
    del os.environ[VISIBLE_VARIABLE]
    nvml_stub.play(SPLIT, cuda=(SMALL,))
    assert pin_gpu(LARGE).uuid == LARGE
    assert names() == [LARGE]


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("name", ["cuda:2", "GPU-f", "GPU-0000000", "MIG-0"])
def test_what_is_not_there_is_an_error_that_names_what_is(name: str, nvml_stub: NvmlStub) -> None:
    """Nor is one of several taken that a short beginning fits. The environment stays."""
    nvml_stub.play(L4, T4)
    with pytest.raises(UsageError, match=f"no GPU '{name}'") as raised:
        pin_gpu(name)
    for text in (name, f"{CARD} (NVIDIA L4)", f"{OTHER} (NVIDIA T4)", "nvidia-smi -L"):
        assert text in str(raised.value)
    assert VISIBLE_VARIABLE not in os.environ


@pytest.mark.usefixtures("environment")
def test_nothing_is_chosen_of_what_is_hidden_or_not_known(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that does not answer, no GPU at all, and one that the environment hides though CUDA would have it."""
    nvml_stub.play(L4, T4, cuda=999)
    with pytest.raises(UsageError, match=rf"(?s){CARD}.*cuInit gave error 999"):
        pin_gpu(OTHER)
    nvml_stub.play()
    with pytest.raises(UsageError, match="no NVIDIA GPU here"):
        pin_gpu("cuda:0")
    nvml_stub.play(L4, T4)
    monkeypatch.setenv(VISIBLE_VARIABLE, CARD)
    with pytest.raises(UsageError, match=f"no GPU '{OTHER}'"):
        pin_gpu(OTHER)
    assert os.environ[VISIBLE_VARIABLE] == CARD


@pytest.mark.usefixtures("environment")
def test_cuda_that_is_initialised_keeps_its_devices(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read the environment; only the card that is its only one anyway is no error."""
    monkeypatch.setattr(gpus, "is_initialized", lambda: True)
    nvml_stub.play(L4, T4)
    with pytest.raises(UsageError, match="CUDA is initialised in it") as raised:
        pin_gpu("cuda:1")
    assert f"{VISIBLE_VARIABLE}={OTHER}" in str(raised.value)
    nvml_stub.play(L4)
    assert pin_gpu("cuda:0").uuid == CARD
    assert VISIBLE_VARIABLE not in os.environ


@pytest.mark.usefixtures("environment")
def test_workers_share_cards_round_robin(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fourth of three begins anew; without a choice, and once CUDA is initialised, the environment stays."""
    nvml_stub.play(StubCard(), StubCard(), StubCard())
    for number, place in enumerate((0, 1, 2, 0)):
        monkeypatch.delenv(VISIBLE_VARIABLE, raising=False)
        gpu = pin_share(number)
        assert gpu is not None
        assert os.environ[VISIBLE_VARIABLE] == gpu.uuid == uuid_of(place)
    monkeypatch.delenv(VISIBLE_VARIABLE)
    for cards in ((), (L4, T4)):
        nvml_stub.play(*cards)
        assert pin_share(1) is None
    nvml_stub.play(StubCard(), StubCard())
    monkeypatch.setattr(gpus, "is_initialized", lambda: True)
    assert pin_share(1) is None
    assert VISIBLE_VARIABLE not in os.environ


INITIALISED = """
import ctypes
from pytest_quant.environment.cuda_driver import is_initialized
print(is_initialized())
driver = ctypes.CDLL("libcuda.so.1")
print(is_initialized())
driver.cuInit(0)
print(is_initialized())
"""


def test_asking_whether_cuda_is_initialised_does_not_do_it(nvml_stub: NvmlStub) -> None:
    """Neither to ask nor to load the driver's library initialises it; without the library nothing has."""
    nvml_stub.play(StubCard(), cuda=(uuid_of(0),))
    process = subprocess.run([sys.executable, "-c", INITIALISED], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["False", "False", "True"]
    assert not is_initialized()


JETSON = StubCard(name="Orin (nvgpu)", uuid=uuid_of(3), capability=None, memory_total=None)
OTHER_UUID = (uuid_of(9),)


def test_the_only_card_is_cudas_only_device_whatever_it_is_called(nvml_stub: NvmlStub) -> None:
    """A Jetson's CUDA gives its GPU another UUID than NVML, which lacks the capability. None of two is guessed."""
    nvml_stub.play(JETSON, driver="540.4.0", cuda=OTHER_UUID, cuda_name="Orin", cuda_capability="8.7")
    assert gpu_kind("cuda:0") == "Orin (nvgpu) (SM87), driver 540.4.0"
    assert [pin_gpu(name) for name in ("cuda:0", uuid_of(3))] == [cuda_gpu()] * 2
    assert VISIBLE_VARIABLE not in os.environ
    nvml_stub.play(JETSON, L4, cuda=OTHER_UUID)
    assert cuda_gpu() is None
    assert "CUDA names a device that NVML does not" in cuda_gpus()[1]


@pytest.mark.parametrize("nvml", [12, 999])
def test_without_nvml_the_driver_tells_of_its_devices(
    nvml: int, nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container without the library, a Jetson of JetPack 5: name, capability, and the CUDA that wheels need."""
    nvml_stub.play(nvml=nvml, cuda=OTHER_UUID, cuda_name="Orin", cuda_capability="8.7", cuda_version=12060)
    assert gpu_kind("cuda:0") == "Orin (SM87), driver with CUDA 12.6"
    assert (names(), find_gpus()) == (list(OTHER_UUID), ())
    assert driver_cuda() == ("here", 12060)
    assert pin_gpu(uuid_of(9)[:12]).uuid == uuid_of(9)
    monkeypatch.setenv(VISIBLE_VARIABLE, "")
    assert cuda_gpu() is None


def test_why_nvml_does_not_start_is_said(nvml_stub: NvmlStub) -> None:
    """After an upgrade of the driver without a restart NVML and CUDA refuse; NVML says why."""
    nvml_stub.play(L4, nvml=18, cuda=803)
    said = "RM has detected an NVML/RM version mismatch"
    assert cuda_gpus() == ((), f"there is no NVIDIA GPU here, or its driver does not answer: {said}")
    assert driver_cuda() is None
