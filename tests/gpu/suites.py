"""Parts that start pytest or the doctor: the suites of this folder, launches of a small project, the example.

Each returns what it found, and gives up after a time that it is told. Its log, JUnit and records lie beside `home`, the
name of its files without their suffixes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_quant.environment.gpu import find_gpus
from tests.gpu import device_checks, process
from tests.gpu.report import Found, State
from tests.support.example import copy_example

_DOCTOR = "from pytest_quant.cli import main; main()"
_LAUNCHES, _WORKERS, _TESTS = 5, 4, 8
_TEST_S = 120
PIECES = ("inspector", "logs", "ticks", "nvml")
"""Of `tests.gpu.raw`, which wants libraries that the run itself does without."""

_COUNTS = re.compile(r"\b(\d+) (passed|failed|skipped|errors?|xfailed|warnings?)\b")
_OUTCOME = re.compile(r"^(?=.*::).*\b(PASSED|FAILED|SKIPPED|ERROR|XFAIL)\b", re.MULTILINE)
_REASON = re.compile(r"^SKIPPED \[\d+\] \S+ (.*)$", re.MULTILINE)

_CONFTEST = """
import numpy as np
import pytest
from pytest_quant import Dataset, Model


@pytest.fixture
def quant_model():
    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=shape).astype(np.float32) / 32 for shape in ((1024, 4096), (4096, 1024)))
    {model}


@pytest.fixture
def quant_data():
    return Dataset.from_arrays(np.random.default_rng(1).normal(size=(64, 1024)).astype(np.float32), calibration=8)
"""
_MODULE = """import torch
    layers = [torch.nn.Linear(1024, 4096, bias=False), torch.nn.ReLU(), torch.nn.Linear(4096, 1024, bias=False)]
    for layer, weight in zip(layers[::2], (first, second)):
        layer.weight.data = torch.from_numpy(weight.T.copy())
    return Model.from_torch(torch.nn.Sequential(*layers), (torch.zeros(2, 1024),), name="two_products")"""
_FILE = """import onnx
    from pathlib import Path
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> two_products (float[n, 1024] x) => (float[n, 1024] y) '
        '{ a = MatMul (x, first) b = Relu (a) y = MatMul (b, second) }'
    )
    model = onnx.parser.parse_model(text)
    tensors = {"first": first, "second": second}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in tensors.items())
    path = Path(__file__).with_name("two_products.onnx")
    onnx.save(model, path)
    return path"""
_TEST = """
import pytest


@pytest.mark.parametrize("n", range({n}))
@pytest.mark.quant(backend="{backend}", precision="fp32", min_speedup=0.9, batch_size=8, options={options})
def test_null(n):
    '''The candidate is the reference: whatever differs is noise.'''
"""

_MISSION = """
import pytest


@pytest.mark.quant(backend="{backend}", {limits})
def test_mission():
    '''INT8 is as good as FP32, and it is INT8 that ran.'''
"""


def doctor(limit_s: float, *, also: str = "") -> dict[str, Any]:
    """Return the doctor's examination; `also` is a distribution that it is to find installed beside what is here."""
    with tempfile.TemporaryDirectory(prefix="pytest-quant-gpu-") as folder:
        if also:
            metadata = Path(folder, f"{also.replace('-', '_')}-1.31.0.dist-info", "METADATA")
            metadata.parent.mkdir()
            metadata.write_text(f"Metadata-Version: 2.1\nName: {also}\nVersion: 1.31.0\n")
        ended = _run((sys.executable, "-c", _DOCTOR, "doctor", "--json"), limit_s, paths=(folder,))
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def mission(limit_s: float, home: Path, backends: tuple[str, ...]) -> Found:
    """The mission's own mark on each of `backends`, with records: of the digits, else of two products."""
    result = []
    for backend in backends:
        with tempfile.TemporaryDirectory(prefix="pytest-quant-gpu-") as folder:
            if backend.startswith("torch"):
                limits = "scheme='weight-only', min_sqnr_db=20"
            else:
                limits = "max_drop=1.0" if find_spec("sklearn") else "min_sqnr_db=20"
            has_digits = "max_drop" in limits
            project = copy_example(Path(folder)) if has_digits else _project(Path(folder), backend, 1)
            (project / "test_mission.py").write_text(_MISSION.format(backend=backend, limits=limits))
            own = home.with_name(f"{home.name}-{backend}")
            seconds = limit_s / len(backends)
            ended = _pytest(seconds, project, "test_mission.py", f"--quant-json={own}.quant.json", home=own)
            result.append((backend, _read(ended)))
    return together(result) if result else Found("lacking", "no backend of a GPU can run here")


def raw(limit_s: float, home: Path) -> Found:
    """Data as they are, each piece in a process of its own; what one of them breaks no other one loses."""
    result = []
    for piece in PIECES:
        command = (sys.executable, "-m", "tests.gpu.raw", piece, str(home))
        ended = process.run(command, limit_s / len(PIECES), home=home.with_name(f"{home.name}-{piece}"))
        result.append((piece, device_checks.read_answer(ended)))
    return together(result)


def together(findings: Sequence[tuple[str, Found]]) -> Found:
    """Return one finding out of several, each with its name: failed where one is, lacking where all are."""
    states = [each.state for _, each in findings]
    state: State = "FAILED" if "FAILED" in states else "ok" if "ok" in states else "lacking"
    return Found(state, "; ".join(f"{name}: {each.figure}" for name, each in findings))


def wheels(limit_s: float, home: Path) -> Found:
    """The doctor with the wheels that are here, and with both."""
    here, both = doctor(limit_s / 2), doctor(limit_s / 2, also=_other_wheel())
    clashes = [problem["what"] for problem in both["problems"] if "overwrite" in problem["what"]]
    states = ", ".join(f"{state['name']} {state['state']}" for state in here["backends"])
    if not clashes:
        return Found("FAILED", "both wheels went unseen")
    return Found("ok", f"{states}; with both wheels: {clashes[0]}")


def _other_wheel() -> str:
    from pytest_quant.backends.runtime import installed_version

    return "onnxruntime" if installed_version("onnxruntime-gpu") else "onnxruntime-gpu"


def suite(limit_s: float, home: Path, file: str) -> Found:
    """The tests in `file` of this folder; on a GPU several at once, for they wait for builds most of the time."""
    apart = ("-n", str(_WORKERS)) if find_gpus() else ()
    bounded = ("-p", "tests.gpu.time_limit", f"--test-limit={_TEST_S}")
    return _read(_pytest(limit_s, process.ROOT, "-rs", *bounded, *apart, f"tests/gpu/{file}", home=home))


def launches(limit_s: float, home: Path, backend: str) -> Found:
    """A null of the timing in five fresh processes: how far from 1 each ratio lies."""
    with tempfile.TemporaryDirectory(prefix="pytest-quant-gpu-") as folder:
        project = _project(Path(folder), backend, 1)
        ratios: list[str] = []
        for launch in range(1, _LAUNCHES + 1):
            own = home.with_name(f"{home.name}-{launch}")
            document = Path(f"{own}.quant.json")
            ended = _pytest(limit_s / _LAUNCHES, project, f"--quant-json={document}", home=own)
            if ended.returncode:
                return Found("FAILED", f"launch {launch}: {_last_lines(ended)}; before it: {', '.join(ratios)}")
            (check,) = json.loads(document.read_text("utf-8"))["checks"]
            latency = check["latency"]
            low, high = latency["speedup_ci"]
            ratios.append(f"{latency['speedup']:.4f} [{low:.3f}, {high:.3f}]")
    return Found("ok", f"{backend} against itself: {', '.join(ratios)}")


def workers(limit_s: float, home: Path, backend: str) -> Found:
    """Four workers on one card: nobody fails, and everybody waits for the card."""
    with tempfile.TemporaryDirectory(prefix="pytest-quant-gpu-") as folder:
        project = _project(Path(folder), backend, _TESTS)
        document = f"--quant-json={home}.quant.json"
        return _read(_pytest(limit_s, project, document, "-n", str(_WORKERS), home=home))


def sanitizer(limit_s: float, home: Path) -> Found:
    """The check of device memory under NVIDIA's compute-sanitizer."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return Found("lacking", "compute-sanitizer is not on the PATH")
    command = (tool, "--error-exitcode", "9", sys.executable, "-m", "tests.gpu.device_checks", "memory")
    ended = process.run(command, limit_s, home=home)
    if '"lacking"' in ended.stdout:
        return Found("lacking", json.loads(ended.stdout.strip().splitlines()[-1])["figure"])
    said = [line for line in ended.stdout.splitlines() if "ERROR SUMMARY" in line]
    return Found("FAILED" if ended.returncode else "ok", " ".join(said) or _last_lines(ended))


def example(limit_s: float, home: Path, backend: str) -> Found:
    """The digits of the example project on a backend that has INT8 kernels."""
    with tempfile.TemporaryDirectory(prefix="pytest-quant-gpu-") as folder:
        project = copy_example(Path(folder))
        arguments = ("test_digits.py", "-o", f"quant_backend={backend}", f"--quant-json={home}.quant.json")
        return _read(_pytest(limit_s, project, *arguments, home=home))


def _project(folder: Path, backend: str, tests: int) -> Path:
    model = _MODULE if backend.startswith("torch") else _FILE
    (folder / "conftest.py").write_text(_CONFTEST.format(model=model))
    # A launch would spend its time on compiling, which says nothing about the device.
    options = {"compiled": False} if backend.startswith("torch") else {}
    (folder / "test_null.py").write_text(_TEST.format(backend=backend, n=tests, options=options))
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def _pytest(limit_s: float, folder: Path, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run pytest with a line for each test as it ends, and JUnit beside its log."""
    junit = f"--junit-xml={home}.xml"
    command = (sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--color=no", junit, *arguments)
    return _run(command, limit_s, folder, home=home)


def _run(
    command: Sequence[str],
    limit_s: float,
    folder: Path = process.ROOT,
    *,
    paths: Sequence[str] = (),
    home: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (str(process.ROOT), *paths, os.environ.get("PYTHONPATH"))))
    environ = {**os.environ, "PYTHONPATH": path}
    return process.run(command, limit_s, home=home, folder=folder, environ=environ)


def _read(ended: subprocess.CompletedProcess[str]) -> Found:
    """Return how many passed, by its summary or, where it was killed, by its lines; and why where all were skipped."""
    counts = {name: int(number) for number, name in _COUNTS.findall((ended.stdout.strip().splitlines() or [""])[-1])}
    if not counts:
        counts = dict(Counter(name.lower() for name in _OUTCOME.findall(ended.stdout)))
    outcomes = ", ".join(f"{number} {name}" for name, number in counts.items())
    if ended.returncode:
        return Found("FAILED", f"{outcomes}: {_last_lines(ended)}")
    if counts.get("skipped") and not counts.get("passed"):
        reason = _REASON.search(ended.stdout)
        return Found("lacking", reason[1] if reason else outcomes)
    return Found("ok", outcomes)


def _last_lines(ended: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
    return " / ".join(lines[-4:])
