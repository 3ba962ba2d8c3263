"""Which GPU the checks of this process run on: the GPU of ``--quant-device``, or a worker's share."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from pytest_quant.backends import get_backend
from pytest_quant.environment.cuda_driver import VISIBLE_VARIABLE
from pytest_quant.environment.gpu import Gpu, cuda_gpus, find_gpus, pin_gpu, pin_share
from pytest_quant.errors import QuantError
from pytest_quant.plugin.settings import settings_of
from pytest_quant.printable import clean_lines

OF_CONTROLLER = "quant_gpu"
"""What xdist's controller tells its workers: the UUID of the GPU that they have from it."""

_CHOSEN = pytest.StashKey[Gpu | QuantError | None]()


def choose_early(config: pytest.Config) -> None:
    """Give this process the GPU that the command line names, before the tests are imported.

    Raises
    ------
    pytest.UsageError : there is no such GPU, or CUDA is initialised already.
    """
    inherited: str | None = getattr(config, "workerinput", {}).get(OF_CONTROLLER)
    # What is cuda:1 for xdist's controller is the only GPU of the workers that it starts.
    has_it = inherited is not None and inherited == os.environ.get(VISIBLE_VARIABLE)
    name = inherited if has_it else settings_of(config).device
    try:
        config.stash[_CHOSEN] = None if name is None else pin_gpu(name)
    except QuantError as error:
        raise pytest.UsageError(clean_lines(f"--quant-device: {error}")) from None


def choose(config: pytest.Config, backends: Iterable[str]) -> None:
    """Give this process its GPU before engines of `backends` are opened: the GPU of the ini file, or a worker's share.

    Without the option, backends on the CPU alone leave the process as it is. An error waits for `refuse_without_gpu`. A
    machine without any GPU has nothing to choose from: there the checks are simulated, or say that none is here.
    """
    name = settings_of(config).device
    if _CHOSEN in config.stash or not (name or any(map(_is_on_gpu, backends))):
        return
    try:
        if name is None:
            config.stash[_CHOSEN] = _share(config)
        else:
            config.stash[_CHOSEN] = pin_gpu(name) if find_gpus() or cuda_gpus()[0] else None
    except QuantError as error:
        config.stash[_CHOSEN] = error


def refuse_without_gpu(config: pytest.Config, backends: Iterable[str]) -> None:
    """Raise the error that kept the process from the GPU that one of `backends` needs."""
    chosen = config.stash.get(_CHOSEN, None)
    if isinstance(chosen, QuantError) and any(map(_is_on_gpu, backends)):
        raise chosen


def choose_for_engine(config: pytest.Config, backend: str) -> None:
    """Do both before a test opens an engine of a backend by itself; one on the CPU leaves the process as it is."""
    if _is_on_gpu(backend):
        choose(config, [backend])
        refuse_without_gpu(config, [backend])


def chosen_uuid(config: pytest.Config) -> str | None:
    """Return the UUID of the GPU that this process has been given; ``None`` if it keeps all."""
    chosen = config.stash.get(_CHOSEN, None)
    return chosen.uuid if isinstance(chosen, Gpu) else None


def _share(config: pytest.Config) -> Gpu | None:
    worker = getattr(config, "workerinput", {}).get("workerid", "")
    return pin_share(int(worker.removeprefix("gw"))) if worker.startswith("gw") else None


def _is_on_gpu(backend: str) -> bool:
    return get_backend(backend).device.startswith("cuda")
