"""The NVIDIA GPUs of this machine, the GPU that a CUDA device name stands for, and the only GPU of a process.

NVML lists every card in the order of the PCI bus and knows no ``CUDA_VISIBLE_DEVICES``. CUDA numbers the devices which
that variable leaves, the fastest first unless ``CUDA_DEVICE_ORDER`` says otherwise, and takes parts of a card that is
split into instances (MIG) for devices. So a number of the one is never taken for a number of the other: CUDA's driver
is asked which devices it has, by UUID, and NVML describes them. Where NVML knows none of them, the driver does so: a
Jetson has no NVML, or one that gives its only GPU another UUID; a container may lack the library.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, TypeVar
from uuid import UUID

from pytest_quant.environment.cuda_driver import VISIBLE_VARIABLE, CudaDevice, ask_driver, is_initialized
from pytest_quant.errors import UsageError

_NVML_VALUE = TypeVar("_NVML_VALUE")


@contextmanager
def open_nvml() -> Iterator[tuple[Any | None, str]]:
    """Give the initialized NVML module, or ``None`` and its error; nothing if it is not installed."""
    if find_spec("pynvml") is None:
        yield None, ""
        return
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        yield None, str(error).rstrip(".")
        return
    try:
        yield pynvml, ""
    finally:
        pynvml.nvmlShutdown()


def field(nvml: Any, read: Callable[..., _NVML_VALUE], *arguments: object) -> _NVML_VALUE | None:
    """Return a field of a device, ``None`` if this device or its driver does not have it.

    Each field is read by itself: devices with unified memory tell no size of it, virtual ones no energy, and parts of a
    card no clocks, and the other fields are there all the same.

    Parameters
    ----------
    nvml : the module that `open_nvml` gave.
    read : one of its functions.
    arguments : those of the function; the handle of a device first.
    """
    try:
        return read(*arguments)
    except nvml.NVMLError:
        return None


def driver_cuda() -> tuple[str, int] | None:
    """Return the driver's version, and 1000 times the major version of its CUDA plus ten times the minor.

    ``None`` where there is no driver, or it does not tell; the version is "here" where NVML does not start. The CUDA is
    that of the ``libcuda`` that this process would load, which one for forward compatibility may have replaced.
    """
    with open_nvml() as (nvml, _):
        cuda = nvml and field(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
        if nvml and cuda:
            return field(nvml, nvml.nvmlSystemGetDriverVersion) or "", cuda
    devices, _ = ask_driver(os.environ.get(VISIBLE_VARIABLE))
    return ("here", devices[0].cuda) if devices else None


@dataclass(frozen=True, slots=True)
class Gpu:
    """A card, or an instance of a split card (MIG), which CUDA treats as a device of its own.

    Attributes
    ----------
    name : of the card, with the profile of the instance.
    sm : compute capability as ``SM90``; ``None`` where the driver does not tell.
    memory_mb : its own memory, 10^6 bytes; ``None`` where it has none, but shares that of the CPU.
    driver : version of the NVIDIA driver.
    uuid : ``GPU-...`` of a card, ``MIG-...`` of an instance; unlike numbers it stays.
    card : UUID of the card, which has clocks, power and energy for all its instances; that of a card is its own.
    """

    name: str
    sm: str | None
    memory_mb: float | None
    driver: str
    uuid: str = ""
    card: str = ""


def find_gpus() -> tuple[Gpu, ...]:
    """Return the NVIDIA cards of this machine, visible to CUDA or not; none without the driver or nvidia-ml-py."""
    return tuple(gpu for gpu in _devices() if gpu.uuid == gpu.card)


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
    gpus = cuda_gpus()[0]
    return gpus[int(number)] if int(number) < len(gpus) else None


def gpu_kind(device: str) -> str:
    """Return name, capability and driver of a CUDA device, which decide what it computes; empty for another device."""
    gpu = cuda_gpu(device)
    return "" if gpu is None else f"{gpu.name} ({gpu.sm}), driver {gpu.driver}"


@contextmanager
def open_gpu(device: str, *, card: bool) -> Iterator[tuple[Any, Any] | None]:
    """Give NVML and its handle of ``cuda:0`` while the block runs; ``None`` for another device or an unknown one.

    NVML is not opened for other devices.

    Parameters
    ----------
    device : CUDA's name in this process, see `cuda_gpu`.
    card : give the handle of the whole card where the device is an instance of one: it has the clocks and the energy.
    """
    gpu = cuda_gpu(device)
    with nullcontext((None, "")) if gpu is None else open_nvml() as (nvml, _):
        uuid = gpu and (gpu.card if card else gpu.uuid)
        handle = None if nvml is None else field(nvml, nvml.nvmlDeviceGetHandleByUUID, uuid)
        yield None if handle is None else (nvml, handle)


def cuda_gpus() -> tuple[tuple[Gpu, ...], str]:
    """Return the devices that CUDA has in this process, in its order; without devices, the reason."""
    return gpus_under(os.environ.get(VISIBLE_VARIABLE))


def gpus_under(visible: str | None) -> tuple[tuple[Gpu, ...], str]:
    """Return the devices that CUDA would have in a process with another value of ``CUDA_VISIBLE_DEVICES``.

    Its driver is asked, in a process of its own and once for each value.

    Parameters
    ----------
    visible : the value, a UUID for one; ``None`` where the variable is not set.

    Returns
    -------
    The devices in the order of CUDA's numbers, and the reason where there are none or they cannot be known.
    """
    devices, error = ask_driver(visible)
    here = _devices()
    if not here:
        with open_nvml() as (nvml, said):
            said = error if nvml else said or error
        why = f"there is no NVIDIA GPU here, or its driver does not answer{said and f': {said}'}"
        return tuple(map(_describe_device, devices)), "" if devices else why
    by_digits = {gpu.uuid.partition("-")[2].replace("-", ""): gpu for gpu in here}
    listed = ", ".join(f"{gpu.uuid} ({gpu.name})" for gpu in here)
    if not error and len(here) == len(devices) == 1:
        return (replace(here[0], sm=here[0].sm or devices[0].sm),), ""
    if error or not {device.uuid for device in devices} <= by_digits.keys():
        why = error or "CUDA names a device that NVML does not"
        return (), f"which of {listed} is cuda:0 cannot be known: {why}"
    if devices:
        return tuple(by_digits[device.uuid] for device in devices), ""
    if visible is None:
        return (), f"CUDA has none of {listed}; a split card needs an instance to compute on"
    return (), f"{VISIBLE_VARIABLE}={visible!r} leaves none of {listed}"


def _describe_device(device: CudaDevice) -> Gpu:
    """Return a device as CUDA's driver describes it."""
    uuid = f"GPU-{UUID(device.uuid)}"
    return Gpu(device.name, device.sm, None, f"with CUDA {device.cuda // 1000}.{device.cuda % 1000 // 10}", uuid, uuid)


def find_alike_gpus() -> tuple[Gpu, ...]:
    """Return the devices of CUDA with the name and `sm` of ``cuda:0``, which measure the same; it is among them."""
    gpus = cuda_gpus()[0]
    return tuple(gpu for gpu in gpus if (gpu.name, gpu.sm) == (gpus[0].name, gpus[0].sm))


def _devices() -> tuple[Gpu, ...]:
    """Return every card in the order of the PCI bus, each followed by its instances."""
    with open_nvml() as (nvml, _):
        if nvml is None:
            return ()
        driver = field(nvml, nvml.nvmlSystemGetDriverVersion) or ""
        gpus: list[Gpu] = []
        for index in range(field(nvml, nvml.nvmlDeviceGetCount) or 0):
            # A card that fell off the bus, or that this user may not use, is none for CUDA either.
            handle = field(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
            if handle is not None:
                card = _card(nvml, handle, driver)
                gpus += [card, *_instances(nvml, handle, card)]
        return tuple(gpus)


def _card(nvml: Any, handle: Any, driver: str) -> Gpu:
    uuid = field(nvml, nvml.nvmlDeviceGetUUID, handle) or ""
    capability = field(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    name = field(nvml, nvml.nvmlDeviceGetName, handle) or "unknown"
    sm = None if capability is None else "SM{}{}".format(*capability)
    return Gpu(name, sm, _memory_mb(nvml, handle), driver, uuid, card=uuid)


def _instances(nvml: Any, handle: Any, card: Gpu) -> Iterator[Gpu]:
    """Yield the instances of a card that is split."""
    modes = field(nvml, nvml.nvmlDeviceGetMigMode, handle)
    if modes is None or modes[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return
    for number in range(field(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        part = field(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        if part is not None:
            name, uuid = (field(nvml, read, part) for read in (nvml.nvmlDeviceGetName, nvml.nvmlDeviceGetUUID))
            yield replace(card, name=name or card.name, memory_mb=_memory_mb(nvml, part), uuid=uuid or "")


def _memory_mb(nvml: Any, handle: Any) -> float | None:
    memory = field(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    return None if memory is None else memory.total / 1e6


def pin_gpu(name: str) -> Gpu:
    """Let this process, and those that it starts, have one card or instance: ``cuda:0`` is that one everywhere.

    Parameters
    ----------
    name : ``cuda:1``, CUDA's own name among what the environment leaves; or the UUID that ``nvidia-smi -L`` shows, or
        its beginning, ``GPU-...`` of a card or ``MIG-...`` of an instance of one.

    Raises
    ------
    UsageError : there is no such GPU; or CUDA is initialised here and keeps the devices that it has.
    """
    gpu = _find_gpu(name)
    if cuda_gpus()[0] != (gpu,):
        if is_initialized():
            start = f"start pytest with {VISIBLE_VARIABLE}={gpu.uuid}"
            raise UsageError(
                f"this process cannot be given '{name}' alone: CUDA is initialised in it, and keeps its devices",
                value=f"{gpu.uuid} ({gpu.name})",
                allowed="to choose a GPU before the first call of CUDA, torch.cuda.is_available() among them",
                fix=f"move such calls out of plugins and conftest.py, or {start}",
            )
        os.environ[VISIBLE_VARIABLE] = gpu.uuid
    return gpu


def pin_share(number: int) -> Gpu | None:
    """Let this process, one of several workers, have one of the devices of CUDA that measure alike.

    Parameters
    ----------
    number : of the worker, from 0. The first has the first GPU, and after the last GPU it begins anew.

    Returns
    -------
    ``None`` where there is nothing to choose from, or CUDA is initialised here: the lock of the device is enough then
    for right figures, and only the other GPUs are left idle.
    """
    gpus = find_alike_gpus()
    if len(gpus) < 2 or is_initialized():
        return None
    gpu = gpus[number % len(gpus)]
    os.environ[VISIBLE_VARIABLE] = gpu.uuid
    return gpu


def _find_gpu(name: str) -> Gpu:
    gpus, reason = cuda_gpus()
    number = name.removeprefix("cuda:")
    if number.isdecimal():
        fitting = gpus[int(number) :][:1]
    elif len(gpus) == 1 and gpus[0].uuid.startswith(name):
        # CUDA may know the only one by another UUID than the one that is listed.
        fitting = gpus
    else:
        # CUDA reads the UUID, or its beginning, itself; what the environment hides stays hidden.
        is_open = VISIBLE_VARIABLE not in os.environ
        fitting = tuple(gpu for gpu in gpus_under(name)[0] if is_open or gpu in gpus)
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(f"{gpu.uuid} ({gpu.name})" for gpu in gpus)
    raise UsageError(
        f"there is no GPU '{name}' for this run",
        value=reason or f"CUDA has {len(gpus)} here",
        allowed=listed or "a machine with a GPU that the environment does not hide",
        fix="write one of these UUIDs, which nvidia-smi -L shows" if listed else "run it there, or without the option",
    )
