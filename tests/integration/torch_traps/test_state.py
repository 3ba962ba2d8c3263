"""Modules that keep state between calls: known, said, and judged once they are told to begin anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pytest_quant.backends import get_backend, get_exporter
from pytest_quant.errors import UsageError
from pytest_quant.result import Status
from pytest_quant.spec import Check, Dataset, EngineSpec, Limits, Model
from pytest_quant.testing.conformance.examples import sqnr_db
from tests.integration.trt_traps.networks import session_in
from tests.support.measuring import numbers
from tests.support.models import run_unoptimized

WIDTH = 16
SAMPLES = numbers(40, WIDTH)


class Cell(nn.Module):
    """A cell of a recurrent network, whose hidden state is an attribute."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.read, self.back, self.out = nn.Linear(WIDTH, 32), nn.Linear(32, 32), nn.Linear(32, 8)
        self.begin()

    def begin(self) -> None:
        """Forget all samples."""
        self.hidden: Any = torch.zeros(1, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give eight scores."""
        self.hidden = torch.tanh(self.read(x) + self.back(self.hidden))
        return self._scores(self.hidden)

    def _scores(self, hidden: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.out(hidden)
        return scores


class InBuffer(Cell):
    """The same in a buffer, which is written in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("hidden", torch.zeros(1, 32))

    def begin(self) -> None:
        """Forget all samples."""
        if hasattr(self, "hidden"):
            self.hidden.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give eight scores."""
        self.hidden.copy_(torch.tanh(self.read(x) + self.back(self.hidden)))
        return self._scores(self.hidden)


class FromNothing(Cell):
    """The same, made by the first sample."""

    def begin(self) -> None:
        """Forget all samples."""
        self.hidden = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give eight scores."""
        if self.hidden is None:
            self.hidden = torch.zeros(x.shape[0], 32)
        return super().forward(x)


class Growing(Cell):
    """All samples that it was given, as a cache of keys and values holds them."""

    def begin(self) -> None:
        """Forget all samples."""
        self.hidden = torch.zeros(0, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give scores for each of them."""
        self.hidden = torch.cat([self.hidden, x])
        return self._scores(torch.tanh(self.read(self.hidden)))


KEEPING = (Cell, InBuffer, FromNothing, Growing)


class Noisy(Cell):
    """Draws at random, and keeps nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give eight scores and noise."""
        return self._scores(torch.tanh(self.read(x))) + torch.randn(x.shape[0], 8)


class Counting(Cell):
    """Counts its calls, which changes no output."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give eight scores."""
        self.calls += 1
        return self._scores(torch.tanh(self.read(x)))


def model_of(module: Cell, reset: Callable[[Any], object] | None = None) -> Model:
    """The module for single samples."""
    return Model.from_torch(module, (torch.zeros(1, WIDTH),), dynamic=False, reset=reset)


def begin(module: Any) -> Any:
    """Reset; what it returns must not be taken for an input."""
    module.begin()
    return module.back.weight


def anew(module: Cell, samples: np.ndarray) -> np.ndarray:
    """What the module itself gives for each sample when it begins anew."""
    rows = []
    with torch.no_grad():
        for sample in samples:
            module.begin()
            rows.append(module(torch.from_numpy(sample[None])).numpy())
    return np.concatenate(rows)


@pytest.mark.parametrize("kind", KEEPING)
def test_a_module_that_keeps_state_is_known(kind: type[Cell]) -> None:
    """By its outputs, whether the state is an attribute, a buffer or a cache; not once it is reset."""
    module = kind()
    assert get_exporter().keeps_state(model_of(module))
    assert not get_exporter().keeps_state(model_of(module, begin))


@pytest.mark.parametrize("kind", [Noisy, Counting])
def test_what_changes_no_output_is_no_state(kind: type[Cell]) -> None:
    """Nor is chance. The user's own random numbers go on as they would."""
    model = model_of(kind())
    torch.manual_seed(7)
    wanted = torch.randn(3)
    torch.manual_seed(7)
    assert not get_exporter().keeps_state(model)
    torch.testing.assert_close(torch.randn(3), wanted)


@pytest.mark.parametrize("kind", KEEPING)
def test_an_engine_begins_anew_with_each_run(kind: type[Cell], tmp_path: Path) -> None:
    """As the module does when it is reset before each sample, in whatever order they come."""
    spec = EngineSpec("torch", "fp32", None, model_of(kind(), begin), options=(("compiled", False),))
    backend = get_backend("torch")
    backend.build(spec, None, tmp_path)
    with backend.open(spec, tmp_path) as engine:
        rows = [next(iter(engine.run({"x": sample[None]}).values())) for sample in SAMPLES[:5]]
    np.testing.assert_allclose(np.concatenate(rows), anew(kind(), SAMPLES[:5]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KEEPING)
def test_an_exported_file_begins_anew_with_each_run(kind: type[Cell], tmp_path: Path) -> None:
    """It has the reset in it."""
    path = get_exporter().export(model_of(kind(), begin), tmp_path)
    rows = [next(iter(run_unoptimized(path, {"x": sample[None]}).values())) for sample in SAMPLES[:5]]
    np.testing.assert_allclose(np.concatenate(rows), anew(kind(), SAMPLES[:5]), rtol=1e-5, atol=1e-6)


def test_int8_engines_begin_anew(tmp_path: Path) -> None:
    """Each is as near as rounding to 8 bits lets it be; one is compiled by Inductor, which takes seconds."""
    model = model_of(InBuffer(), begin)
    wanted = {"output": anew(InBuffer(), SAMPLES[:5])}
    backend = get_backend("torch")
    for scheme in ("static", "weight-only", "dynamic"):
        spec = EngineSpec("torch", "int8", scheme, model, options=(("compiled", scheme == "dynamic"),))
        folder = tmp_path / scheme
        folder.mkdir()
        ranges = None
        if scheme == "static":
            ranges = tmp_path / "ranges"
            ranges.mkdir()
            backend.calibrate(spec, lambda: iter([{"x": sample[None]} for sample in SAMPLES]), ranges)
        backend.build(spec, ranges, folder)
        with backend.open(spec, folder) as engine:
            rows = [next(iter(engine.run({"x": sample[None]}).values())) for sample in SAMPLES[:5]]
        assert sqnr_db(wanted, {"output": np.concatenate(rows)}) > 25.0, scheme


@pytest.mark.parametrize("reset", [None, begin])
def test_a_check_of_a_module_that_keeps_state(reset: Callable[[Any], object] | None, tmp_path: Path) -> None:
    """Is INCONCLUSIVE, and names the remedy; with it the limit is judged."""
    model = model_of(Cell(), reset)
    candidate, reference = EngineSpec("ort", "int8", "dynamic", model), EngineSpec("ort", "fp32", None, model)
    check = Check("t", "t", candidate, reference, Dataset.from_arrays(SAMPLES), Limits(min_sqnr_db=20.0))
    with session_in(tmp_path) as session:
        measurement = session.measure_engines(replace(check, latency=None, latency_off="--quant-no-latency"))
        record = session.judge(measurement).record
        measurement.close()
    reasons = [verdict.reason for verdict in record.verdicts or () if verdict.limit == "min_sqnr_db"]
    if reset is None:
        assert record.status is Status.INCONCLUSIVE
        assert "Cell keeps state" in reasons[0]
        assert "Model.from_torch(..., reset=fn)" in reasons[0]
        assert len(record.warnings) == 1
    else:
        assert (record.status, record.warnings) == (Status.PASS, ())


def test_another_reset_is_another_engine() -> None:
    """It decides what is traced."""
    exporter, module = get_exporter(), Cell()
    keys = [exporter.export_ingredients(model_of(module, reset))["module"] for reset in (None, begin, Cell.begin)]
    assert len(set(keys)) == 3


def test_reset_is_a_function() -> None:
    """Said where it is written."""
    with pytest.raises(UsageError, match="reset is called with the module"):
        model_of(Cell(), True)  # type: ignore[arg-type]
