"""What a candidate takes: size, memory, time of its build and energy."""

from __future__ import annotations

from pytest_quant.backends import plan_of
from pytest_quant.measure.energy import Energy
from pytest_quant.measure.engines import Side
from pytest_quant.measure.peak_memory import BYTES_PER_MB, MemoryAdded
from pytest_quant.result import Resources


def find_resources(candidate: Side, reference: Side, memory: MemoryAdded, energy: Energy | None) -> Resources:
    """Return size, memory, build time and energy, each ``None`` where it is not known.

    The memory of a simulation is not that of the simulated engine. The size of the plan and the cost of its build are
    left out where another product than the backend's own built the plan.

    Parameters
    ----------
    candidate, reference : the open engines.
    memory : that opening the candidate added.
    energy : of one run.
    """
    built, engine = candidate.built, candidate.engine
    real, other = not engine.simulated, plan_of(engine)
    return Resources(
        size_mb=None if other else engine.size_bytes / BYTES_PER_MB,
        reference_size_mb=None if plan_of(reference.engine) else reference.engine.size_bytes / BYTES_PER_MB,
        build_s=None if other else built.build_s,
        calibration_s=built.calibration_s,
        build_memory_mb=None if other else built.build_memory_mb,
        run_memory_mb=memory.process_mb if real else None,
        energy_mj=None if energy is None else energy.mj,
        energy_mj_ci=None if energy is None else energy.ci,
        device_memory_mb=engine.device_bytes / BYTES_PER_MB if real and engine.device_bytes is not None else None,
        device_memory_nvml_mb=memory.device_mb if real else None,
        plan_of=other,
        device=candidate.backend.device,
    )
