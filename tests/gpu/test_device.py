"""Memory and events of a real GPU, and which card a CUDA device name stands for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pytest_quant.backends.cuda import DeviceMemory
from pytest_quant.backends.cuda.device import open_device
from pytest_quant.backends.ort.libraries import find_loading_error
from pytest_quant.backends.runtime import memory_libraries
from pytest_quant.environment.cuda_driver import VISIBLE_VARIABLE, ask_driver
from pytest_quant.environment.gpu import cuda_gpus
from pytest_quant.errors import BuildError

pytestmark = pytest.mark.gpu

SIZE = 1 << 20


@pytest.fixture
def memory() -> DeviceMemory:
    """The preferred library that is here."""
    trouble = find_loading_error("libcuda.so.1")
    if trouble:
        pytest.skip(f"there is no NVIDIA driver here ({trouble})")
    if not memory_libraries():
        pytest.skip("neither cuda-bindings nor pycuda is installed")
    return open_device()


def test_events_are_recorded_again(memory: DeviceMemory) -> None:
    """Each time holds the copies between them, and a longer copy takes longer."""
    with memory.current():
        stream, address, array = memory.new_stream(), memory.allocate(64 * SIZE), memory.lock(64 * SIZE)
        first, second = memory.new_event(), memory.new_event()
        times = []
        for count in (1, 64):
            for _ in range(3):
                memory.record(first, stream)
                memory.copy_in(address, array[: count * SIZE], stream)
                memory.record(second, stream)
                memory.wait(stream)
            times.append(memory.between_ms(first, second))
        assert 0 < times[0] < times[1]
        memory.end_event(first)
        memory.end_event(second)
        memory.unlock(array)
        memory.free(address)
        memory.end_stream(stream)


def test_memory_that_runs_out_is_told_and_the_process_goes_on(memory: DeviceMemory) -> None:
    """With what was asked for and what is free."""
    with memory.current():
        with pytest.raises(BuildError, match="out of memory") as caught:
            memory.allocate(1 << 50)
        assert "MB of the GPU are free" in str(caught.value)
        memory.free(memory.allocate(SIZE))


BREAKS = """
import sys
from contextlib import suppress
import torch
from pytest_quant.backends.cuda.device import open_device
from pytest_quant.errors import BuildError

memory = open_device()
with memory.current():
    stream, address = memory.new_stream(), memory.allocate(16)
    with suppress(RuntimeError):
        torch.zeros(4, device="cuda")[torch.tensor([9], device="cuda")]
        # Streams do not wait for each other: the kernel has to have run.
        torch.cuda.synchronize()
    for call in (lambda: memory.wait(stream), lambda: memory.allocate(16)):
        try:
            call()
        except BuildError as error:
            assert "no longer use the GPU" in str(error), str(error)
        else:
            raise AssertionError("CUDA went on")
    memory.free(address)
    memory.end_stream(stream)
print("told")
"""


def test_an_error_that_breaks_the_process_is_told_as_such(memory: DeviceMemory) -> None:
    """In a process of its own: a kernel of torch that reads past its end."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip(f"torch {torch.__version__} finds no GPU")
    ended = subprocess.run([sys.executable, "-c", BREAKS], capture_output=True, text=True, timeout=300, check=False)
    assert "told" in ended.stdout, ended.stderr[-2000:]
    assert memory.name


PIN = """
import sys
from pytest_quant.environment.cuda_driver import is_initialized
from pytest_quant.environment.gpu import pin_gpu
before = is_initialized()
gpu = pin_gpu(sys.argv[1])
import torch
print(gpu.uuid, torch.cuda.device_count(), torch.cuda.get_device_properties(0).uuid, before, is_initialized())
"""


def digits(uuid: str) -> str:
    """Return the digits of a UUID, whatever stands before and between them."""
    return uuid.removeprefix("GPU-").removeprefix("MIG-").replace("-", "")


def test_the_devices_are_those_of_the_driver() -> None:
    """In its order."""
    gpus, reason = cuda_gpus()
    if not gpus:
        pytest.skip(reason)
    devices, error = ask_driver(os.environ.get(VISIBLE_VARIABLE))
    assert error == ""
    assert [digits(gpu.uuid) for gpu in gpus] == [device.uuid for device in devices]


def test_a_chosen_card_is_the_only_one_of_torch() -> None:
    """By its UUID, for each of them; that CUDA is initialised is noticed."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if torch.version.cuda is None:
        pytest.skip("this PyTorch is a build without CUDA")
    gpus, reason = cuda_gpus()
    if not gpus:
        pytest.skip(reason)
    for gpu in gpus:
        words = subprocess.run(
            [sys.executable, "-c", PIN, gpu.uuid], capture_output=True, text=True, check=True
        ).stdout.split()
        uuid, count, of_torch, before, after = words
        assert (uuid, count, digits(of_torch)) == (gpu.uuid, "1", digits(gpu.uuid))
        assert (before, after) == ("False", "True")
