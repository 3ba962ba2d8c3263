"""ONNX Runtime's GPU providers on a real GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.environment.energy_counter import energy_counter
from pytest_quant.environment.gpu_state import clock_reader
from pytest_quant.testing.conformance.examples import conv
from pytest_quant.testing.conformance.workbench import float_spec, opened, specs, sqnr_db
from tests.gpu.usable import usable

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["ort-cuda", "ort-trt"])
def test_float_and_int8_on_the_device(name: str, tmp_path: Path) -> None:
    """The provider that ran is the one asked for, outputs agree with numpy, and copies are timed apart."""
    backend = usable(name)
    example = conv()
    feeds = example.feeds(8, 1)
    model = example.write(tmp_path)
    for spec in [float_spec(backend, model), *specs(backend, model)]:
        with opened(backend, spec, example) as engine:
            assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 20
            assert engine.provider in engine.coverage(feeds).provider
            times = engine.device_times(feeds)
            assert times is not None
            assert min(times.h2d_ms, times.d2h_ms, times.host_ms) > 0
            between_events = engine.prepare_events(feeds)
            assert (between_events is None) == (times.gpu_ms is None)
            if between_events is not None and times.gpu_ms is not None:
                assert min(between_events(), times.gpu_ms) > 0


def test_a_cuda_graph_computes_what_the_session_does(tmp_path: Path) -> None:
    """Timed runs replay it and take time; runs over other arrays are right before and after."""
    backend = usable("ort-cuda")
    example = conv()
    spec = replace(float_spec(backend, example.write(tmp_path)), options=(("cuda_graph", True),))
    with opened(backend, spec, example) as engine:
        calls = [engine.prepare(example.feeds(rows, 1)) for rows in (4, 8)]
        for call in (*calls, *calls):
            call()
        for rows in (8, 4):
            assert sqnr_db(example.compute(example.feeds(rows, 2)), engine.run(example.feeds(rows, 2))) > 60
        between_events = engine.prepare_events(example.feeds(8, 1))
        assert between_events is None or between_events() > 0


@pytest.mark.parametrize("name", ["ort-cuda", "ort-trt"])
def test_layers_on_the_device(name: str, tmp_path: Path) -> None:
    """Each has a time, of its kernels and not of handing them over; on CUDA the products are told one by one."""
    backend = usable(name)
    example = conv()
    model = example.write(tmp_path)
    for spec in [float_spec(backend, model), *specs(backend, model)]:
        with opened(backend, spec, example) as engine:
            layers = engine.layer_times(example.feeds(8, 1))
        assert layers
        assert all(layer.ms is not None for layer in layers)
        if name == "ort-cuda":
            assert set(example.nodes) <= {node for layer in layers for node in layer.nodes}


def test_nvml_tells_of_the_device() -> None:
    """Clocks and energy are measured where there is a GPU."""
    with clock_reader("cuda:0") as read, energy_counter("cuda:0") as counter:
        if read is None or counter is None:
            pytest.skip("there is no NVIDIA GPU here, or NVML does not load")
        clocks, energy_mj = read(), counter()
    assert clocks.sm_mhz is not None
    assert clocks.sm_mhz > 0
    assert energy_mj is None or energy_mj > 0


def test_half_precision_on_the_device(tmp_path: Path) -> None:
    """Products read float16 on CUDA, and outputs agree to eleven bits."""
    backend = usable("ort-cuda")
    example = conv()
    feeds = example.feeds(8, 1)
    with opened(backend, replace(float_spec(backend, example.write(tmp_path)), precision="fp16"), example) as engine:
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 45
        assert engine.coverage(feeds).pct == 100.0
