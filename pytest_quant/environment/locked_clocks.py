"""Clocks of a GPU locked while engines are timed on it, where this user may do so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from pytest_quant.environment.clock_guard import ClockGuard
from pytest_quant.environment.gpu import cuda_gpu
from pytest_quant.environment.nvml import field, opened_nvml


@dataclass(frozen=True, slots=True)
class ClockLock:
    """The lock of a GPU's clocks.

    Attributes
    ----------
    why_not : reason why they are not locked; empty when they are.
    memory : the clock of the memory is locked too.
    """

    why_not: str = ""
    memory: bool = False

    @property
    def note(self) -> str:
        """What the reader of figures that were timed should know."""
        if self.why_not:
            return f"GPU clocks not locked: {self.why_not}"
        memory = "that of the memory at its highest" if self.memory else "that of the memory is free"
        return f"GPU clocks locked: the SM clock at its base, {memory}"


LockClocks = Callable[[str], AbstractContextManager[ClockLock | None]]
"""Locks the clocks of a device while a block runs; gives ``None`` where nobody asked for it and for other devices."""


def free_clocks(_device: str) -> AbstractContextManager[None]:
    """Lock nothing."""
    return nullcontext()


class ClockLocker:
    """Locks the clocks of GPUs, and says once for each that it cannot.

    Parameters
    ----------
    notify : shows a message to the user.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._refused: dict[str, ClockLock] = {}

    @contextmanager
    def __call__(self, device: str) -> Iterator[ClockLock | None]:
        """Lock the clocks of ``cuda:0`` while the block runs; other devices are left alone, and NVML is not opened."""
        if device in self._refused or device.partition(":")[0] != "cuda":
            yield self._refused.get(device)
            return
        with _locked(device) as lock:
            if lock.why_not:
                self._refused[device] = lock
                self._notify(f"the clocks of {device} cannot be locked: {lock.why_not}; timing goes on without")
            yield lock


@contextmanager
def _locked(device: str) -> Iterator[ClockLock]:
    """Lock the SM clock at the base, which every power and temperature within bounds sustains, and the memory's."""
    with opened_nvml() as nvml:
        gpu = None if nvml is None else cuda_gpu(device)
        card = None if nvml is None or gpu is None else field(nvml, nvml.nvmlDeviceGetHandleByUUID, gpu.card)
        if nvml is None or gpu is None or card is None:
            yield ClockLock("NVML finds no such GPU")
            return
        if gpu.instance:
            yield ClockLock("a part of a split card (MIG) shares them with its neighbours")
            return
        guard, lock = ClockGuard(gpu.card), None
        try:
            lock = _lock(nvml, card)
            yield lock
        finally:
            if lock is None or not lock.why_not:
                field(nvml, nvml.nvmlDeviceResetGpuLockedClocks, card)
                field(nvml, nvml.nvmlDeviceResetMemoryLockedClocks, card)
            guard.dismiss()


def _lock(nvml: Any, card: Any) -> ClockLock:
    base = nvml.NVML_CLOCK_LIMIT_ID_TDP
    try:
        nvml.nvmlDeviceSetGpuLockedClocks(card, base, base)
    except nvml.NVMLError as error:
        known = {
            nvml.NVML_ERROR_NO_PERMISSION: "no permission, which needs root",
            nvml.NVML_ERROR_NOT_SUPPORTED: "this GPU does not support it",
        }
        return ClockLock(known.get(error.value, f"NVML says {error}"))
    try:
        highest = nvml.nvmlDeviceGetMaxClockInfo(card, nvml.NVML_CLOCK_MEM)
        nvml.nvmlDeviceSetMemoryLockedClocks(card, highest, highest)
    except nvml.NVMLError:
        return ClockLock(memory=False)
    return ClockLock(memory=True)
