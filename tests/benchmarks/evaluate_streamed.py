"""Evaluate the digit classifier in INT8 on as many streamed samples as asked for, and print the peak memory in MB."""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_quant.cache import Cache
from pytest_quant.measure.steps import Steps
from pytest_quant.session import Session
from pytest_quant.spec import Check, Dataset, EngineSpec, Limits, Model
from tests.support.example import EXAMPLE

BYTES_PER_KB, BYTES_PER_MB = 1024, 1e6


class Digits:
    """Noise in the shape of digits: sample `i` is the same each time, and no two are alike."""

    def __init__(self, first: int, count: int) -> None:
        self._samples = range(first, first + count)

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], int]]:
        """Make one sample at a time."""
        for i in self._samples:
            yield np.random.default_rng(i).random((1, 8, 8), dtype=np.float32), i % 10


def main(samples: int) -> float:
    """Measure one check without timing; return the peak in MB."""
    model = Model.from_onnx(EXAMPLE / "digits.onnx")
    check = Check(
        nodeid="streamed",
        series_nodeid="streamed",
        candidate=EngineSpec("ort", "int8", "static", model),
        reference=EngineSpec("ort", "fp32", None, model),
        dataset=Dataset.from_iterable(Digits(0, samples), calibration=Digits(samples, 100)),
        limits=Limits(max_drop=100.0),
        latency=None,
        latency_off="it is memory that is measured",
    )
    with tempfile.TemporaryDirectory() as folder:
        session = Session(
            Cache(Path(folder)),
            baseline=lambda _measurement: None,
            steps=Steps(lambda _text: None),
        )
        session.measure(check).close()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * BYTES_PER_KB / BYTES_PER_MB


if __name__ == "__main__":
    sys.stdout.write(f"{main(int(sys.argv[1]))}\n")
