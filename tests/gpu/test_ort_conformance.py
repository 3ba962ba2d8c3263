"""The shipped conformance suite for ONNX Runtime's GPU providers, on a real GPU."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_quant.backends import Backend
from pytest_quant.testing import BackendConformance
from pytest_quant.testing.conformance.examples import dense
from pytest_quant.testing.conformance.workbench import SEVERAL, Workbench
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
