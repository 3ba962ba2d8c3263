"""The cards of a machine, on a stub of the driver: CUDA's names for them, those that it does not have, and why."""

from __future__ import annotations

import pytest

from pytest_quant.doctor.cards import Cards, CardState, find_cards
from pytest_quant.doctor.examine import describe
from pytest_quant.doctor.probe import Examination
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, uuid_of

L4, T4 = StubCard(name="NVIDIA L4"), StubCard(name="NVIDIA T4", capability="7.5", memory_total=16_000_000_000)
PARTS = tuple(StubInstance(uuid_of(place, "MIG"), gpu_instance=place) for place in (1, 2))
SPLIT = StubCard(name="NVIDIA A100-SXM4-40GB", capability="8.0", mig=1, instances=PARTS)
DRIVER = "580.65.06"


def test_without_a_driver_there_are_none(nvml_stub: NvmlStub) -> None:
    """And nothing is wrong with that."""
    assert find_cards() == Cards(())


def test_two_cards_in_the_order_of_cuda(nvml_stub: NvmlStub) -> None:
    """CUDA puts the faster one first, NVML the one with the lower place on the bus."""
    nvml_stub.play(T4, L4, cuda=(uuid_of(1), uuid_of(0)))
    assert find_cards() == Cards(
        (
            CardState("cuda:0", "NVIDIA L4", "SM89", 24_000.0, uuid_of(1), DRIVER),
            CardState("cuda:1", "NVIDIA T4", "SM75", 16_000.0, uuid_of(0), DRIVER),
        )
    )


def test_a_card_that_cuda_does_not_have_is_listed(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind those that it has."""
    nvml_stub.play(L4, T4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid_of(1))
    found = find_cards()
    assert [(card.cuda, card.uuid) for card in found.states] == [("cuda:0", uuid_of(1)), ("", uuid_of(0))]
    assert found.trouble == ""


def test_a_variable_that_leaves_none_is_trouble(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is named with its value, and what to write."""
    nvml_stub.play(L4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    found = find_cards()
    assert [card.cuda for card in found.states] == [""]
    assert found.trouble.startswith("CUDA_VISIBLE_DEVICES='7' leaves none of")
    assert "UUID" in found.fix


def test_the_parts_of_a_split_card_are_its_devices(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is chosen by its UUID; the card itself is none of CUDA's."""
    nvml_stub.play(SPLIT)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", PARTS[1].uuid)
    (card,) = find_cards().states
    assert (card.cuda, card.uuid, card.sm) == ("cuda:0", PARTS[1].uuid, "SM80")
    assert "MIG" in card.name


def test_a_split_card_without_parts_is_trouble(nvml_stub: NvmlStub) -> None:
    """CUDA has nothing to compute on."""
    nvml_stub.play(StubCard(name="NVIDIA A100-SXM4-40GB", capability="8.0", mig=1))
    found = find_cards()
    assert [card.cuda for card in found.states] == [""]
    assert "a split card needs an instance" in found.trouble


def test_cards_are_a_table(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the machine and the backends, with what NVML does not tell as a dash."""
    nvml_stub.play(L4, StubCard(name="NVIDIA GB10", capability="12.1", memory_total=None))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid_of(0))
    machine = dict.fromkeys(("pytest-quant", "cpu", "isa", "cores", "gpus", "python", "os", "arch"), "x")
    lines = describe(Examination(machine, (), (), (), find_cards().states)).splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("device"))
    assert [line.split() for line in lines[start : start + 3]] == [
        ["device", "card", "sm", "memory", "uuid"],
        ["cuda:0", "NVIDIA", "L4", "SM89", "24.0", "GB", uuid_of(0)],
        ["hidden", "NVIDIA", "GB10", "SM121", "-", uuid_of(1)],
    ]
