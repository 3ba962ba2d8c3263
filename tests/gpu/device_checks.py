"""Checks of a GPU that need no engine: NVML, memory, events, neighbours, energy.

``python -m tests.gpu.device_checks NAME`` runs one of them, in a process of its own since a sticky error of CUDA spoils
the process that it meets, and prints what it found as JSON in its last line. What the machine lacks is a `Lacking`, and
what is wrong an `AssertionError`.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from pytest_quant.backends.cuda import DeviceMemory
from pytest_quant.backends.ort.libraries import find_loading_error
from pytest_quant.environment.device_state import clock_reader, energy_counter, process_memory_mb
from pytest_quant.environment.gpu import cuda_gpu, find_gpus
from pytest_quant.measure.resources import measure_energy
from tests.gpu.report import Found

MB = 1_000_000
_COPY_MB, _NEIGHBOUR_MB, _COPIES = 64, 2000, 50


class Lacking(Exception):  # noqa: N818 - no error: the machine has not what the check needs
    """What the machine lacks."""


def nvml() -> str:
    """Every field of NVML by itself, and that no visible device leaves none for CUDA."""
    if find_spec("pynvml") is None:
        raise Lacking("nvidia-ml-py is not installed")
    gpus = find_gpus()
    if not gpus:
        raise Lacking("there is no NVIDIA GPU here, or its driver does not answer")
    with clock_reader("cuda:0") as read_clocks, energy_counter("cuda:0") as read_mj:
        figures = {
            "clocks": None if read_clocks is None else read_clocks(),
            "energy in mJ": None if read_mj is None else read_mj(),
            "memory of this process in MB": process_memory_mb("cuda:0"),
        }
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    assert find_gpus() == gpus, "the cards of the machine depend on what is visible to CUDA"
    assert cuda_gpu("cuda:0") is None, "a device is found where none is visible"
    named = "; ".join(f"{gpu.name} {gpu.sm} {gpu.memory_mb or 0:.0f} MB {gpu.uuid}" for gpu in gpus)
    texts = (f"{name}: {'not told' if value is None else value}" for name, value in figures.items())
    return f"{named}; " + "; ".join(texts)


def memory() -> str:
    """Bytes go there and come back, by cuda-bindings, beside torch where it is here."""
    return _there_and_back(_cuda_bindings())


def memory_by_pycuda() -> str:
    """The same by pycuda."""
    if find_spec("pycuda") is None:
        raise Lacking("pycuda is not installed")
    _need_driver()
    from pytest_quant.backends.cuda import PycudaMemory

    return _there_and_back(PycudaMemory(0))


def events() -> str:
    """The device's clock around a kernel of torch, beside torch's own events and the clock of the host."""
    torch = cuda_torch()
    device = _cuda_bindings()
    with device.current():
        stream = device.new_stream()
        matrix = torch.rand(4096, 4096, device="cuda")
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
            for _ in range(3):
                matrix @ matrix
            device.wait(stream)
            theirs = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            started_s = time.perf_counter()
            first, last = device.new_event(), device.new_event()
            device.record(first, stream)
            theirs[0].record()
            for _ in range(_COPIES):
                matrix @ matrix
            theirs[1].record()
            device.record(last, stream)
            device.wait(stream)
            host_ms = 1e3 * (time.perf_counter() - started_s)
            ours_ms, theirs_ms = device.between_ms(first, last), theirs[0].elapsed_time(theirs[1])
        device.end_stream(stream)
    assert 0.9 < ours_ms / theirs_ms < 1.1, f"ours {ours_ms:.3f} ms, torch's {theirs_ms:.3f} ms"
    assert ours_ms <= host_ms * 1.01, f"the device's {ours_ms:.3f} ms are more than the host's {host_ms:.3f} ms"
    times = f"{ours_ms:.3f} ms by our events, {theirs_ms:.3f} ms by torch's, {host_ms:.3f} ms by the host's clock"
    return f"{_COPIES} products: {times}"


def neighbour() -> str:
    """What another process allocates is that of the card, and not of this one."""
    device = _cuda_bindings()
    with device.current():
        address = device.allocate(_COPY_MB * MB)
        before_mb = process_memory_mb("cuda:0")
        program = "from tests.gpu.device_checks import hold; hold()"
        with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as other:
            assert other.stdout is not None
            assert other.stdin is not None
            assert other.stdout.readline().strip() == "held", "the neighbour did not start"
            beside_mb = process_memory_mb("cuda:0")
            other.stdin.close()
        device.free(address)
    if before_mb is None or beside_mb is None:
        raise Lacking("NVML does not tell the memory of this process, as in containers with own process numbers")
    assert before_mb >= _COPY_MB, f"{before_mb:.0f} MB are told of a process that took {_COPY_MB}"
    assert abs(beside_mb - before_mb) < _COPY_MB, f"{before_mb:.0f} MB alone, {beside_mb:.0f} MB beside the neighbour"
    return f"{before_mb:.0f} MB of this process alone, {beside_mb:.0f} MB beside a process that took {_NEIGHBOUR_MB}"


def hold() -> None:
    """Hold device memory until the standard input ends: the neighbour."""
    device = _cuda_bindings()
    with device.current():
        address = device.allocate(_NEIGHBOUR_MB * MB)
        sys.stdout.write("held\n")
        sys.stdout.flush()
        sys.stdin.read()
        device.free(address)


def energy() -> str:
    """Half a second of a kernel against five, five times each: how far figures of either lie apart."""
    torch = cuda_torch()
    matrix = torch.rand(4096, 4096, device="cuda")

    def product() -> None:
        matrix @ matrix
        torch.cuda.synchronize()

    with energy_counter("cuda:0") as counter:
        if counter is None or counter() is None:
            raise Lacking("this GPU has no energy counter")
        short = [rough[0] for _ in range(5) if (rough := measure_energy(product, counter, None)) is not None]
        long = measure_energy(product, counter, math.inf)
    assert short, "the counter stands still"
    assert long is not None, "the counter stands still"
    mj, span = long
    assert span is not None
    spread = (max(short) - min(short)) / mj
    return (
        f"{mj:.1f} mJ a product [{span.low:.1f}, {span.high:.1f}] over 5 s and more; over 0.5 s "
        f"{', '.join(f'{each:.1f}' for each in short)} mJ, which lie {spread:.1%} apart"
    )


CHECKS: dict[str, Callable[[], str]] = {
    check.__name__: check for check in (nvml, memory, memory_by_pycuda, events, neighbour, energy)
}


def _need_driver() -> None:
    trouble = find_loading_error("libcuda.so.1")
    if trouble:
        raise Lacking(f"there is no NVIDIA driver here ({trouble})")


def _cuda_bindings() -> DeviceMemory:
    _need_driver()
    try:
        runtime, driver = import_module("cuda.bindings.runtime"), import_module("cuda.bindings.driver")
    except ImportError as error:
        raise Lacking(f"cuda-bindings: {error}") from error
    return DeviceMemory(runtime, driver, 0)


def cuda_torch() -> Any:
    """Return torch. Raises `Lacking` where it is not here or finds no GPU."""
    if find_spec("torch") is None:
        raise Lacking("torch is not installed")
    import torch

    if not torch.cuda.is_available():
        raise Lacking(f"torch {torch.__version__} finds no GPU")
    return torch


def _there_and_back(device: DeviceMemory) -> str:
    beside = _beside_torch()
    sent = np.random.default_rng(1).integers(0, 256, _COPY_MB * MB, np.uint8)
    came = np.zeros_like(sent)
    with device.current():
        stream, address = device.new_stream(), device.allocate(sent.nbytes)
        started, there, back = (device.new_event() for _ in range(3))
        device.record(started, stream)
        device.copy_in(address, sent, stream)
        device.record(there, stream)
        device.copy_out(came, address, stream)
        device.record(back, stream)
        device.wait(stream)
        in_ms, out_ms = device.between_ms(started, there), device.between_ms(there, back)
        device.free(address)
        device.end_stream(stream)
    assert np.array_equal(sent, came), "other bytes came back"
    torch_figures = beside()
    return f"{_COPY_MB} MB there in {in_ms:.2f} ms and back in {out_ms:.2f} ms by {device.name}, equal; {torch_figures}"


def _beside_torch() -> Callable[[], str]:
    """Let torch use the device first; what is returned sees that it still can, and kept what it had."""
    try:
        torch = cuda_torch()
    except Lacking as lacking:
        reason = str(lacking)
        return lambda: f"without torch beside it: {reason}"
    numbers = torch.arange(1000, device="cuda")

    def still_there() -> str:
        assert int(numbers.sum()) == 499_500, "torch's memory was overwritten"
        return "torch beside it kept its numbers"

    return still_there


def read_answer(ended: subprocess.CompletedProcess[str]) -> Found:
    """Return what the process of a check found; what it wrote to standard error, or a death, is a failure."""
    answer = (ended.stdout.strip().splitlines() or [""])[-1]
    errors = ended.stderr.strip().splitlines()
    if not answer.startswith("{"):
        return Found("FAILED", f"exit code {ended.returncode}: {' / '.join(errors[-3:])}")
    result = Found(**json.loads(answer))
    if result.state == "ok" and errors:
        return Found("FAILED", f"{result.figure}; and on standard error: {errors[-1]}")
    return result


def answer(check: Callable[[], str]) -> int:
    """Run one check, print what it found, and return the exit code."""
    try:
        result = Found("ok", check())
    except Lacking as lacking:
        result = Found("lacking", str(lacking))
    except AssertionError as wrong:
        result = Found("FAILED", str(wrong))
    sys.stdout.write("\n" + json.dumps(asdict(result)) + "\n")
    return int(result.state == "FAILED")


if __name__ == "__main__":
    sys.exit(answer(CHECKS[sys.argv[1]]))
