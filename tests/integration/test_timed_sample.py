"""Samples of many sizes: a latency is that of the one of median size, which the run and its record name."""

from __future__ import annotations

import numpy as np
import pytest

from tests.integration.projects import output, run_marks
from tests.support.models import mean_over_time, parsed

CONFTEST = """
import numpy as np
import pytest
import torch
from pytest_quant import Dataset, Model


def rows(*lengths):
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(length, 8)).astype(np.float32) for length in lengths]
    return [(row, int(row.mean(0)[:4].argmax())) for row in rows]


def given(*lengths):
    return Dataset.from_iterable(rows(*lengths), calibration=rows(*[4] * 8))


@pytest.fixture
def quant_model():
    return "model.onnx"


@pytest.fixture
def long_first():
    return given(40, *[1] * 9)


@pytest.fixture
def long_last():
    return given(*[1] * 9, 40)


@pytest.fixture
def alike():
    return given(*[3] * 10)


@pytest.fixture
def images():
    sizes = [(40, 40), (8, 9), (6, 12), (2, 36), (4, 4)]
    rng = np.random.default_rng(0)
    evaluated, calibrated = ([rng.normal(size=(1, *size)).astype(np.float32) for size in sizes] for _ in range(2))
    return Dataset.from_iterable(evaluated, calibrated)


class MeanOverTime(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.scores(x).mean(1)


@pytest.fixture
def module():
    torch.manual_seed(0)
    return Model.from_torch(MeanOverTime(), (torch.zeros(2, 5, 8),), dynamic={"x": {1: "time"}})


@pytest.fixture
def loaded():
    torch.manual_seed(0)
    loader = [(torch.randn(1, length, 8), torch.zeros(1, dtype=torch.int64)) for length in (40, 1, 1, 1)]
    return Dataset.from_loader(loader, calibration=[torch.randn(1, 4, 8)])
"""
TIMING = ("--quant-with-latency", "--quant-max-time=0.2", "--quant-no-history", "--quant-diagnose-time=0")
FREE = "min_coverage=0"
TORCH = "backend='torch', scheme='weight-only', options={'compiled': False}"


def write_models(pytester: pytest.Pytester) -> None:
    """Write a model of sequences, one of images, and a project with data for both."""
    mean_over_time(pytester.path / "model.onnx")
    graph = "(float[n, 1, h, w] x) => (float[n, 1, h, w] y) { [scale] y = Mul(x, two) }"
    parsed(pytester.path / "images.onnx", graph, two=np.array(2.0, np.float32))
    pytester.makeconftest(CONFTEST)


def test_the_median_is_timed_and_told(pytester: pytest.Pytester) -> None:
    """In any order, for batches, in every backend; another sample where the mark names it; none where all are alike."""
    write_models(pytester)
    result, checks = run_marks(
        pytester,
        {
            "first": f"data='long_first', {FREE}",
            "last": f"data='long_last', {FREE}",
            "asked": f"data='long_first', latency_sample=0, {FREE}",
            "batch": f"data='long_last', batch_size=4, {FREE}",
            "openvino": f"data='long_first', backend='openvino', {FREE}",
            "torch": f"data='loaded', model='module', {TORCH}, {FREE}",
            "images": f"data='images', model='images.onnx', {FREE}",
            "alike": f"data='alike', {FREE}",
        },
        *TIMING,
    )
    said = output(result)
    timed = {name: check["latency"]["sample"] for name, check in checks.items()}
    assert {name: (sample["index"], *sample["shapes"].values()) for name, sample in timed.items()} == {
        "first": (1, [1, 1, 8]),
        "last": (0, [1, 1, 8]),
        "asked": (0, [1, 40, 8]),
        "batch": (0, [4, 1, 8]),
        "openvino": (1, [1, 1, 8]),
        "torch": (1, [2, 1, 8]),
        "images": (1, [1, 1, 8, 9]),
        "alike": (0, [1, 3, 8]),
    }
    assert timed["first"]["sizes"] == [8, 320]
    warning = "latency is that of sample 1, x 1x1x8; samples have 8 to 320 elements; latency_sample= times another"
    assert f"warning: test_first, test_openvino: {warning}" in said
    assert warning in checks["first"]["notes"]
    assert "test_alike" not in said.partition("warning: ")[2]
    assert not any(each.startswith("latency is that of") for each in checks["alike"]["notes"])


def test_a_sample_that_is_not_there_is_an_error(pytester: pytest.Pytester) -> None:
    """Whether latency is measured or not; a number below 0 is one at collection."""
    write_models(pytester)
    marks = {"gone": f"data='long_first', latency_sample=10, {FREE}"}
    result, checks = run_marks(pytester, marks)
    assert checks["gone"]["status"] == "ERROR"
    assert "latency_sample names a sample that the evaluation set does not have" in output(result)
    result, _ = run_marks(pytester, {"negative": "latency_sample=-1"})
    assert "latency_sample must be a whole number of at least 0" in output(result)
    assert result.ret == pytest.ExitCode.INTERRUPTED
