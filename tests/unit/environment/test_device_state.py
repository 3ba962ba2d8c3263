"""Energy of devices; clocks of a GPU, the memory of this process and who else has it open, as a driver's stub says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.environment import device_state, gpu
from pytest_quant.environment.device_state import (
    Clocks,
    clock_notes,
    clock_reader,
    energy_counter,
    gpu_neighbours,
    neighbour_notes,
    process_memory_mb,
    read_rapl,
    spent_mj,
)
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, each, error, uuid_of

STEADY = Clocks(1980)


def read(device: str = "cuda:0") -> Clocks | None:
    """Read the clocks of a device once."""
    with clock_reader(device) as reader:
        return None if reader is None else reader()


@pytest.mark.parametrize("samples", [[], [STEADY], [STEADY, Clocks(1965)] * 3, [Clocks(None)] * 3])
def test_a_steady_device_has_no_notes(samples: list[Clocks]) -> None:
    """The same clock in all samples, up to one of its steps; or none that can be read."""
    assert clock_notes(samples) == ()


def test_a_clock_that_is_held_down_or_moves_is_noted() -> None:
    """With the share of the samples, that of each reason, and the lowest and highest clock."""
    capped = Clocks(1500, ("power limit",))
    hot = Clocks(1200, ("power limit", "software thermal slowdown"))
    assert clock_notes([STEADY, *[capped] * 3, hot, *[STEADY] * 3]) == (
        "GPU held down in 50 % of 8 samples (power limit 50 %, software thermal slowdown 12 %), "
        "SM clock 1200 to 1980 MHz",
    )
    assert clock_notes([capped] * 5) == ("GPU held down in 100 % of 5 samples (power limit 100 %), SM clock 1500 MHz",)
    assert clock_notes([STEADY, Clocks(1400), STEADY]) == (
        "GPU clock moved: SM clock 1400 to 1980 MHz in 3 samples, held down by nothing",
    )
    assert clock_notes([Clocks(None, ("power brake",))]) == ("GPU held down in 100 % of 1 samples (power brake 100 %)",)


def test_the_bits_are_those_of_the_driver() -> None:
    """As nvml.h numbers them, under both of its names."""
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    names = ("SwPowerCap", "HwSlowdown", "SwThermalSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown")
    for prefix in ("nvmlClocksEventReason", "nvmlClocksThrottleReason"):
        assert [getattr(pynvml, prefix + name) for name in names] == list(device_state._THROTTLES)


def test_the_clock_is_that_of_cudas_device(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """In MHz, with the reasons that hold down a working GPU; of an instance, those of its card."""
    nvml_stub.play(StubCard(sm_mhz=1200, throttle=0x80 | 0x4 | 0x2 | 0x1))
    assert read() == Clocks(1200, ("power limit", "power brake"))
    nvml_stub.play(StubCard(sm_mhz=1410, mig=1, instances=(StubInstance(uuid_of(9, "MIG")),)))
    assert read() == Clocks(1410)
    nvml_stub.play(StubCard(sm_mhz=100), StubCard(sm_mhz=each(210, 1980)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid_of(1))
    with clock_reader("cuda:0") as reader:
        assert reader is not None
        assert [reader().sm_mhz for _ in range(3)] == [210, 1980, 1980]
    assert read("cuda:1") is None


def test_another_device_has_no_clocks_and_does_not_open_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check on the CPU pays nothing for GPUs, and has no neighbours on one."""
    monkeypatch.setattr(gpu, "open_nvml", pytest.fail)
    assert read("cpu") is None
    assert gpu_neighbours("cpu") == {}


@pytest.mark.parametrize(
    ("lacking", "left"),
    [({"sm_mhz": error(999)}, Clocks(None, ("power limit",))), ({"throttle": None}, Clocks(2040))],
)
def test_a_field_that_is_not_supported_takes_no_other_with_it(
    lacking: dict[str, str | None], left: Clocks, nvml_stub: NvmlStub
) -> None:
    """Each is not measured by itself, and the others are."""
    nvml_stub.play(replace(StubCard(throttle=0x4), **lacking))  # type: ignore[arg-type]
    assert read() == left


def test_a_driver_that_knows_the_reasons_by_their_first_name_is_asked_by_it(
    nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before version 535; the package has both names."""
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")

    def unknown(_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    nvml_stub.play(StubCard(throttle=0x8))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", unknown)
    assert read() == Clocks(2040, ("hardware slowdown",))


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


def test_a_stranger_is_a_neighbour_by_number_and_name(nvml_stub: NvmlStub, stranger: Started) -> None:
    """As a process of its own, or as a client of MPS, which has a list of its own; of an instance only its own."""
    server, other = stranger("nvidia-cuda-mps-server"), stranger("serve")
    nvml_stub.play(StubCard(processes=f"self:1,{other}:8000000000"))
    assert gpu_neighbours("cuda:0") == {other: "serve"}
    nvml_stub.play(StubCard(processes=f"{server}:1", mps_processes=f"self:1,{other}:1"))
    assert gpu_neighbours("cuda:0") == {server: "nvidia-cuda-mps-server", other: "serve"}
    part = StubInstance(uuid_of(9, "MIG"), processes="self:1")
    nvml_stub.play(StubCard(processes=f"self:1,{other}:1", mig=1, instances=(part,)))
    assert gpu_neighbours("cuda:0") == {}
    assert neighbour_notes({}) == ()
    assert neighbour_notes({10: "b", 9: "a"}) == ("shared GPU: other processes have it open: 9 (a), 10 (b)",)


def test_processes_of_this_run_and_gone_ones_are_no_neighbours(nvml_stub: NvmlStub) -> None:
    """Workers, and processes that time apart, wait for each other; one that is gone takes no time."""
    with subprocess.Popen((sys.executable, "-c", "input()"), stdin=subprocess.PIPE) as worker:
        nvml_stub.play(StubCard(processes=f"self:1,{worker.pid}:1"))
        assert gpu_neighbours("cuda:0") == {}
        worker.communicate(b"\n")
    nvml_stub.play(StubCard(processes=f"self:1,{worker.pid}:1"))
    assert gpu_neighbours("cuda:0") == {}


@pytest.mark.parametrize("own", ["", "999999:1,"], ids=["none", "of the host"])
def test_numbers_of_another_namespace_name_nobody(nvml_stub: NvmlStub, stranger: Started, own: str) -> None:
    """In a container numbers are those of the host, where this process has another."""
    nvml_stub.play(StubCard(processes=f"{own}{stranger('train')}:1"))
    assert gpu_neighbours("cuda:0") == {}


NEIGHBOUR = os.getpid() + 1


def test_the_memory_of_others_does_not_count(nvml_stub: NvmlStub) -> None:
    """Of two processes on a card, this one's, 10^6 bytes; on an instance, what it has there."""
    nvml_stub.play(StubCard(memory_used=9_000_000_000, processes=f"{NEIGHBOUR}:8000000000,self:250000000"))
    assert process_memory_mb("cuda:0") == 250.0
    part = StubInstance(uuid_of(9, "MIG"), processes="self:13000000")
    nvml_stub.play(StubCard(processes="self:999000000", mig=1, instances=(part,)))
    assert process_memory_mb("cuda:0") == 13.0


@pytest.mark.parametrize(
    "processes",
    ["", f"{NEIGHBOUR}:8000000000", "self:?", None, error(999)],
    ids=["none", "another", "no figure", "unsupported", "error"],
)
def test_what_the_driver_does_not_say_is_not_zero(processes: str | None, nvml_stub: NvmlStub) -> None:
    """A container that hides process numbers, memory that is not available, and a card without the list."""
    nvml_stub.play(StubCard(processes=processes, mps_processes=None))
    assert process_memory_mb("cuda:0") is None
    assert gpu_neighbours("cuda:0") == {}


def test_packages_are_added_up_over_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """In millijoules; a counter that starts again more than once is followed, and one that falls silent is no 0."""
    readings = [((energy, 10_000), (5 * energy, 50_000)) for energy in (0, 9000, 8000, 7000)]
    monkeypatch.setattr(device_state, "read_rapl", lambda: readings.pop(0) if readings else None)
    with energy_counter("cpu") as counter:
        assert counter is not None
        assert [counter() for _ in range(4)] == [54.0, 108.0, 162.0, None]


@pytest.mark.parametrize("device", ["cpu", "npu:0"])
def test_a_device_without_a_counter_has_none(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no package can be read, and where the device is neither a processor nor a GPU."""
    monkeypatch.setattr(device_state, "read_rapl", lambda: None)
    with energy_counter(device) as counter:
        assert counter is None


def test_a_gpu_has_the_counter_of_its_card(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the card that the environment leaves to CUDA, as often as it is read; NVML is opened once."""
    nvml_stub.play(StubCard(energy_mj=5), StubCard(energy_mj=each(7_000_000, 7_000_900)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid_of(1))
    with energy_counter("cuda:0") as counter:
        assert counter is not None
        assert [counter() for _ in range(3)] == [7_000_000.0, 7_000_900.0, 7_000_900.0]
    with energy_counter("cuda:1") as counter:
        assert counter is None
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    nvml_stub.play(StubCard(energy_mj=55, mig=1, instances=(StubInstance(uuid_of(9, "MIG")),)))
    with energy_counter("cuda:0") as counter:
        assert counter is not None
        assert counter() == 55.0


@pytest.mark.parametrize("energy_mj", [None, error(999)])
def test_a_gpu_that_does_not_count_is_no_zero(energy_mj: str | None, nvml_stub: NvmlStub) -> None:
    """Virtual devices and cards before Volta have no counter."""
    nvml_stub.play(StubCard(energy_mj=energy_mj))
    with energy_counter("cuda:0") as counter:
        assert counter is None or counter() is None


RANGE_UJ = 262_143_328_850


def package(root: Path, name: str, energy_uj: int) -> None:
    """Write one zone as the kernel shows it."""
    folder = root / name
    folder.mkdir()
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")


def test_packages_are_read_and_their_parts_are_not(tmp_path: Path) -> None:
    """A core zone is a part of its package and would count twice; without packages, or their files, there is none."""
    assert read_rapl(tmp_path) is None
    package(tmp_path, "intel-rapl:0", 5)
    package(tmp_path, "intel-rapl:1", 7)
    package(tmp_path, "intel-rapl:0:0", 3)
    assert read_rapl(tmp_path) == ((5, RANGE_UJ), (7, RANGE_UJ))
    # In the place of a file that only root may read.
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    (tmp_path / "intel-rapl:0" / "energy_uj").mkdir()
    assert read_rapl(tmp_path) is None


@given(st.lists(st.tuples(st.integers(0, RANGE_UJ - 1), st.integers(0, RANGE_UJ - 1)), min_size=1, max_size=4))
def test_counters_that_start_again_are_followed(pairs: list[tuple[int, int]]) -> None:
    """Whatever the counter showed at first, what was spent comes out, in thousandths of its unit."""
    start = tuple((first, RANGE_UJ) for first, _ in pairs)
    end = tuple(((first + spent) % RANGE_UJ, RANGE_UJ) for first, spent in pairs)
    assert spent_mj(start, end) == pytest.approx(sum(spent for _, spent in pairs) / 1e3)
