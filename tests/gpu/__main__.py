"""Everything that can only be tried on a GPU, in one command: ``python -m tests.gpu``.

The checks of the mission first, then raw data, then the suites of the backends, then the ground that they stand on. It
needs no network. What the machine lacks is named and passed over. Each part writes its result, log and JUnit into
``--out`` as soon as it ends, and ``REPORT.md`` there is renewed, so that a run that is killed loses the part under way
only. Runs with ``--only`` add to what the folder has.

It ends with 1 where a part failed, with 77 where there is no GPU and all that needs none went well, else with 0.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from pytest_quant.backends.runtime import installed_version
from pytest_quant.environment.gpu import find_gpus
from tests.gpu import device_checks, process, suites
from tests.gpu.report import Found, Part, keep, line, page, parts_in, summary

WHOLE_S = 2700.0
"""Time of a whole run; a part that finds none left fails."""

NO_GPU = 77
"""The exit code of a test that could not run, by Automake and Meson."""

_TOO_LITTLE_S = 5.0
DOCTOR_S = 100.0
_QUANTIZED = ("trt", "ort-trt")
_TIMED = (*_QUANTIZED, "ort-cuda", "torch-cuda")

PLANS: Mapping[str, Mapping[str, float]] = {
    "tensorrt": {
        "mission": 300, "raw": 240, "trt": 490, "ort": 480, "null": 180, "example": 120, "workers": 90, "nvml": 20,
        "events": 30, "memory": 30, "pycuda": 30, "neighbour": 30, "energy": 60, "device": 90, "sanitizer": 60,
        "doctor": 60, "torch": 200,
    },
    "cuda": {
        "mission": 240, "torch": 360, "raw": 180, "ort": 480, "null": 240, "workers": 180, "device": 150, "nvml": 30,
        "events": 60, "memory": 60, "pycuda": 60, "neighbour": 60, "energy": 120, "sanitizer": 90, "doctor": 90,
        "example": 60, "trt": 50,
    },
}  # fmt: skip
"""Longest time of each part in seconds, in the order of the run: with TensorRT, and where it is not installed."""

Run = Callable[[float, Path], Found]
"""A part: it is given the seconds after which it has to give up, and the name of its files without their suffixes."""


def parts_of(running: tuple[str, ...]) -> dict[str, tuple[str, Run]]:
    """Return title and call of each part by its name.

    `running` are the backends that can run here, by the doctor.
    """
    timed = next((name for name in _TIMED if name in running), None)
    quantized = next((name for name in _QUANTIZED if name in running), None)
    return {
        "mission": (
            "one INT8 check with a free batch on each backend",
            lambda limit_s, home: suites.mission(limit_s, home, tuple(name for name in _TIMED if name in running)),
        ),
        "raw": ("inspector, logs, ticks of events and NVML as they are", suites.raw),
        "trt": ("trt: conformance", _suite("test_trt.py")),
        "ort": ("ort-cuda and ort-trt: conformance, and what only they do", _suite("test_ort.py")),
        "torch": ("torch-cuda: conformance; exact FP32 before and after TF32", _suite("test_torch_cuda.py")),
        "null": ("five launches of a null", _on(timed, _TIMED, suites.launches)),
        "workers": ("four workers on one card", _on(timed, _TIMED, suites.workers)),
        "example": ("the example on the device", _on(quantized, _QUANTIZED, suites.example)),
        "device": ("events, memory that runs out, which card is cuda:0", _suite("test_device.py")),
        "nvml": ("NVML, visible devices or none", _check("nvml")),
        "events": ("events around a kernel", _check("events")),
        "memory": ("device memory by cuda-bindings beside torch", _check("memory")),
        "pycuda": ("device memory by pycuda beside torch", _check("memory_by_pycuda")),
        "neighbour": ("a neighbour with 2 GB", _check("neighbour")),
        "energy": ("energy over 0.5 s and over 5 s", _check("energy")),
        "sanitizer": ("device memory under compute-sanitizer", suites.sanitizer),
        "doctor": ("the doctor, with one wheel and with both", suites.wheels),
    }


def _suite(file: str) -> Run:
    return lambda limit_s, home: suites.suite(limit_s, home, file)


def _on(backend: str | None, wanted: tuple[str, ...], run: Callable[[float, Path, str], Found]) -> Run:
    if backend is None:
        return lambda *_: Found("lacking", f"none of {', '.join(wanted)} can run here")
    return lambda limit_s, home: run(limit_s, home, backend)


def _check(name: str) -> Run:
    """Return the run of a check of `device_checks` in a process of its own."""
    command = (sys.executable, "-m", "tests.gpu.device_checks", name)
    return lambda limit_s, home: device_checks.read_answer(process.run(command, limit_s, home=home))


def main(arguments: list[str] | None = None) -> int:
    """Run every part, print and keep what it showed, and return the exit code."""
    here = "tensorrt" if find_spec("tensorrt") is not None else "cuda"
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="+", metavar="PART", choices=[*PLANS[here]], help=", ".join(PLANS[here]))
    parser.add_argument("--out", type=Path, default=process.ROOT / "build" / "gpu", help="folder of results and report")
    parser.add_argument("--plan", choices=[*PLANS], default=here, help="order and times; default: by what is installed")
    options = parser.parse_args(arguments)
    began_s, out, plan = time.monotonic(), options.out.resolve(), PLANS[options.plan]
    out.mkdir(parents=True, exist_ok=True)
    machine, parts = _examine(out)
    ran: list[Part] = []
    for name in (name for name in plan if not options.only or name in options.only):
        title, run = parts[name]
        started_s = time.monotonic()
        left_s = WHOLE_S - (started_s - began_s)
        result = Found("FAILED", f"nothing was left of the {WHOLE_S:.0f} s of the whole run")
        if left_s > _TOO_LITTLE_S:
            result = _whatever_happens(run, min(plan[name], left_s), out / name)
        ran.append(Part(name, title, result, time.monotonic() - started_s))
        keep(ran[-1], out)
        text = page(machine, f"{datetime.now(UTC):%Y-%m-%d}", parts_in(out, [*plan]))
        (out / "REPORT.md").write_text(text, encoding="utf-8")
        _say(line(ran[-1]))
    _say(f"{summary(ran)}; written: {out / 'REPORT.md'}")
    return _end(ran)


def _examine(out: Path) -> tuple[dict[str, str], dict[str, tuple[str, Run]]]:
    """Return the machine and the parts as the doctor sees it; where it does not answer, every backend is tried."""
    try:
        examination = suites.doctor(DOCTOR_S)
    except ValueError as error:
        return {"doctor": f"no answer: {error}"}, parts_of(_TIMED)
    (out / "doctor.json").write_text(json.dumps(examination, indent=1) + "\n", encoding="utf-8")
    named = ("onnxruntime-gpu", "tensorrt", "cuda-bindings", "pycuda", "torch", "nvidia-ml-py")
    machine = examination["machine"] | {name: result for name in named if (result := installed_version(name))}
    return machine, parts_of(tuple(state["name"] for state in examination["backends"] if state["state"] == "ok"))


def _whatever_happens(run: Run, limit_s: float, home: Path) -> Found:
    """Run a part; documents that a killed process left unwritten or half written cost that part only."""
    try:
        return run(limit_s, home)
    except (OSError, ValueError, KeyError) as error:
        return Found("FAILED", f"{type(error).__name__}: {error}")


def _end(ran: list[Part]) -> int:
    """Return the exit code, and say in one line what a machine without a GPU leaves open."""
    if any(part.result.state == "FAILED" for part in ran):
        return 1
    if find_gpus():
        return 0
    lacking = ", ".join(part.name for part in ran if part.result.state == "lacking")
    _say(f"there is no GPU here, so these parts could not be tried: {lacking or 'none of those asked for'}")
    return NO_GPU


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
