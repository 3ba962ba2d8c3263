"""What a user reads where memory runs out, and that what the text says helps."""

from __future__ import annotations

import sys

import pytest

from pytest_quant.backends.runtime import LESS_MEMORY
from tests.benchmarks.memory_networks import Net

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds the address space of a process")

PROJECT = """
import resource
from pathlib import Path

import numpy as np
import pytest
from pytest_quant import Dataset

rng = np.random.default_rng(0)
LARGE = rng.normal(size=(250, 3, 96, 96)).astype("f")
SMALL = list(rng.normal(size=(250, 3, 8, 8)).astype("f"))


@pytest.fixture
def within_500_mb():
    # Beside what libraries and their threads have taken by then.
    size = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize"))
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(size.split()[1]) * 1024 + 500_000_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture
def calibrating(within_500_mb):
    return Dataset.from_arrays(LARGE[:2] + 1, calibration=LARGE)


@pytest.fixture
def evaluating(within_500_mb):
    return Dataset.from_iterable([*SMALL, *LARGE])


@pytest.fixture
def small():
    return Dataset.from_iterable(SMALL[:2])


@pytest.mark.quant(model="net.onnx", precision="fp32", data="small")
def test_first(quant):
    pass


@pytest.mark.quant(model="net.onnx", min_coverage=0, {many})
def test_many(quant):
    pass


@pytest.mark.quant(model="net.onnx", min_coverage=0, {followed})
def test_followed(quant):
    pass
"""


def run(pytester: pytest.Pytester, **keys: str) -> str:
    """Check a network with one activation of 2.4 MB for a picture of 96 x 96, and return what is printed."""
    net = Net()
    net.save(pytester.path / "net.onnx", ["n", 3, "h", "w"], net.pooled(net.conv("x", 3, 64), 64, 4))
    pytester.makepyfile(test_net=PROJECT.format(**keys))
    return pytester.runpytest_subprocess("--quant-no-latency", "-p", "no:cacheprovider", timeout=120).stdout.str()


@pytest.mark.parametrize(
    ("keys", "many", "step", "told"),
    [
        (
            "data='calibrating', calibration={{'method': 'percentile', {}}}",
            "'samples': 250",
            "'samples': 16",
            "ONNX Runtime refused to calibrate net",
        ),
        (
            "precision='fp32', data='evaluating', {}",
            "eval_batch_size=250",
            "eval_batch_size=1",
            "ONNX Runtime refused a run of ort-fp32, on samples 250 to 499",
        ),
    ],
    ids=["calibration", "evaluation"],
)
def test_smaller_batches_and_fewer_samples_need_less(
    pytester: pytest.Pytester, keys: str, many: str, step: str, told: str
) -> None:
    """250 pictures at once take 590 MB for an activation, which is told; with the step of the text they do not."""
    assert step in LESS_MEMORY
    printed = run(pytester, many=keys.format(many), followed=keys.format(step))
    assert f"no memory was left: {told}" in printed
    assert f"next: {LESS_MEMORY}" in printed
    assert "ERROR test_net.py::test_many" in printed
    assert "2 passed, 1 error" in printed
