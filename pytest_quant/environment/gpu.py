"""The NVIDIA GPUs of this machine, and which of them a CUDA device name stands for.

NVML lists every card in the order of the PCI bus and knows no ``CUDA_VISIBLE_DEVICES``. CUDA numbers the devices which
that variable leaves, the fastest first unless ``CUDA_DEVICE_ORDER`` says otherwise, and takes parts of a card that is
split into instances (MIG) for devices. So a number of the one is never taken for a number of the other: a card is known
by its UUID.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_quant.environment.cuda_driver import BUS_ORDER, ORDER_VARIABLE, VISIBLE_VARIABLE, ask_driver
from pytest_quant.environment.nvml import field, has_nvml, opened_nvml, text_of
from pytest_quant.environment.visible import named_devices, only_with_prefix


@dataclass(frozen=True, slots=True)
class Gpu:
    """A card, or an instance of one that is split (MIG), which CUDA treats as a device of its own.

    Attributes
    ----------
    index : NVML's number of the card; that of CUDA may differ, see `cuda_gpu`.
    name : of the card, with the profile of the instance.
    sm : compute capability as ``SM90``; ``None`` where the driver does not tell.
    memory_mb : its own memory, 10^6 bytes; ``None`` where it has none, but shares that of the CPU.
    driver : version of the NVIDIA driver.
    uuid : ``GPU-...`` of a card, ``MIG-...`` of an instance; unlike numbers it stays.
    pci_bus_id : where the card is, such as ``00000000:0F:00.0``; empty where the driver does not tell.
    card : UUID of the card, which has clocks, power and energy for all its instances; that of a card is its own.
    instance : names the instance among those of its card in the words of drivers before 470, such as ``1/0``; empty
        for a card.
    """

    index: int
    name: str
    sm: str | None
    memory_mb: float | None
    driver: str
    uuid: str = ""
    pci_bus_id: str = ""
    card: str = ""
    instance: str = ""


@dataclass(frozen=True, slots=True)
class CudaGpus:
    """The devices of CUDA in its order, `gpus`; where they cannot be known, or are none, `reason` says why."""

    gpus: tuple[Gpu, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Card:
    """A card, and what CUDA may take of it: itself, or its instances, which may be none yet, where it is split."""

    gpu: Gpu
    units: tuple[Gpu, ...]


def find_gpus() -> tuple[Gpu, ...]:
    """Return the NVIDIA cards of this machine, visible to CUDA or not; none without the driver or nvidia-ml-py."""
    return tuple(card.gpu for card in _cards())


def cuda_gpu(device: str = "cuda:0") -> Gpu | None:
    """Return the card, or the instance of one, that a CUDA device name stands for in this process.

    Parameters
    ----------
    device : ``cuda`` or ``cuda:1``. Other devices are no GPUs.

    Returns
    -------
    ``None`` where there is none, or where nothing tells which it is; `cuda_gpus` says why.
    """
    kind, _, number = device.partition(":")
    number = number or "0"
    if kind != "cuda" or not number.isdecimal():
        return None
    gpus = cuda_gpus().gpus
    return gpus[int(number)] if int(number) < len(gpus) else None


def cuda_gpus() -> CudaGpus:
    """Return the devices that CUDA has in this process, in the order of its numbers for them.

    What NVML and the environment leave open is asked from CUDA's driver, in a process of its own and once: the order by
    speed of several cards, and which instances of split cards it takes. Names by UUID leave nothing open.
    """
    left = _left()
    if isinstance(left, CudaGpus):
        return left
    instances = tuple(gpu for gpu in left.units if gpu.instance)
    if left.by_speed or len(instances) > 1:
        return _said_by_driver(left)
    # A process that has an instance has it alone: CUDA leaves the other cards out.
    return CudaGpus(instances or left.units, "" if left.units else _nothing_left(left))


def usable_gpus() -> CudaGpus:
    """Return every card and instance that the environment leaves, for a process that chooses one by its UUID.

    In the order of the bus. CUDA gives one process a single instance, so there may be more of them here than it has.
    """
    left = _left()
    if isinstance(left, CudaGpus):
        return left
    if left.by_speed and len(left.units) < len({gpu.uuid for card in left.cards for gpu in card.units}):
        return _said_by_driver(left)
    return CudaGpus(left.units, "" if left.units else _nothing_left(left))


def alike_gpus() -> tuple[Gpu, ...]:
    """Return the usable cards and instances that measure the same as ``cuda:0``, which is one of them.

    That is all of them where they have one name and compute capability. Where they do not, CUDA's driver may have to be
    asked which is its first.
    """
    usable = usable_gpus().gpus
    if len({_model(gpu) for gpu in usable}) <= 1:
        return usable
    first = cuda_gpu()
    return () if first is None else tuple(gpu for gpu in usable if _model(gpu) == _model(first))


def _model(gpu: Gpu) -> tuple[str, str | None]:
    return gpu.name, gpu.sm


@dataclass(frozen=True, slots=True)
class _Left:
    """What the values of both variables leave of the cards: `units`; `by_speed`, numbers in an order that is open."""

    cards: tuple[_Card, ...]
    value: str | None
    order: str | None
    units: tuple[Gpu, ...]
    by_speed: bool


def _left() -> _Left | CudaGpus:
    if not has_nvml():
        return CudaGpus((), "nvidia-ml-py is not installed, by which GPUs are found")
    cards = _cards()
    if not cards:
        return CudaGpus((), "there is no NVIDIA GPU here, or its driver does not answer")
    value, order = os.environ.get(VISIBLE_VARIABLE), os.environ.get(ORDER_VARIABLE)
    names = tuple(range(len(cards))) if value is None else named_devices(value)
    by_speed = len(cards) > 1 and order != BUS_ORDER and any(isinstance(name, int) for name in names)
    return _Left(cards, value, order, _units(cards, names), by_speed)


def _units(cards: Sequence[_Card], names: Sequence[int | str]) -> tuple[Gpu, ...]:
    """Return the cards and instances with these names, cards by their places; up to the first that is not there."""
    named: list[tuple[Gpu, ...]] = []
    for name in names:
        units = _named(cards, name)
        if units is None:
            break
        if units in named:
            return ()
        named.append(units)
    return tuple(gpu for units in named for gpu in units)


def _named(cards: Sequence[_Card], name: int | str) -> tuple[Gpu, ...] | None:
    if isinstance(name, int):
        return cards[name].units if name < len(cards) else None
    if not name.startswith("MIG-"):
        place = only_with_prefix(name, [card.gpu.uuid for card in cards])
        return None if place is None else cards[place].units
    instances = [gpu for card in cards for gpu in card.units if gpu.instance]
    place = only_with_prefix(name, [gpu.uuid for gpu in instances])
    if place is None:
        place = only_with_prefix(name, [f"MIG-{gpu.card}/{gpu.instance}" for gpu in instances])
    return None if place is None else (instances[place],)


def _said_by_driver(left: _Left) -> CudaGpus:
    answer = ask_driver(left.value, left.order)
    known = {_digits(gpu.uuid): gpu for card in left.cards for gpu in (card.gpu, *card.units)}
    if answer.error or not set(answer.uuids) <= known.keys():
        why = answer.error or "CUDA names a device that NVML does not"
        fix = f"set {ORDER_VARIABLE}={BUS_ORDER}, or {VISIBLE_VARIABLE} to the UUID of one"
        return CudaGpus((), f"which of {_listed(left.cards)} is cuda:0 cannot be known: {why}; {fix}")
    return CudaGpus(tuple(known[uuid] for uuid in answer.uuids), "" if answer.uuids else _nothing_left(left))


def _nothing_left(left: _Left) -> str:
    if left.value is None:
        return f"CUDA has no device: {_listed(left.cards)} without an instance to compute on"
    return f"{VISIBLE_VARIABLE}={left.value!r} leaves none of {_listed(left.cards)}"


def _listed(cards: Sequence[_Card]) -> str:
    return ", ".join(f"{gpu.uuid} ({gpu.name})" for card in cards for gpu in card.units or (card.gpu,))


def _digits(uuid: str) -> str:
    return uuid.partition("-")[2].replace("-", "")


def _cards() -> tuple[_Card, ...]:
    with opened_nvml() as nvml:
        if nvml is None:
            return ()
        driver = text_of(field(nvml, nvml.nvmlSystemGetDriverVersion) or "")
        found = []
        for index in range(field(nvml, nvml.nvmlDeviceGetCount) or 0):
            # A card that fell off the bus, or that this user may not use, is none for CUDA either.
            handle = field(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
            if handle is not None:
                card = _card(nvml, handle, index, driver)
                found.append(_Card(card, _instances(nvml, handle, card) if _is_split(nvml, handle) else (card,)))
        return tuple(sorted(found, key=lambda card: card.gpu.pci_bus_id))


def _card(nvml: Any, handle: Any, index: int, driver: str) -> Gpu:
    uuid = text_of(field(nvml, nvml.nvmlDeviceGetUUID, handle) or "")
    place = field(nvml, nvml.nvmlDeviceGetPciInfo, handle)
    capability = field(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    return Gpu(
        index=index,
        name=text_of(field(nvml, nvml.nvmlDeviceGetName, handle) or "unknown"),
        sm=None if capability is None else "SM{}{}".format(*capability),
        memory_mb=_memory_mb(nvml, handle),
        driver=driver,
        uuid=uuid,
        pci_bus_id="" if place is None else text_of(place.busId),
        card=uuid,
    )


def _is_split(nvml: Any, handle: Any) -> bool:
    modes = field(nvml, nvml.nvmlDeviceGetMigMode, handle)
    return modes is not None and modes[0] == nvml.NVML_DEVICE_MIG_ENABLE


def _instances(nvml: Any, handle: Any, card: Gpu) -> tuple[Gpu, ...]:
    found = []
    for number in range(field(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        part = field(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        if part is not None:
            instance = field(nvml, nvml.nvmlDeviceGetGpuInstanceId, part)
            computing = field(nvml, nvml.nvmlDeviceGetComputeInstanceId, part)
            found.append(
                replace(
                    card,
                    name=text_of(field(nvml, nvml.nvmlDeviceGetName, part) or card.name),
                    memory_mb=_memory_mb(nvml, part),
                    uuid=text_of(field(nvml, nvml.nvmlDeviceGetUUID, part) or ""),
                    instance=f"{instance}/{computing}",
                )
            )
    return tuple(found)


def _memory_mb(nvml: Any, handle: Any) -> float | None:
    memory = field(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    return None if memory is None else memory.total / 1e6
