"""A machine with NVIDIA GPUs, played by a stub of the driver's two libraries with their real C interface.

The real package nvidia-ml-py runs on it, in this process and in others::

    def test_two_cards(nvml_stub: NvmlStub) -> None:
        nvml_stub.play(StubCard(name="NVIDIA L4"), StubCard(name="NVIDIA T4", capability="7.5", energy_mj=None))
        ...  # in this process pynvml has two cards now
        subprocess.run(command, env=nvml_stub.environment())  # and there too

A field that is ``None`` is one that the device does not support (NVML_ERROR_NOT_SUPPORTED); `error` gives another
error. Each field that is a number may change by itself: see `each` and `steps`. `play` may be called again at any time:
the next call of NVML finds the new machine. fingerprint() and other functions that are cached are for the test to
clear, or to call in another process.

The stub of ``libcuda.so.1`` numbers the devices whose UUIDs `play` gets as `cuda`, and those alone that
CUDA_VISIBLE_DEVICES names, by numbers or UUIDs or how these begin.
It is compiled by the system's C compiler; without one the tests that use it are skipped.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, fields
from itertools import count
from pathlib import Path

import pytest

from pytest_quant.environment.cuda_driver import _ask

_SOURCE = Path(__file__).with_name("nvml_stub.c")
_FILE_VARIABLE = "NVML_STUB"
_LIBRARY_PATH = "LD_LIBRARY_PATH"


def each(*values: int) -> str:
    """Return a number that is the next of `values` at each call, and the last of them from then on."""
    return "each " + ",".join(map(str, values))


def steps(every_ms: float, by: float, start: float = 0.0) -> str:
    """Return a counter that grows at edges, as the real one of energy does.

    Parameters
    ----------
    every_ms : milliseconds between two edges, on the monotonic clock from now on.
    by : what is added at each edge.
    start : the value before the first.
    """
    return f"steps {time.monotonic():.9f} {every_ms} {by} {start}"


def error(number: int) -> str:
    """Return a field that NVML refuses with this number of an error."""
    return f"!{number}"


@dataclass(frozen=True, slots=True)
class StubInstance:
    """An instance of a split card (MIG). Clocks, throttling and energy are the card's: NVML refuses them here."""

    uuid: str
    name: str = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    gpu_instance: int = 1
    compute_instance: int = 0
    memory_total: int | str | None = 4_980_736_000
    memory_used: int | str | None = 13_000_000
    processes: str | None = ""


@dataclass(frozen=True, slots=True)
class StubCard:
    """A card; memory in bytes, clocks in MHz, energy in millijoules.

    Attributes
    ----------
    uuid, pci : of the card; by default ones that differ from those of the cards before.
    throttle : the mask of reasons for a lower clock.
    processes : ``PID:BYTES,PID:BYTES`` of computing processes; PID ``self`` is the one that asks, BYTES ``?`` are
        not available.
    mps_processes : those that reach the card through the server of MPS, which is among `processes` itself.
    mig : 1 for a split card, which has `instances` for devices; ``None`` for one that cannot be split.
    lost : any text for a card that fell off the bus.
    """

    name: str = "NVIDIA L4"
    uuid: str = ""
    pci: str | None = ""
    capability: str | None = "8.9"
    memory_total: int | str | None = 24_000_000_000
    memory_used: int | str | None = 500_000_000
    sm_mhz: int | str | None = 2040
    max_sm_mhz: int | str | None = 2040
    memory_mhz: int | str | None = 6251
    max_memory_mhz: int | str | None = 6251
    throttle: int | str | None = 0
    energy_mj: int | str | None = 1_000_000
    power_mw: int | str | None = 30_000
    celsius: int | str | None = 40
    processes: str | None = ""
    mps_processes: str | None = ""
    mig: int | None = None
    lost: str | None = None
    instances: tuple[StubInstance, ...] = ()


def uuid_of(number: int, kind: str = "GPU") -> str:
    """Return the UUID that card `number` has where none is named; of another kind for an instance."""
    return f"{kind}-{number:08x}-d72c-4106-c12f-20bd9faed9f6"


class NvmlStub:
    """The machine that is played; nothing, before `play`: then there is no driver."""

    def __init__(self, libraries: Path, folder: Path) -> None:
        self._libraries = libraries
        self._folder = folder
        self._numbers = count()
        self._file = folder / "no-machine"

    @property
    def library(self) -> Path:
        """The stub of NVML."""
        return self._libraries / "libnvidia-ml.so.1"

    def play(
        self,
        *cards: StubCard,
        driver: str = "580.65.06",
        cuda: tuple[str, ...] | int | None = None,
        cuda_version: int | None = 13000,
        cuda_name: str = "NVIDIA L4",
        cuda_capability: str = "8.9",
        nvml: int | None = None,
    ) -> None:
        """Write the machine, for this process and those that know its file already.

        Parameters
        ----------
        cards : in the order of NVML.
        driver : version of the driver.
        cuda : UUIDs of the devices that CUDA's driver shows, in its order; or the number of the error of ``cuInit``.
            ``None`` for all cards in the given order, or for the first instance where a card is split.
        cuda_version : of the driver, 12040 for 12.4; ``None`` where NVML finds no libcuda.
        cuda_name, cuda_capability : what CUDA's driver says of each of its devices.
        nvml : number of the error with which NVML does not start, 12 for no library and 18 for one of another driver.
        """
        lines = [f"driver={driver}", f"cards={len(cards)}", f"cuda_name={cuda_name}"]
        lines += [f"cuda_capability={cuda_capability}", *([] if nvml is None else [f"nvml={nvml}"])]
        lines += [] if cuda_version is None else [f"cuda_version={cuda_version}"]
        whole = [card.uuid or uuid_of(place) for place, card in enumerate(cards) if not card.mig]
        instances = [instance.uuid for card in cards for instance in card.instances]
        shown = (instances[:1] or whole) if cuda is None else cuda
        lines.append(f"cuda=!{shown}" if isinstance(shown, int) else f"cuda={','.join(shown)}")
        lines.append(f"devices={','.join([*whole, *instances])}")
        for place, card in enumerate(cards):
            own = {"uuid": card.uuid or uuid_of(place)}
            if card.pci == "":
                own["pci"] = f"00000000:{place + 1:02X}:00.0"
            lines += _lines(str(place), card, own)
            for number, instance in enumerate(card.instances):
                lines += _lines(f"{place}.{number}", instance, {})
        if not self._file.exists():
            self._file = self._folder / f"machine-{next(self._numbers)}"
        for counted in self._folder.glob(f"{self._file.name}.*.*"):
            counted.unlink()
        # Replaced at once, because other processes may be reading it.
        new = self._file.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n")
        new.replace(self._file)
        os.environ[_FILE_VARIABLE] = str(self._file)
        _ask.cache_clear()

    def environment(self) -> dict[str, str]:
        """Return the environment of a process that finds this machine, and is as this one else."""
        return {**os.environ, _LIBRARY_PATH: self.library_path, _FILE_VARIABLE: str(self._file)}

    @property
    def library_path(self) -> str:
        """What ``LD_LIBRARY_PATH`` is for both stubs to be found."""
        others = os.environ.get(_LIBRARY_PATH, "").split(os.pathsep)
        return os.pathsep.join(
            [str(self._libraries), *(path for path in others if path and path != str(self._libraries))]
        )

    @property
    def cuda_starts(self) -> int:
        """How often CUDA's driver was initialised, by whichever process."""
        marks = self._file.with_name(f"{self._file.name}.cuda")
        return marks.stat().st_size if marks.exists() else 0


def _lines(key: str, device: StubCard | StubInstance, own: dict[str, str]) -> list[str]:
    values = {field.name: getattr(device, field.name) for field in fields(device)} | own
    return [f"{key}.{name}={value}" for name, value in values.items() if name != "instances" and value is not None]


@pytest.fixture(scope="session")
def nvml_stub_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both stubs, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler here, with which the stub of NVIDIA's driver is made")
    folder = tmp_path_factory.mktemp("nvidia-driver-stub")
    for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
        command = [compiler, "-O1", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(folder / name), str(_SOURCE)]
        subprocess.run(command, check=True)
    return folder


@pytest.fixture
def nvml_stub(nvml_stub_libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NvmlStub:
    """A machine to be played, which nvidia-ml-py finds in this process and in those with its environment."""
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    folder = tmp_path / "nvml-stub"
    folder.mkdir()
    stub = NvmlStub(nvml_stub_libraries, folder)
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(stub.library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    # Set for the monkey patch to bring back what was there.
    monkeypatch.setenv(_FILE_VARIABLE, str(folder / "no-machine"))
    monkeypatch.setenv(_LIBRARY_PATH, stub.library_path)
    return stub
