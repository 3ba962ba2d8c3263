"""Device memory of this process, on a stub of the driver."""

from __future__ import annotations

import os

import pytest

from pytest_quant.environment.gpu_memory import process_memory_mb
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, error, uuid_of

NEIGHBOUR = os.getpid() + 1


def test_the_memory_of_others_does_not_count(nvml_stub: NvmlStub) -> None:
    """Of two processes on a card, this one's; 10^6 bytes."""
    nvml_stub.play(StubCard(memory_used=9_000_000_000, processes=f"{NEIGHBOUR}:8000000000,self:250000000"))
    assert process_memory_mb("cuda:0") == 250.0


@pytest.mark.parametrize(
    "processes",
    ["", f"{NEIGHBOUR}:8000000000", "self:?", None, error(999)],
    ids=["none", "another", "no figure", "unsupported", "error"],
)
def test_what_the_driver_does_not_tell_is_not_zero(processes: str | None, nvml_stub: NvmlStub) -> None:
    """A container that hides process numbers, memory that is not available, and a card without the list."""
    nvml_stub.play(StubCard(processes=processes))
    assert process_memory_mb("cuda:0") is None


def test_an_instance_has_processes_of_its_own(nvml_stub: NvmlStub) -> None:
    """They are asked of the part that CUDA has, not of its card."""
    part = StubInstance(uuid_of(9, "MIG"), processes="self:13000000")
    nvml_stub.play(StubCard(processes="self:999000000", mig=1, instances=(part,)))
    assert process_memory_mb("cuda:0") == 13.0


@pytest.mark.parametrize("device", ["cpu", "npu:0", "cuda:1"])
def test_what_is_no_gpu_here_has_no_memory(device: str, nvml_stub: NvmlStub) -> None:
    """Another kind of device, and one that CUDA does not have."""
    nvml_stub.play(StubCard(processes="self:1000000"))
    assert process_memory_mb(device) is None


def test_a_driver_without_the_list_ends_no_check(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is older than the package, of which the package complains by an error that is none of NVML's."""
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    pointer = pynvml._nvmlGetFunctionPointer

    def missing(name: str) -> object:
        if name.startswith("nvmlDeviceGetComputeRunningProcesses"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return pointer(name)

    nvml_stub.play(StubCard(processes="self:1000000"))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", missing)
    assert process_memory_mb("cuda:0") is None
