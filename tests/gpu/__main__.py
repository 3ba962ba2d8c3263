"""Everything that can only be tried on a GPU, in one command: ``python -m tests.gpu``.

Twelve checks of the ground, then the suites of the backends, then the example. It needs no network. What the machine
lacks is named and passed over. On a machine with a GPU the result is kept in ``tests/gpu/REPORT.md``, which is to be
committed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from pytest_quant.environment.gpu import find_gpus
from tests.gpu import device_checks, suites
from tests.gpu.report import Found, Part, line, page, summary

REPORT = Path(__file__).with_name("REPORT.md")
_WHOLE_S = 600.0
"""Time of the whole run; a part that finds none left fails."""

_TOO_LITTLE_S = 5.0
_WITH_INT8 = ("trt", "ort-trt")
_TIMED = (*_WITH_INT8, "ort-cuda", "torch-cuda")

Run = Callable[[float], Found]
"""A part: it is given the seconds after which it has to give up."""


def planned(running: tuple[str, ...]) -> Iterator[tuple[str, float, Run]]:
    """Yield title, longest time in seconds and call of each part.

    `running` are the backends that can run here, by the doctor.
    """
    timed = next((name for name in _TIMED if name in running), None)
    quantized = next((name for name in _WITH_INT8 if name in running), None)
    yield "NVML, visible devices or none", 60, _check("nvml")
    yield "device memory by cuda-bindings beside torch", 60, _check("memory")
    yield "device memory by pycuda beside torch", 60, _check("memory_by_pycuda")
    yield "events around a kernel", 60, _check("events")
    yield "torch-cuda: conformance", 150, _suite("test_torch_cuda.py")
    yield "a neighbour with 2 GB", 60, _check("neighbour")
    yield "energy over 0.5 s and over 5 s", 90, _check("energy")
    yield "the doctor, with one wheel and with both", 120, suites.wheels
    yield "ort-cuda and ort-trt: what only they do", 90, _suite("test_ort_gpu.py")
    yield "five launches of a null", 180, _on(timed, _TIMED, suites.launches)
    yield "four workers on one card", 120, _on(timed, _TIMED, suites.workers)
    yield "device memory under compute-sanitizer", 60, suites.sanitizer
    yield "CUDA graphs, events, memory that runs out", 60, _suite("test_device_memory.py")
    yield "which card is cuda:0", 60, _suite("test_devices.py")
    yield "trt: conformance", 240, _suite("test_trt.py")
    yield "ort-cuda and ort-trt: conformance", 240, _suite("test_ort_conformance.py")
    yield "ort-trt: other ways to INT8 and short floats", 120, _suite("test_ort_trt.py")
    yield "exact FP32 before and after TF32", 90, _suite("test_tf32.py")
    yield "the example on the device", 120, _on(quantized, _WITH_INT8, suites.example)


def _suite(file: str) -> Run:
    return lambda limit_s: suites.suite(limit_s, file)


def _on(backend: str | None, wanted: tuple[str, ...], run: Callable[[float, str], Found]) -> Run:
    if backend is None:
        return lambda _: Found("lacking", f"none of {', '.join(wanted)} can run here")
    return lambda limit_s: run(limit_s, backend)


def _check(name: str) -> Run:
    """Return the run of a check of `device_checks` in a process of its own."""
    command = (sys.executable, "-m", "tests.gpu.device_checks", name)

    def run(limit_s: float) -> Found:
        try:
            ended = subprocess.run(
                command, cwd=suites.ROOT, capture_output=True, text=True, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            return Found("FAILED", f"it did not end within {limit_s:.0f} s")
        return device_checks.read_answer(ended)

    return run


def main() -> int:
    """Run every part, print what it showed, and write the report where there is a GPU; 1 if a part failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("--only", type=int, nargs="+", metavar="PART", help="numbers of the parts to run; no report")
    only = parser.parse_args().only
    began_s = time.monotonic()
    examination = suites.doctor(_WHOLE_S / 4)
    running = tuple(state["name"] for state in examination["backends"] if state["state"] == "ok")
    parts = []
    for number, (title, limit_s, run) in enumerate(planned(running), 1):
        if only and number not in only:
            continue
        started_s = time.monotonic()
        left_s = _WHOLE_S - (started_s - began_s)
        none_left = Found("FAILED", f"nothing was left of the {_WHOLE_S:.0f} s of the whole run")
        found = none_left if left_s < _TOO_LITTLE_S else run(min(limit_s, left_s))
        parts.append(Part(number, title, found, time.monotonic() - started_s))
        _say(line(parts[-1]))
    _say(summary(parts))
    if not find_gpus():
        _say(f"there is no GPU here, so {REPORT.name} is left as it is")
    elif not only:
        libraries = {one["name"]: one["found"] for one in examination["libraries"] if one["found"]}
        named = ("onnxruntime-gpu", "tensorrt", "cuda-bindings", "pycuda", "torch", "nvidia-ml-py")
        machine = {**examination["machine"], **{name: libraries[name] for name in named if name in libraries}}
        REPORT.write_text(page(machine, f"{datetime.now(UTC):%Y-%m-%d}", parts), encoding="utf-8")
        _say(f"written: {REPORT}")
    return int(any(part.found.state == "FAILED" for part in parts))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
