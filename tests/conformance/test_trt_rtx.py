"""The shipped conformance suite on TensorRT-RTX, which builds without a GPU and simulates what it built."""

from __future__ import annotations

import pytest

from pytest_quant.backends import Backend, get_backend
from pytest_quant.testing import BackendConformance
from pytest_quant.testing.conformance.examples import Workbench, dense, open_example


class TestTrtRtx(BackendConformance):
    """Parser, builder, layers and plan are real; outputs are simulated."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Build for a GPU that is named where there is none."""
        return get_backend("trt-rtx")

    def test_engine_tells_what_it_is(self, backend: Backend, bench: Workbench) -> None:
        """An engine knows its spec, its inputs and outputs and the size of its plan, and that it is simulated."""
        spec = bench.float_spec(dense())
        with open_example(backend, spec, dense()) as engine:
            assert engine.spec == spec
            assert {each.name for each in engine.signature.inputs} == {"x"}
            assert engine.size_bytes > 0
            assert engine.simulated
            assert "simulated" in engine.provider
