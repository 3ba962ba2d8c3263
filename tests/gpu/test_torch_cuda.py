"""The backend torch-cuda on a real GPU, and exact FP32 on each backend before and after TF32."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.backends import Backend, get_backend, set_tf32
from pytest_quant.backends.offer import is_switched_off
from pytest_quant.errors import UsageError
from pytest_quant.testing import ModuleBackendConformance
from pytest_quant.testing.conformance.examples import Workbench, conv, open_example, sqnr_db
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
    """A run of a larger batch takes longer between its events, where its kernels take longer than launching them."""
    example = conv()
    spec = replace(Workbench(torch_cuda, tmp_path, ExitStack()).float_spec(example), precision=precision)
    with open_example(torch_cuda, spec, example) as engine:
        small, large = (engine.prepare_events(example.feeds(n, 1)) for n in (8, 400_000))
        assert small is not None
        assert large is not None
        assert min(small() for _ in range(5)) < min(large() for _ in range(5))


EXACT_DB, ROUNDED_DB = 100.0, 50.0
"""Inputs that are rounded to ten bits leave some 65 dB, and 24 bits some 130."""


@pytest.mark.parametrize("name", ["ort-cuda", "torch-cuda", "trt", "ort-trt"])
def test_the_exact_reference_is_exact(name: str, tmp_path: Path) -> None:
    """Before and after an engine that may round its products; that of ``ort-trt`` ends TF32 in its process."""
    backend = get_backend(name)
    example = conv()
    feeds = example.feeds(8, 1)
    wanted = example.compute(feeds)
    plain = set_tf32(Workbench(backend, tmp_path, ExitStack()).float_spec(example), allowed=False)
    usable(name, plain)
    with open_example(backend, plain, example) as exact:
        assert sqnr_db(wanted, exact.run(feeds)) > EXACT_DB
        rounded = set_tf32(plain, allowed=True)
        if name == "ort-trt":
            with pytest.raises(UsageError, match="the provider has no such option"):
                backend.check(rounded)
        elif not is_switched_off():
            with open_example(backend, rounded, example) as rounding:
                assert sqnr_db(wanted, rounding.run(feeds)) > ROUNDED_DB
        assert sqnr_db(wanted, exact.run(feeds)) > EXACT_DB
