"""Whatever a library refuses, the user reads a few lines; the rest is in a file that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pytest_quant.backends import Feeds, get_backend
from pytest_quant.backends.torch.export import export_onnx
from pytest_quant.errors import QuantError
from pytest_quant.measure.build import build_engine
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing import NumpyBackend
from tests.integration.openvino_traps.test_subgraphs import branches
from tests.support.measuring import quiet_tools
from tests.support.models import FEATURES, select_first, unknown_operator

_X = torch.linspace(-1, 1, 2 * FEATURES).reshape(2, FEATURES)
_RTX = (("compute_capability", "SM89"),)


class Branching(nn.Module):
    """What it computes depends on the values."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, 4)

    def forward(self, x: Tensor) -> object:
        """Return the layer's output, or minus that."""
        return self.layer(x) if x.sum() > 0 else -self.layer(x)


class Unwilling(nn.Module):
    """It raises a page of text."""

    def forward(self, x: Tensor) -> object:
        """Raise when it is run on the example, as a missing native operator does."""
        raise NotImplementedError("\n".join([f"no kernel for {x.dtype}", *["a candidate"] * 300]))


class Careless(NumpyBackend):
    """A backend of someone else's that lets its library's exception through."""

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:  # noqa: ARG002
        """Raise a page of text."""
        raise RuntimeError("\n".join(["the library gave up", *["and why"] * 300]))


def _feeds() -> Feeds:
    return {"x": np.random.default_rng(0).normal(size=(4, FEATURES)).astype(np.float32)}


def _one_branch() -> Feeds:
    return {"x": np.ones((4, 8), np.float32), "on": np.array([True])}


def _build(spec: EngineSpec, folder: Path, feeds: Callable[[], Feeds] = _feeds) -> None:
    """Take every step that a check takes."""
    backend = get_backend(spec.backend)
    backend.check(spec)

    def batches() -> Iterator[Feeds]:
        return iter([feeds(), feeds()])

    ranges, built = folder / "ranges", folder / "built"
    for each in (ranges, built):
        each.mkdir()
    backend.signature(spec.model)
    calibrated = backend.calibration_ingredients(spec) is not None
    if calibrated:
        backend.calibrate(spec, batches, ranges)
    backend.build(spec, ranges if calibrated else None, built)
    backend.open(spec, built).run(feeds())


def _module(module: nn.Module) -> Model:
    return Model.from_torch(module, (_X,), name="tiny")


def _unknown(backend: str, precision: str, scheme: str | None) -> Callable[[Path], None]:
    options = _RTX if backend == "trt-rtx" else ()
    return lambda folder: _build(
        EngineSpec(backend, precision, scheme, Model.from_onnx(unknown_operator(folder / "m.onnx")), options=options),
        folder,
    )


FAILURES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "export-branching": (lambda folder: export_onnx(_module(Branching()), folder), "cannot trace 'tiny'", "dependent"),
    "torch-unwilling": (
        lambda folder: _build(EngineSpec("torch", "int8", "static", _module(Unwilling())), folder),
        "model 'tiny' does not run",
        "no kernel",
    ),
    "nncf-empty-branch": (
        lambda folder: _build(EngineSpec("openvino", "int8", "static", branches(folder)), folder, _one_branch),
        "to quantize branches",
        "dataset must not be empty",
    ),
    "ort-static": (_unknown("ort", "int8", "static"), "to prepare m.onnx", "Frobnicate"),
    "openvino": (_unknown("openvino", "fp32", None), "the model m.onnx", "Frobnicate"),
    "someone-elses": (
        lambda folder: build_engine(
            EngineSpec("numpy", "fp32", None, Model.from_onnx(select_first(folder / "m.onnx"))),
            Careless(),
            None,
            quiet_tools(folder),
        ),
        "building numpy-fp32 of m failed",
        "the library gave up",
    ),
    "trt-rtx": (_unknown("trt-rtx", "fp32", None), "build trt-rtx-fp32 of m", "Frobnicate"),
}
"""By name: what fails, the step that the first line names, and what of the library's words is told."""


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_short_and_names_a_file(name: str, tmp_path: Path) -> None:
    """Under twelve lines, no traceback: the step, the words that tell, the next step, and the file with all of it."""
    fail, step, words = FAILURES[name]
    with pytest.raises(QuantError) as caught:
        fail(tmp_path)
    error, text = caught.value, str(caught.value)
    assert len(text.splitlines()) < 12
    assert len(text) < 1500
    assert "Traceback" not in text
    assert step in error.what
    assert words in (error.value or "")
    assert error.fix
    assert error.log is not None
    assert error.log in text
    whole = Path(error.log).read_text(encoding="utf-8")
    assert words in whole
    if name != "trt-rtx":  # a process of its own ended, which has no traceback to show
        assert "Traceback (most recent call last)" in whole
