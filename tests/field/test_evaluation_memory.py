"""What an evaluation takes of memory: that of a few samples, whatever the set and the inputs are."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.benchmarks.memory_networks import two_convolutions

PROJECT = """
import re
from pathlib import Path

import numpy as np
import pytest
from pytest_quant import Dataset


@pytest.fixture
def pictures():
    return Dataset.from_arrays(np.load("pictures.npy"))


@pytest.mark.quant(model="net.onnx", data="pictures", precision="fp32")
def test_peak(quant):
    print("BATCHES", quant.bench.reference.batch_size, quant.bench.candidate.batch_size)
    # Of this process alone: getrusage has the peak of the one that started it too.
    print("PEAK_MB", int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1000)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")
def test_large_activations_are_evaluated_in_small_batches(pytester: pytest.Pytester) -> None:
    """An activation of a picture takes 26 MB: no two pictures fit into 32 MB, and 1.2 GB hold it all.

    Batches of 32, of which four pictures were filled up, took 5.9 GB.
    """
    pictures = two_convolutions(pytester.path / "net.onnx")
    np.save(pytester.path / "pictures.npy", pictures[:4])
    pytester.makepyfile(test_peak=PROJECT)
    result = pytester.runpytest_subprocess("-s", "--quant-no-latency", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    of_one = pictures[0].nbytes + 4 * 64 * 320 * 320
    assert 32_000_000 // of_one == 1
    result.stdout.fnmatch_lines(["*BATCHES 1 1"])
    (line,) = (line for line in result.outlines if line.startswith("PEAK_MB"))
    assert int(line.split()[1]) < 1200
