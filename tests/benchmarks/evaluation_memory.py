"""What a check takes of memory, beside ONNX Runtime alone: ``python -m tests.benchmarks.evaluation_memory [NAME ...]``.

Each side runs in processes of its own, over the same samples in the same batches. ONNX Runtime alone is one process
that runs the reference, and another one that quantizes it, as its documentation shows, and runs the candidate. The
check is a run of pytest without latency. What is printed is the largest resident set of each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.benchmarks.memory_networks import SUBJECTS, Subject

RATIO, MORE_MB = 2.0, 150.0
"""A check takes at most so many times as much, and so many megabytes on top."""

_NAME = "tests.benchmarks.evaluation_memory"
_CALIBRATION = 4
_TEST = """
import numpy as np
import pytest
import pytest_quant


@pytest.fixture
def samples():
    x = np.load("x.npy")
    return pytest_quant.Dataset.from_arrays(x[4:], calibration=x[:4])


@pytest.mark.quant(model="net.onnx", data="samples", {keys}, min_coverage=0)
def test_memory(quant):
    print("BATCHES", quant.bench.reference.batch_size, quant.bench.candidate.batch_size)
"""
_KEYS = {
    "": 'precision="fp32"',
    "static": 'scheme="static", calibration={"batch_size": 1}',
    "dynamic": 'scheme="dynamic"',
}


@dataclass(frozen=True, slots=True)
class Peaks:
    """Largest resident sets in megabytes, and the samples in a batch of reference and candidate."""

    reference_mb: float
    candidate_mb: float
    check_mb: float
    batches: tuple[int, int]

    @property
    def allowed_mb(self) -> float:
        """What the check may take."""
        return RATIO * max(self.reference_mb, self.candidate_mb) + MORE_MB


def peaks_of(subject: Subject) -> Peaks:
    """Measure a network."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a process of its own: a child counts what its parent had when it began.
        _peak_mb(folder, "-m", _NAME, "--write", subject.write.__name__)
        (folder / "test_memory.py").write_text(_TEST.format(keys=_KEYS[subject.scheme]))
        options = ("-q", "-s", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--quant-no-latency")
        check_mb, text = _peak_mb(folder, "-m", "pytest", "test_memory.py", *options)
        line = next(line for line in text.splitlines() if "BATCHES" in line)
        reference, candidate = map(int, line.split("BATCHES")[1].split())
        plain = ("-m", _NAME, "--run")
        return Peaks(
            _peak_mb(folder, *plain, str(reference), "")[0],
            _peak_mb(folder, *plain, str(candidate), subject.scheme)[0],
            check_mb,
            (reference, candidate),
        )


def _peak_mb(folder: Path, *args: str) -> tuple[float, str]:
    """Run Python in `folder`, and return its largest resident set and what it printed."""
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with (folder / "printed").open("w+") as printed:
        child = subprocess.Popen(
            [sys.executable, *args], cwd=folder, env=environment, stdout=printed, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read()
    if child.returncode:
        sys.exit(f"{' '.join(args)} ended with {child.returncode}\n{text}")
    return usage.ru_maxrss * 1024 / 1e6, text


def _write(name: str) -> None:
    subject = next(each for each in SUBJECTS.values() if each.write.__name__ == name)
    np.save("x.npy", subject.write(Path("net.onnx")))


def _run(batch_size: int, scheme: str) -> None:
    """Quantize, where there is a scheme, and run all samples, as a program without this package does."""
    # PyTorch, where it is installed, would be loaded for nothing, and would count.
    sys.modules["torch"] = None  # type: ignore[assignment]
    import onnxruntime

    x, path = np.load("x.npy"), "net.onnx"
    if scheme:
        path = _quantized(x[:_CALIBRATION], scheme)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, settings)
    for start in range(_CALIBRATION, len(x), batch_size):
        session.run(None, {"x": x[start : start + batch_size]})


def _quantized(x: np.ndarray, scheme: str) -> str:
    from onnxruntime.quantization import CalibrationDataReader, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._feeds: Iterator[dict[str, np.ndarray]] = iter([{"x": sample[None]} for sample in x])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self._feeds, None)

    quant_pre_process("net.onnx", "prepared.onnx", skip_symbolic_shape=True)
    if scheme == "static":
        quantize_static("prepared.onnx", "quantized.onnx", Reader())
    else:
        quantize_dynamic("prepared.onnx", "quantized.onnx")
    return "quantized.onnx"


def main(names: list[str]) -> None:
    """Print a line for each network."""
    print(f"{'':<18}{'batch':>8}{'reference':>12}{'candidate':>12}{'check':>9}{'ratio':>8}{'allowed':>10}  MB")  # noqa: T201
    for name in names or SUBJECTS:
        peaks = peaks_of(SUBJECTS[name])
        batch = "/".join(map(str, peaks.batches))
        ratio = peaks.check_mb / max(peaks.reference_mb, peaks.candidate_mb)
        verdict = "" if peaks.check_mb <= peaks.allowed_mb else "  TOO MUCH"
        print(  # noqa: T201
            f"{name:<18}{batch:>8}{peaks.reference_mb:>12.0f}{peaks.candidate_mb:>12.0f}{peaks.check_mb:>9.0f}"
            f"{ratio:>8.2f}{peaks.allowed_mb:>10.0f}{verdict}",
            flush=True,
        )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--write", name]:
            _write(name)
        case ["--run", size, scheme]:
            _run(int(size), scheme)
        case names:
            main(names)
