"""The shipped conformance suite for ONNX Runtime's GPU providers, on a real GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import Backend
from pytest_quant.testing import BackendConformance
from pytest_quant.testing.conformance.examples import dense
from pytest_quant.testing.conformance.workbench import SEVERAL, model_for, opened, specs
from tests.gpu.usable import usable

pytestmark = pytest.mark.gpu


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

    def test_quantized_nodes_are_counted(self, backend: Backend, tmp_path: Path) -> None:
        """None of them ran in INT8, and their outputs are not those of float all the same."""
        self._runs_in_float(backend, tmp_path)

    def test_half_quantized(self, backend: Backend, tmp_path: Path) -> None:
        """Nor of two layers of which one is excluded."""
        self._runs_in_float(backend, tmp_path, exclude=("second",))

    def _runs_in_float(self, backend: Backend, tmp_path: Path, exclude: tuple[str, ...] = ()) -> None:
        example = dense()
        feeds = example.feeds(SEVERAL, 71)
        for spec in specs(backend, model_for(backend, example, tmp_path), exclude=exclude):
            with opened(backend, spec, example) as engine:
                assert engine.coverage(feeds).pct == 0.0, spec.id
                assert not np.array_equal(engine.run(feeds)["y"], example.compute(feeds)["y"]), spec.id
