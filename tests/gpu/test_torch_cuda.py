"""PyTorch on a real GPU: the shipped conformance suite, and TF32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.backends import Backend
from pytest_quant.testing import ModuleBackendConformance
from pytest_quant.testing.conformance.examples import conv
from pytest_quant.testing.conformance.workbench import float_spec, model_for, opened
from tests.gpu.usable import usable

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch_cuda() -> Backend:
    """The backend, where it can run."""
    return usable("torch-cuda")


class TestTorchCuda(ModuleBackendConformance):
    """Half precision and int8 weights on the device."""

    @pytest.fixture
    def backend(self, torch_cuda: Backend) -> Backend:
        """Come through the entry point, as in a real run."""
        return torch_cuda


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_runs_are_timed_by_the_clock_of_the_device(torch_cuda: Backend, tmp_path: Path, precision: str) -> None:
    """A run of a larger batch takes longer between its events, at least where it is a thousand times as large."""
    example = conv()
    spec = replace(float_spec(torch_cuda, model_for(torch_cuda, example, tmp_path)), precision=precision)
    with opened(torch_cuda, spec, example) as engine:
        small, large = (engine.prepare_events(example.feeds(n, 1)) for n in (8, 8000))
        assert small is not None
        assert large is not None
        assert min(small() for _ in range(5)) < min(large() for _ in range(5))
