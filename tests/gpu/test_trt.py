"""Native TensorRT on a real GPU: the whole conformance suite, implicit INT8, and times of copies and layers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.backends import Backend
from pytest_quant.spec import Calibration
from pytest_quant.testing import BackendConformance
from pytest_quant.testing.conformance.examples import Workbench, conv, float_spec, open_example, sqnr_db
from tests.gpu.usable import usable

pytestmark = pytest.mark.gpu


@pytest.fixture
def trt() -> Backend:
    """The backend, where it can run."""
    return usable("trt")


class TestTrt(BackendConformance):
    """Explicit Q/DQ pairs in a strongly typed network."""

    @pytest.fixture
    def backend(self, trt: Backend) -> Backend:
        """Come through the entry point, as in a real run."""
        return trt


@pytest.mark.parametrize("method", ["entropy", "minmax"])
def test_implicit_int8(trt: Backend, tmp_path: Path, method: str) -> None:
    """TensorRT 10 finds the ranges itself; version 11 says that it cannot."""
    if not trt.availability().version.startswith("10."):
        pytest.skip("calibrators ended with TensorRT 10")
    example = conv()
    (spec,) = Workbench(trt, tmp_path, ExitStack()).specs(example)
    implicit_spec = replace(spec, calibration=Calibration(method=method), options=(("quantization", "implicit"),))
    feeds = example.feeds(8, 1)
    with open_example(trt, implicit_spec, example) as engine:
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 15


@pytest.mark.parametrize("beside", ["fp16", "bf16"])
def test_a_float_type_beside_int8(trt: Backend, tmp_path: Path, beside: str) -> None:
    """INT8 covers all that it covers with float32 beside it, in every version."""
    example = conv()
    (spec,) = Workbench(trt, tmp_path, ExitStack()).specs(example)
    feeds = example.feeds(8, 1)
    covered = []
    for kind in ("fp32", beside):
        with open_example(trt, replace(spec, options=(("beside", kind),)), example) as engine:
            covered.append(engine.coverage(feeds).pct)
            assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 15
    assert covered == [100.0, 100.0]


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_smaller_floats(trt: Backend, tmp_path: Path, precision: str) -> None:
    """Both come from the graph, in every version."""
    example = conv()
    feeds = example.feeds(8, 1)
    with open_example(trt, replace(float_spec(trt, example.write(tmp_path)), precision=precision), example) as engine:
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 30


def test_times_of_copies_and_compute(trt: Backend, tmp_path: Path) -> None:
    """By the device's clock."""
    example = conv()
    feeds = example.feeds(8, 1)
    with open_example(trt, float_spec(trt, example.write(tmp_path)), example) as engine:
        times = engine.device_times(feeds)
        assert times is not None
        assert times.gpu_ms is not None
        assert min(times.gpu_ms, times.h2d_ms, times.d2h_ms) > 0
        assert engine.device_bytes


def test_timed_runs_by_the_clock_of_the_device(trt: Backend, tmp_path: Path) -> None:
    """Over the inputs that were prepared, whatever ran in between."""
    example = conv()
    mine, other = example.feeds(8, 1), example.feeds(2, 2)
    with open_example(trt, float_spec(trt, example.write(tmp_path)), example) as engine:
        before = engine.run(mine)
        call, timed = engine.prepare(mine), engine.prepare_events(mine)
        assert timed is not None
        for _ in range(5):
            call()
            engine.run(other)
            assert timed() > 0
        assert engine.run(mine).keys() == before.keys()
