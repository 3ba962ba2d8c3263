"""What the candidate takes: file, memory of process and device, seconds of building."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from pytest_quant.backends import Engine
from pytest_quant.environment.gpu import gpu_state
from pytest_quant.measure.memory import PeakMemory
from pytest_quant.measure.sides import Side
from pytest_quant.result import Resources

_BYTES_PER_MB = 1e6


@dataclass(frozen=True, slots=True)
class MemoryAdded:
    """Megabytes of 10^6 bytes added by a block of code; ``None`` is not measured."""

    process_mb: float | None
    device_mb: float | None


class AddedMemory:
    """``with AddedMemory("cuda:0") as memory: ...`` then ``memory.added``."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._peak = PeakMemory()
        self.added = MemoryAdded(None, None)

    def __enter__(self) -> Self:
        """Start from what is used now."""
        self._before_mb = self._used_mb()
        self._peak.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Read what was added. On the device other processes count too, which only NVML's total can show."""
        self._peak.__exit__(kind, error, traceback)
        before_mb, after_mb = self._before_mb, self._used_mb()
        device_mb = None if before_mb is None or after_mb is None else max(0.0, after_mb - before_mb)
        self.added = MemoryAdded(self._peak.peak_mb, device_mb)

    def _used_mb(self) -> float | None:
        state = gpu_state(self._device)
        return None if state is None else state.used_mb


def find_resources(candidate: Side, reference: Side, memory: MemoryAdded, energy_mj: float | None) -> Resources:
    """Return every figure that is known.

    Memory of a simulation is not that of the engine it stands for, and neither are the size of the plan and the cost of
    the build where another product made it.
    """
    built, engine = candidate.built, candidate.engine
    real, other = not engine.simulated, _plan_of(engine)
    return Resources(
        size_mb=None if other else engine.size_bytes / _BYTES_PER_MB,
        reference_size_mb=None if _plan_of(reference.engine) else reference.engine.size_bytes / _BYTES_PER_MB,
        build_s=None if other else built.build_s,
        calibration_s=built.calibration_s,
        build_memory_mb=None if other else built.build_memory_mb,
        run_memory_mb=memory.process_mb if real else None,
        energy_mj=energy_mj,
        device_memory_mb=engine.device_bytes / _BYTES_PER_MB if real and engine.device_bytes is not None else None,
        device_memory_nvml_mb=memory.device_mb if real else None,
        plan_of=other,
    )


def _plan_of(engine: Engine) -> str:
    """Name the product that built `engine` in the place of its own; not in the protocol, for few engines have one."""
    return str(getattr(engine, "plan_of", ""))
