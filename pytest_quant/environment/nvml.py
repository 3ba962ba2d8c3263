"""NVML, the library by which NVIDIA's driver tells of its devices without a CUDA context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

T = TypeVar("T")


def has_nvml() -> bool:
    """Whether the package nvidia-ml-py is installed, without which GPUs cannot be listed."""
    return find_spec("pynvml") is not None


@contextmanager
def opened_nvml() -> Iterator[Any | None]:
    """Give the initialized NVML module, ``None`` without the package or the driver."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def field(nvml: Any, read: Callable[..., T], *arguments: object) -> T | None:
    """Return one field of a device, ``None`` where this device or its driver does not have it.

    Each field is read by itself: devices with unified memory tell no size of it, virtual ones no energy, and parts of a
    card no clocks, and the other fields are there all the same.

    Parameters
    ----------
    nvml : the module that `opened_nvml` gave.
    read : one of its functions.
    arguments : those of the function; the handle of a device first.
    """
    try:
        return read(*arguments)
    except nvml.NVMLError:
        return None


def text_of(value: str | bytes) -> str:
    """Return a text of NVML, which old versions of its package give as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def driver_cuda() -> tuple[str, int] | None:
    """Return the driver's version, and 1000 times the major version of its CUDA plus ten times the minor.

    ``None`` where there is no driver, or it does not tell. The CUDA is that of the ``libcuda`` that this process would
    load, which one for forward compatibility may have replaced.
    """
    with opened_nvml() as nvml:
        cuda = nvml and field(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
        return (text_of(field(nvml, nvml.nvmlSystemGetDriverVersion) or ""), cuda) if nvml and cuda else None
