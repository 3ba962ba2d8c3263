"""From an example, as ONNX file or torch module, to an open engine, through the steps of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn

from pytest_quant.backends.base import Backend, Engine, Outputs, ShapedBackend
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import Example

Weights = dict[str, NDArray[Any]]
Answer = dict[str, Tensor]


CALIBRATION_SEEDS = range(20, 28)

SEVERAL = 16
"""Samples in a batch where their number is not the point: what compiles for each number does so once."""


class Dense(nn.Module):
    """Two dense layers with a ReLU between."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.first = _linear(weights["w1"].T, weights["b"])
        self.second = _linear(weights["w2"].T)

    def forward(self, x: Tensor) -> Answer:
        """Map (n, 64) to (n, 10)."""
        return {"y": self.second(torch.relu(self.first(x)))}


class Convolution(nn.Module):
    """A convolution with ReLU, flattened into a dense layer."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.conv.weight.data = torch.from_numpy(weights["k"].copy())
        self.conv.bias = nn.Parameter(torch.from_numpy(weights["kb"].copy()))
        self.dense = _linear(weights["w"], weights["wb"])

    def forward(self, x: Tensor) -> Answer:
        """Map (n, 1, 8, 8) to (n, 10)."""
        return {"y": self.dense(torch.relu(self.conv(x)).flatten(1))}


class TwoByTwo(nn.Module):
    """Two inputs and two outputs."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.product = _linear(weights["w"].T)

    def forward(self, a: Tensor, b: Tensor) -> Answer:
        """Map two (n, 16) to (n, 12) and (n, 16)."""
        return {"wide": self.product(a + b), "narrow": a * b}


class Tokens(nn.Module):
    """Token numbers, embedded and projected."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.embed = nn.Embedding.from_pretrained(torch.from_numpy(weights["table"].copy()))
        self.project = _linear(weights["w"].T)

    def forward(self, ids: Tensor) -> Answer:
        """Map (n, length) to (n, length, 4)."""
        return {"y": self.project(self.embed(ids))}


class Passthrough(nn.Module):
    """The input handed through, and a constant."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.register_buffer("constant", torch.from_numpy(weights["constant"].copy()))

    def forward(self, x: Tensor) -> Answer:
        """Map (n, 4) to itself and to (3,)."""
        return {"y": x.flatten(1), "c": self.get_buffer("constant")}


_MODULES: dict[str, Callable[[Weights], nn.Module]] = {
    "dense": Dense,
    "conv": Convolution,
    "two_by_two": TwoByTwo,
    "tokens": Tokens,
    "passthrough": Passthrough,
}


def module_model(example: Example) -> Model:
    """Return the example as a module, with two samples, or as many as its batch size is fixed to."""
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in example.proto.graph.initializer}
    sizes = [dim.dim_value for dim in example.proto.graph.input[0].type.tensor_type.shape.dim]
    feeds = example.feeds(sizes[0] or 2, 0)
    dynamic: bool | dict[str, tuple[int, ...]] = sizes[0] == 0
    if example.name == "tokens":
        dynamic = {"ids": (0, 1)}
    inputs = tuple(torch.from_numpy(array) for array in feeds.values())
    return Model.from_torch(_MODULES[example.name](weights), inputs, dynamic=dynamic, name=example.name)


def _linear(weight: NDArray[Any], bias: NDArray[Any] | None = None) -> nn.Linear:
    """Return a layer with weights (out, in)."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.weight.data = torch.from_numpy(weight.copy())
    if bias is not None:
        layer.bias.data = torch.from_numpy(bias.copy())
    return layer


class Workbench:
    """Base of the tests: the fixture to override, and how specs are built."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Return the backend under test; every author overrides this."""
        raise NotImplementedError("override the fixture 'backend'")


def model_for(backend: Backend, example: Example, folder: Path) -> Model:
    """Return an example as a model in the form that the backend reads.

    Parameters
    ----------
    backend : reads ONNX files or torch modules.
    example : the model, with inputs and expected outputs.
    folder : an existing folder, to which the file is written if the backend reads files.
    """
    if backend.reads == "onnx":
        return example.write(folder)

    return module_model(example)


def options_for(backend: Backend) -> tuple[tuple[str, object], ...]:
    """Return the options without which `backend` builds nothing, a target for example: its `conformance_options`."""
    found: tuple[tuple[str, object], ...] = getattr(backend, "conformance_options", ())
    return found


def specs(backend: Backend, model: Model, *, exclude: tuple[str, ...] = ()) -> list[EngineSpec]:
    """Return one spec for each quantized precision and scheme of a backend that starts from a float model.

    Parameters
    ----------
    backend : its `schemes` are read.
    model : the float model.
    exclude : names of nodes to leave in float.
    """
    return [
        EngineSpec(backend.name, precision, scheme, model, exclude=exclude, options=options_for(backend))
        for precision, schemes in backend.schemes.items()
        for scheme in schemes
        if scheme not in (None, "qat")
    ]


def float_spec(backend: Backend, model: Model) -> EngineSpec:
    """Return the spec of the FP32 reference."""
    return EngineSpec(backend.name, "fp32", None, model, options=options_for(backend))


@contextmanager
def opened(backend: Backend, spec: EngineSpec, example: Example) -> Iterator[Engine]:
    """Build an engine, calibrated if its scheme needs it, and open it; it is closed at the end of the block.

    Parameters
    ----------
    backend, spec : what to build, and with what.
    example : gives the calibration samples and the shapes.
    """
    spec = shaped(backend, spec, example)
    with TemporaryDirectory() as folder:
        engine = backend.open(spec, build(backend, spec, example, Path(folder)))
        try:
            yield engine
        finally:
            engine.close()


def shaped(backend: Backend, spec: EngineSpec, example: Example) -> EngineSpec:
    """Return `spec` with the shapes of an example, if the backend builds for shapes.

    Parameters
    ----------
    backend : only a `ShapedBackend` is given shapes.
    spec : the engine to build.
    example : its shapes stand for those of the data.
    """
    return replace(spec, shapes=example.shapes) if isinstance(backend, ShapedBackend) else spec


def build(backend: Backend, spec: EngineSpec, example: Example, folder: Path) -> Path:
    """Build an engine, calibrated if its scheme needs it, and return the folder that holds it.

    Parameters
    ----------
    backend, spec : what to build, and with what.
    example : gives the calibration samples and the shapes.
    folder : an existing, empty folder; ranges and engine each get a folder in it.
    """
    spec = shaped(backend, spec, example)
    backend.check(spec)
    ranges, engine = folder / "ranges", folder / "engine"
    for each in (ranges, engine):
        each.mkdir()
    static = backend.calibration_ingredients(spec) is not None
    if static:
        backend.calibrate(spec, lambda: (example.feeds(4, seed) for seed in CALIBRATION_SEEDS), ranges)
    backend.build(spec, ranges if static else None, engine)
    return engine


def sqnr_db(reference: Outputs, candidate: Outputs) -> float:
    """Return 20 log10(||r|| / ||r - c||) over all outputs; infinite when they are equal."""
    wanted = np.concatenate([array.ravel() for array in reference.values()]).astype(np.float64)
    found = np.concatenate([candidate[name].ravel() for name in reference]).astype(np.float64)
    error = np.linalg.norm(wanted - found)
    return float("inf") if error == 0 else float(20 * np.log10(np.linalg.norm(wanted) / error))
