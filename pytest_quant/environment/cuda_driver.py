"""The devices that CUDA's driver shows to a process of this environment, in the order of its numbers for them.

A process of its own asks the driver: to initialise CUDA here would fix its devices for good, keep processes that are
forked later from using them, and a driver that does not fit its kernel module may end the process that loads it.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from functools import cache
from typing import NamedTuple

VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable that names the devices which CUDA shows to a process, in the order of its numbers for them."""

ORDER_VARIABLE = "CUDA_DEVICE_ORDER"
"""Environment variable that says how CUDA numbers devices, for example ``PCI_BUS_ID``; by default fastest first."""

LIBRARY = "libcuda.so.1"
TIME_LIMIT_S = 60.0


class CudaDevice(NamedTuple):
    """A device as CUDA's driver describes it.

    Attributes
    ----------
    uuid : its 32 hexadecimal digits.
    name : of the card, or of the instance of one.
    sm : compute capability as ``SM90``.
    cuda : 1000 times the major version of the driver's CUDA plus ten times the minor.
    """

    uuid: str
    name: str
    sm: str
    cuda: int


def ask_driver(visible: str | None) -> tuple[tuple[CudaDevice, ...], str]:
    """Ask the driver for its devices, once in this process for each environment.

    Parameters
    ----------
    visible : value of ``CUDA_VISIBLE_DEVICES``, ``None`` where it is not set.

    Returns
    -------
    The devices, and why the driver did not answer; empty where it did.
    """
    return _ask(visible, os.environ.get(ORDER_VARIABLE))


@cache
def _ask(visible: str | None, order: str | None) -> tuple[tuple[CudaDevice, ...], str]:
    wanted = {**os.environ, VISIBLE_VARIABLE: visible, ORDER_VARIABLE: order}
    environment = {name: value for name, value in wanted.items() if value is not None}
    command = (sys.executable, "-I", __file__)
    try:
        ended = subprocess.run(  # nosec B603 # noqa: S603 - this file
            command,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return (), f"{LIBRARY} did not answer within {TIME_LIMIT_S:g} s"
    if ended.returncode:
        return (), f"asking {LIBRARY} ended with exit code {ended.returncode}: {ended.stderr.strip()[-300:]}"
    devices, error = json.loads(ended.stdout)
    return tuple(CudaDevice(*device) for device in devices), error


def is_initialized() -> bool:
    """Whether something in this process has initialised CUDA, which reads its environment then and never again.

    ``torch.cuda.is_available()`` does so too. The driver's library is not loaded for the answer.
    """
    # Here, because this file is a program too, which finds nothing but the standard library.
    from pytest_quant.host import loaded_library

    cuda = loaded_library(LIBRARY)
    # 3 is CUDA_ERROR_NOT_INITIALIZED.
    return bool(cuda and cuda.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != 3)


def _answer() -> tuple[list[CudaDevice], str]:
    """Return what `ask_driver` does, by initialising CUDA in this process."""
    count, device, uuid, name = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)(), ctypes.create_string_buffer(96)
    version, part, devices = ctypes.c_int(), ctypes.c_int(), []
    try:
        cuda = ctypes.CDLL(LIBRARY)
        status = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
        if status:
            # 100 is CUDA_ERROR_NO_DEVICE: the environment hides every device.
            return [], "" if status == 100 else f"cuInit gave error {status}"
        cuda.cuDriverGetVersion(ctypes.byref(version))
        for number in range(count.value):
            cuda.cuDeviceGet(ctypes.byref(device), number)
            # The first version of this function gives the UUID of the card for an instance of it.
            if status := cuda.cuDeviceGetUuid_v2(ctypes.byref(uuid), device):
                return [], f"cuDeviceGetUuid_v2 gave error {status}"
            cuda.cuDeviceGetName(name, len(name), device)
            sm = "SM"
            for attribute in (75, 76):  # the two parts of the compute capability
                cuda.cuDeviceGetAttribute(ctypes.byref(part), attribute, device)
                sm += str(part.value)
            devices.append(CudaDevice(bytes(uuid).hex(), name.value.decode(errors="replace"), sm, version.value))
    except (OSError, AttributeError) as error:
        return [], str(error)
    return devices, ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_answer()))
