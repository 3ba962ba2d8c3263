"""What only ORT's providers on a GPU do, and the conformance suite on them, on a real GPU."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import Backend
from pytest_quant.environment.device_state import clock_reader, energy_counter
from pytest_quant.spec import EngineSpec
from pytest_quant.testing import BackendConformance
from pytest_quant.testing.conformance.examples import (
    SEVERAL,
    Workbench,
    build,
    conv,
    dense,
    float_spec,
    open_example,
    sqnr_db,
)
from tests.gpu.usable import usable

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["ort-cuda", "ort-trt"])
def test_float_and_int8_on_the_device(name: str, tmp_path: Path) -> None:
    """The provider that ran is the one asked for, outputs agree with numpy, and copies are timed apart."""
    backend = usable(name)
    example = conv()
    feeds = example.feeds(8, 1)
    bench = Workbench(backend, tmp_path, ExitStack())
    for spec in [bench.float_spec(example), *bench.specs(example)]:
        with open_example(backend, spec, example) as engine:
            assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 20
            assert engine.provider in engine.coverage(feeds).provider
            times = engine.device_times(feeds)
            assert times is not None
            assert min(times.h2d_ms, times.d2h_ms, times.host_ms) > 0
            between_events = engine.prepare_events(feeds)
            assert (between_events is None) == (times.gpu_ms is None)
            if between_events is not None and times.gpu_ms is not None:
                assert min(between_events(), times.gpu_ms) > 0


@pytest.mark.parametrize("name", ["ort-cuda", "ort-trt"])
def test_layers_on_the_device(name: str, tmp_path: Path) -> None:
    """Each has a time, of its kernels and not of handing them over; on CUDA the products are told one by one."""
    backend = usable(name)
    example = conv()
    bench = Workbench(backend, tmp_path, ExitStack())
    for spec in [bench.float_spec(example), *bench.specs(example)]:
        with open_example(backend, spec, example) as engine:
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
    with open_example(
        backend, replace(float_spec(backend, example.write(tmp_path)), precision="fp16"), example
    ) as engine:
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 45
        assert engine.coverage(feeds).pct == 100.0


@pytest.mark.parametrize(
    ("precision", "scheme", "options", "min_db"),
    [
        ("fp16", None, (), 50.0),
        ("bf16", None, (), 35.0),
        ("int8", "static", (("beside", "fp16"),), 20.0),
    ],
)
def test_each_way_on_the_device(
    precision: str, scheme: str | None, options: tuple[tuple[str, object], ...], min_db: float, tmp_path: Path
) -> None:
    """Six decibels for each bit of the mantissa or of the weights, less what adding up costs."""
    backend = usable("ort-trt")
    example = conv()
    feeds = example.feeds(8, 1)
    spec = EngineSpec("ort-trt", precision, scheme, example.write(tmp_path), options=options)
    with open_example(backend, spec, example) as engine:
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > min_db
        assert engine.provider in engine.coverage(feeds).provider


def test_other_weights_are_another_engine(tmp_path: Path) -> None:
    """The provider keys engines by names only; each of ours lies in a folder of its own, so no old one is reused."""
    backend = usable("ort-trt")
    for scale in (1.0, 20.0):
        example = dense(scale=scale)
        feeds = example.feeds(4, 2)
        spec = EngineSpec("ort-trt", "fp32", None, example.write(tmp_path))
        with open_example(backend, spec, example) as engine:
            assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 40


def test_engines_are_built_in_build_and_nothing_is_written_afterwards(tmp_path: Path) -> None:
    """Opening and running leave every file of the entry as it was, and no note tells of another build."""
    backend = usable("ort-trt")
    example = conv()
    spec = EngineSpec("ort-trt", "int8", "static", example.write(tmp_path))
    folder = build(backend, spec, example, tmp_path)
    before = {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert [name for name in before if name.endswith(".engine")]
    with backend.open(spec, folder) as engine:
        engine.run(example.feeds(8, 1))
        assert not [note for note in engine.notes if "anew" in note]
        ran = engine.coverage(example.feeds(8, 1))
    assert {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    assert ran.pct == 100.0 or (ran.pct is None and ran.notes), ran


class TestOrtTrt(BackendConformance):
    """TensorRT as a provider, from Q/DQ pairs."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Skipped where the provider does not load."""
        return usable("ort-trt")


class TestOrtCuda(BackendConformance):
    """CUDA has no INT8 kernels for Q/DQ pairs: what is quantized rounds, and counts as float."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Skipped where the provider does not load."""
        return usable("ort-cuda")

    def test_quantized_nodes_are_counted(self, bench: Workbench) -> None:
        """None of them ran in INT8, and their outputs are not those of float all the same."""
        self._runs_in_float(bench)

    def test_half_quantized(self, bench: Workbench) -> None:
        """Nor of two layers of which one is excluded."""
        self._runs_in_float(bench, exclude=("second",))

    def _runs_in_float(self, bench: Workbench, exclude: tuple[str, ...] = ()) -> None:
        feeds = dense().feeds(SEVERAL, 71)
        for engine in bench.engines(dense(), exclude=exclude):
            assert engine.coverage(feeds).pct == 0.0, engine.spec.id
            assert not np.array_equal(engine.run(feeds)["y"], dense().compute(feeds)["y"]), engine.spec.id
