"""Who has the GPU open, by real processes that a stub of the driver lists, and the memory of this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_quant.environment.gpu_processes import gpu_neighbours, neighbour_notes, process_memory_mb
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, error, uuid_of

START = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], start_new_session=True, stdout=2).pid)"

Started = Callable[[str], int]


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Started]:
    """Start a program of that name which nobody of this run is above, and which ends with the test."""
    with ExitStack() as ends:

        def start(name: str) -> int:
            program = tmp_path / name
            shutil.copy(shutil.which("cat") or "/bin/cat", program)
            # The process between ends at once, and the system takes its child.
            command = (sys.executable, "-c", START, program)
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert process.stdin is not None
            assert process.stdout is not None
            ends.callback(process.stdin.close)
            with process.stdout:
                pid = int(process.stdout.readline())
            process.wait()
            return pid

        yield start


def test_stub_driver_lists_a_stranger(nvml_stub: NvmlStub, stranger: Started) -> None:
    """By number and name; this process is none."""
    pid = stranger("train")
    nvml_stub.play(StubCard(processes=f"self:1,{pid}:8000000000"))
    assert gpu_neighbours("cuda:0") == {pid: "train"}


def test_stub_driver_lists_processes_of_this_run(nvml_stub: NvmlStub) -> None:
    """Workers, and processes that time apart, wait for each other: none is a neighbour."""
    with subprocess.Popen((sys.executable, "-c", "input()"), stdin=subprocess.PIPE) as worker:
        nvml_stub.play(StubCard(processes=f"self:1,{worker.pid}:1"))
        assert gpu_neighbours("cuda:0") == {}
        worker.communicate(b"\n")


@pytest.mark.parametrize("own", ["", "999999:1,"], ids=["none", "of the host"])
def test_stub_driver_with_the_numbers_of_another_namespace_says_nothing(
    nvml_stub: NvmlStub, stranger: Started, own: str
) -> None:
    """In a container numbers are those of the host, where this process has another: they name nobody here."""
    nvml_stub.play(StubCard(processes=f"{own}{stranger('train')}:1"))
    assert gpu_neighbours("cuda:0") == {}


def test_stub_driver_lists_a_process_that_is_gone(nvml_stub: NvmlStub) -> None:
    """Nothing tells what it was, and by now it takes no time."""
    with subprocess.Popen((sys.executable, "-c", "")) as gone:
        gone.wait()
        nvml_stub.play(StubCard(processes=f"self:1,{gone.pid}:1"))
        assert gpu_neighbours("cuda:0") == {}


def test_stub_driver_with_mps(nvml_stub: NvmlStub, stranger: Started) -> None:
    """Its server is listed as any process, and its clients, this one among them, in a list of their own."""
    server, other = stranger("nvidia-cuda-mps-server"), stranger("serve")
    nvml_stub.play(StubCard(processes=f"{server}:1", mps_processes=f"self:1,{other}:1"))
    found = gpu_neighbours("cuda:0")
    assert found == {server: "nvidia-cuda-mps-server", other: "serve"}
    (note,) = neighbour_notes(found, found)
    assert "MPS" in note
    assert "nvidia-cuda-mps-server" in note


@pytest.mark.parametrize("processes", [None, error(999)])
def test_stub_driver_without_the_list_says_nothing(nvml_stub: NvmlStub, processes: str | None) -> None:
    """A card that does not support it."""
    nvml_stub.play(StubCard(processes=processes, mps_processes=None))
    assert gpu_neighbours("cuda:0") == {}


def test_stub_driver_of_an_instance_lists_its_own(nvml_stub: NvmlStub, stranger: Started) -> None:
    """The processors of another instance are none of ours."""
    part = StubInstance(uuid_of(9, "MIG"), processes="self:1")
    nvml_stub.play(StubCard(processes=f"self:1,{stranger('train')}:1", mig=1, instances=(part,)))
    assert gpu_neighbours("cuda:0") == {}


def test_a_device_that_is_no_gpu_has_no_neighbours() -> None:
    """Load on the processors is told by other notes."""
    assert gpu_neighbours("cpu") == {}


def test_a_note_tells_who_was_there_before_and_after() -> None:
    """One note for all, in the order of their numbers; none where nobody was."""
    assert neighbour_notes({}, {}) == ()
    assert neighbour_notes({10: "b", 9: "a"}, {11: "c", 9: "a"}) == (
        "shared GPU: other processes have it open: 9 (a), 10 (b, only before timing), 11 (c, only after timing)",
    )


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
