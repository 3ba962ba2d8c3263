"""One GPU for a process: chosen by its UUID, before CUDA is initialised."""

from __future__ import annotations

import os
import re

from pytest_quant.environment.cuda_driver import VISIBLE_VARIABLE, is_initialized
from pytest_quant.environment.gpu import Gpu, alike_gpus, cuda_gpus, gpus_under
from pytest_quant.errors import UsageError

_NUMBERED = re.compile(r"cuda:(\d+)")


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
    gpu = _named(name)
    if cuda_gpus().gpus != (gpu,):
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
    gpus = alike_gpus()
    if len(gpus) < 2 or is_initialized():
        return None
    gpu = gpus[number % len(gpus)]
    os.environ[VISIBLE_VARIABLE] = gpu.uuid
    return gpu


def _named(name: str) -> Gpu:
    here, numbered = cuda_gpus(), _NUMBERED.fullmatch(name)
    if numbered:
        fitting = here.gpus[int(numbered[1]) :][:1]
    else:
        # CUDA reads the UUID, or its beginning, itself; what the environment hides stays hidden.
        is_open = VISIBLE_VARIABLE not in os.environ
        fitting = tuple(gpu for gpu in gpus_under(name).gpus if is_open or gpu in here.gpus)
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(f"{gpu.uuid} ({gpu.name})" for gpu in here.gpus)
    raise UsageError(
        f"there is no GPU '{name}' for this run",
        value=here.reason or f"CUDA has {len(here.gpus)} here",
        allowed=listed or "a machine with a GPU that the environment does not hide",
        fix="write one of these UUIDs, which nvidia-smi -L shows" if listed else "run it there, or without the option",
    )
