"""The GPU that native TensorRT runs on: whether it is there, its memory, streams and events.

A process of its own: a TensorRT that does not fit its driver or its CUDA may end the process that loads it.
"""

from __future__ import annotations

import atexit
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pytest_quant.backends.child_process import ChildError, call_in_child
from pytest_quant.backends.cuda import DeviceMemory, PycudaMemory
from pytest_quant.backends.offer import Availability
from pytest_quant.backends.runtime import driver_too_old, installed_version, memory_libraries
from pytest_quant.environment.gpu import cuda_gpus
from pytest_quant.errors import BackendUnavailable


def open_device(index: int = 0, library: str = "") -> DeviceMemory:
    """Return the memory of GPU `index`, one object in a process for each library.

    Parameters
    ----------
    index : as CUDA counts the devices that this process sees.
    library : ``cuda-bindings`` or ``pycuda``; empty for the first of them that is here and loads.

    Raises
    ------
    BackendUnavailable : none loads, or not the one that is named.
    BuildError : the driver refuses the device.
    """
    said = []
    for name in memory_libraries():
        if library in ("", name):
            try:
                return _open_memory(name, index)
            except ImportError as error:
                said.append(f"{name}: {error}")
    wanted = library or "cuda-bindings"
    raise BackendUnavailable(
        f"{library or 'a library for device memory'} is asked for and not here",
        value="; ".join(said) or f"installed: {', '.join(memory_libraries()) or 'neither cuda-bindings nor pycuda'}",
        fix=f"pip install {wanted}; pycuda serves as cuda-bindings do, and needs nvcc and a compiler",
    )


@cache
def _open_memory(name: str, index: int) -> DeviceMemory:
    # pycuda's context must be given back while its module is whole.
    atexit.register(_open_memory.cache_clear)
    if name == "pycuda":
        return PycudaMemory(index)
    return DeviceMemory(import_module("cuda.bindings.runtime"), import_module("cuda.bindings.driver"), index)


_BAD = ("[ERROR]", "[INTERNAL_ERROR]")
_ERRORS_SHOWN, _LINES_SHOWN = 6, 3
_LISTED = ("Layers:", "Name: ")
"""How TensorRT-RTX begins to list the layers of a plan, in the lowest severity."""


def make_logger(trt: Any, lines: list[str]) -> Any:
    """Return a logger that appends to its `lines`, severity in front, at first these. Keep a reference to it.

    Of the lowest severity it keeps lists of layers alone: a build on a device logs each kernel that it times.
    """

    class Logger(trt.ILogger):  # type: ignore[misc]
        """Keeps lines with their severity in front."""

        def __init__(self) -> None:
            # Without this call of the binding's own constructor the first line crashes the process.
            trt.ILogger.__init__(self)
            self.lines = lines

        def log(self, severity: Any, msg: str) -> None:
            name = str(severity).rpartition(".")[2]
            if name != "VERBOSE" or msg.startswith(_LISTED):
                self.lines.append(f"[{name}] {msg}")

    return Logger()


def complaints(lines: list[str]) -> str:
    """Return the latest errors in the log, newest first; without errors, its last lines.

    Why a tactic was skipped stands directly before the line that says so, as errors too, and is no cause of anything:
    it is told only where the log has no other error.
    """
    left: list[str] = []
    for line in lines:
        left.append(line)
        while "Skipping tactic" in line and left and left[-1].startswith((*_BAD, "[WARNING]")):
            left.pop()
    bad = [line for line in left if line.startswith(_BAD)] or [line for line in lines if line.startswith(_BAD)]
    return "\n".join(bad[: -_ERRORS_SHOWN - 1 : -1] or lines[-_LINES_SHOWN:]) or "the log says nothing"


_OLDER_CUDA = 'in a new environment pip install "pytest-quant[trt-cu12]"'
_SIMULATE = "or let it be simulated: pytest --quant-simulate=SM89"
_PACKAGES = tuple(
    f"tensorrt{toolkit}{part}" for part in ("", "-bindings", "-libs") for toolkit in ("", "-cu13", "-cu12")
)
"""A distribution of each toolkit of CUDA, and the two that it brings."""


def find_native() -> Availability:
    """Tell whether tensorrt, a GPU and a library for device memory are here. TensorRT is loaded in another process."""
    if find_spec("tensorrt") is None:
        fix = f'on a machine with an NVIDIA GPU pip install "pytest-quant[trt]", {_SIMULATE}'
        return Availability(False, reason="tensorrt is not installed", fix=fix)
    gpus, reason = cuda_gpus()
    probed = probe_native(with_device=bool(gpus))
    if not probed.available:
        return probed
    if not gpus:
        installed = f"{reason}; TensorRT {probed.version} is installed"
        return Availability(False, reason=installed, fix=f"run it on a machine with a GPU, {_SIMULATE}")
    if not memory_libraries():
        fix = "pip install cuda-bindings"
        return Availability(False, reason="neither cuda-bindings nor pycuda is installed", fix=fix)
    bindings = installed_version("cuda-bindings") if "pycuda" not in memory_libraries() else ""
    if refused := driver_too_old({f"cuda-bindings {bindings}": bindings}, 'pip install "cuda-bindings<13"'):
        return refused
    gpu = gpus[0]
    return Availability(True, version=probed.version, device=f"cuda:0 {gpu.name} ({gpu.sm or 'unknown'})")


@cache
def probe_native(*, with_device: bool) -> Availability:
    """Load TensorRT in a process of its own, once in this one: a crash there is an answer.

    Without a device nothing is made of it: that TensorRT then fails is no fault of the installation.
    """
    if with_device and (refused := driver_too_old(_wheel(), _OLDER_CUDA)):
        return refused
    try:
        return call_in_child(load_native, with_device, limit_s=60.0)[0]
    except ChildError as ended:
        return _broken(f"tensorrt did not load: it {ended.how or ended.error}. {ended.said.strip()[-300:]}".strip(". "))


def load_native(with_device: bool) -> Availability:
    """Load TensorRT into this process, and make a runtime if there is a device for it."""
    lines: list[str] = []
    try:
        trt = import_module("tensorrt")
        if with_device:
            trt.Runtime(make_logger(trt, lines))
    except Exception as error:
        if not lines:
            said = f"{type(error).__name__}: {error}"
            return _broken(f"import tensorrt fails: {said}; installed: {installed_tensorrt()}")
        # The error is only that there is no runtime; the log has the cause.
        reason = f"TensorRT gives no runtime: {complaints(lines)}"
        fix = f"nvidia-smi shows the driver's CUDA; for CUDA 12 {_OLDER_CUDA}"
        return Availability(False, reason=reason, fix=fix, broken=True)
    return Availability(True, version=str(trt.__version__))


def installed_tensorrt() -> str:
    """Return the distributions of TensorRT that are installed, with their versions."""
    versions = [f"{name} {here}" for name in _PACKAGES if (here := installed_version(name))]
    return ", ".join(versions) or "no distribution of TensorRT"


def _wheel() -> dict[str, str]:
    """Return the CUDA of the distribution of TensorRT that is installed; nothing if several are."""
    named = [name for name in installed_tensorrt().split(", ") if "-cu" in name]
    made_for = {name.partition("-cu")[2][:2] for name in named}
    return {named[0]: made_for.pop()} if len(made_for) == 1 else {}


def _broken(reason: str) -> Availability:
    named = next((each for each in _PACKAGES if installed_version(each)), "tensorrt")
    return Availability(False, reason=reason, fix=f"pip install --force-reinstall {named}, {_SIMULATE}", broken=True)
