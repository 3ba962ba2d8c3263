"""One GPU for a process, on machines that a stub of the driver's libraries plays."""

from __future__ import annotations

import os

import pytest

from pytest_quant.environment import gpu as gpus
from pytest_quant.environment.cuda_driver import VISIBLE_VARIABLE
from pytest_quant.environment.gpu import cuda_gpu, cuda_gpus, pin_gpu, pin_share
from pytest_quant.errors import UsageError
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, uuid_of

CARD, OTHER = uuid_of(0), uuid_of(1)
FIRST, SECOND = uuid_of(16, "MIG"), uuid_of(17, "MIG")
TWO = StubCard(), StubCard(name="NVIDIA T4", capability="7.5")


@pytest.fixture(autouse=True)
def own_environment(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that is brought back after the test."""
    monkeypatch.setenv(VISIBLE_VARIABLE, "")
    monkeypatch.delenv(VISIBLE_VARIABLE)


@pytest.mark.parametrize("name", ["cuda:1", OTHER, "GPU-00000001"])
def test_the_named_card_is_cudas_only_one(name: str, nvml_stub: NvmlStub) -> None:
    """By whichever name; done twice it is as done once."""
    nvml_stub.play(*TWO)
    assert pin_gpu(name).uuid == OTHER
    assert os.environ[VISIBLE_VARIABLE] == OTHER
    assert [gpu.uuid for gpu in cuda_gpus().gpus] == [OTHER]
    assert pin_gpu(OTHER).uuid == OTHER


def test_an_instance_is_chosen_by_its_uuid(nvml_stub: NvmlStub) -> None:
    """Also where CUDA by itself would take another one."""
    parts = (StubInstance(FIRST), StubInstance(SECOND, compute_instance=1))
    nvml_stub.play(StubCard(mig=1, instances=parts), cuda=(FIRST,))
    assert pin_gpu(SECOND).uuid == SECOND
    gpu = cuda_gpu()
    assert gpu is not None
    assert gpu.uuid == SECOND


@pytest.mark.parametrize("name", ["cuda:2", "GPU-f", "GPU-0000000", "MIG-0"])
def test_what_is_not_there_is_an_error_that_names_what_is(name: str, nvml_stub: NvmlStub) -> None:
    """Nor is one of several taken that a short beginning fits. The environment stays."""
    nvml_stub.play(*TWO)
    with pytest.raises(UsageError, match=f"no GPU '{name}'") as raised:
        pin_gpu(name)
    for told in (name, f"{CARD} (NVIDIA L4)", f"{OTHER} (NVIDIA T4)", "nvidia-smi -L"):
        assert told in str(raised.value)
    assert VISIBLE_VARIABLE not in os.environ


def test_a_driver_that_does_not_answer_chooses_nothing(nvml_stub: NvmlStub) -> None:
    """The error has its own, and the cards."""
    nvml_stub.play(*TWO, cuda=999)
    with pytest.raises(UsageError, match=rf"(?s){CARD}.*cuInit gave error 999"):
        pin_gpu(OTHER)


def test_what_the_environment_hides_is_no_choice(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though CUDA would have it under its own name."""
    nvml_stub.play(*TWO)
    monkeypatch.setenv(VISIBLE_VARIABLE, CARD)
    with pytest.raises(UsageError, match=f"no GPU '{OTHER}'"):
        pin_gpu(OTHER)
    assert os.environ[VISIBLE_VARIABLE] == CARD


def test_without_a_gpu_the_reason_is_told(nvml_stub: NvmlStub) -> None:
    """There is nothing to name."""
    nvml_stub.play()
    with pytest.raises(UsageError, match="no NVIDIA GPU here"):
        pin_gpu("cuda:0")


def test_cuda_that_is_initialised_is_not_told_otherwise(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read the environment; only the card that is its only one anyway is no error."""
    monkeypatch.setattr(gpus, "is_initialized", lambda: True)
    nvml_stub.play(*TWO)
    with pytest.raises(UsageError, match="CUDA is initialised in it") as raised:
        pin_gpu("cuda:1")
    assert "torch.cuda.is_available()" in str(raised.value)
    assert f"{VISIBLE_VARIABLE}={OTHER}" in str(raised.value)
    nvml_stub.play(TWO[0])
    assert pin_gpu("cuda:0").uuid == CARD
    assert VISIBLE_VARIABLE not in os.environ


def test_workers_share_cards_round_robin(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fourth of three begins anew."""
    nvml_stub.play(StubCard(), StubCard(), StubCard())
    for number, place in enumerate((0, 1, 2, 0)):
        monkeypatch.delenv(VISIBLE_VARIABLE, raising=False)
        gpu = pin_share(number)
        assert gpu is not None
        assert os.environ[VISIBLE_VARIABLE] == gpu.uuid == uuid_of(place)


def test_where_there_is_no_choice_a_worker_takes_what_there_is(
    nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One card, none, two of different models, or a CUDA that is initialised: the environment stays."""
    nvml_stub.play()
    assert pin_share(1) is None
    nvml_stub.play(*TWO)
    assert pin_share(1) is None
    nvml_stub.play(StubCard(), StubCard())
    monkeypatch.setattr(gpus, "is_initialized", lambda: True)
    assert pin_share(1) is None
    assert VISIBLE_VARIABLE not in os.environ
