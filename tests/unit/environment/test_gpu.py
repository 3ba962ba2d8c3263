"""NVIDIA GPUs, on machines with and without one."""

from __future__ import annotations

from pytest_quant.environment.gpu import find_gpus
from pytest_quant.environment.gpu_state import gpu_state


def test_every_gpu_found_has_a_state() -> None:
    """What NVML lists it can also describe; without a GPU the list is empty and nothing is raised."""
    for gpu in find_gpus():
        state = gpu_state(f"cuda:{gpu.index}")
        assert state is not None
        assert 0.0 <= state.used_mb <= gpu.memory_mb
        assert gpu.sm.startswith("SM")
