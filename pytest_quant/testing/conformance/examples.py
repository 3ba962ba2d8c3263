"""Small models, each beside the same computation in plain numpy, and the way to an open engine of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnx.parser
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from onnx import numpy_helper

from pytest_quant.backends import TARGET, Backend, Engine, Feeds, Outputs
from pytest_quant.spec import ARRIVING, EngineSpec, InputShapes, Model

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Example:
    """A model, what it computes, and inputs for it.

    Attributes
    ----------
    nodes : names of the nodes that a backend may quantize.
    compute : the outputs by plain numpy.
    feeds : ``feeds(n, seed)``, one batch of n samples.
    shapes : of the inputs, where more than the batch is free; for backends that build for shapes.
    """

    name: str
    proto: onnx.ModelProto
    nodes: tuple[str, ...]
    compute: Callable[[Feeds], Outputs]
    feeds: Callable[[int, int], Feeds]
    shapes: tuple[InputShapes, ...] = ()

    def write(self, folder: Path) -> Model:
        """Save the model into `folder`."""
        path = folder / f"{self.name}.onnx"
        onnx.save_model(self.proto, path)
        return Model.from_onnx(path)


def dense(scale: float = 1.0, batch: int | None = None) -> Example:
    """Two dense layers with a ReLU between; `scale` multiplies the weights, `batch` fixes the batch size."""
    first, second = _normal((64, 32), 1, scale / 8), _normal((32, 10), 2, scale / 5)
    bias = _normal((32,), 3, 0.1)
    size = batch or "n"
    graph = f"(float[{size}, 64] x) => (float[{size}, 10] y)"
    graph += "{ m = MatMul(x, w1)  a = Add(m, b)  r = Relu(a)  y = MatMul(r, w2) }"
    proto = _model(graph, ["first", "bias", "relu", "second"], w1=first, w2=second, b=bias)

    def compute(feeds: Feeds) -> Outputs:
        return {"y": np.maximum(feeds["x"] @ first + bias, 0.0) @ second}

    return Example("dense", proto, ("first", "second"), compute, lambda n, seed: {"x": _normal((n, 64), seed)})


def conv() -> Example:
    """A 3 x 3 convolution with ReLU, flattened into a dense layer with bias."""
    kernel, bias = _normal((8, 1, 3, 3), 4, 0.3), _normal((8,), 5, 0.1)
    weights, offset = _normal((10, 8 * 36), 6, 0.06), _normal((10,), 7, 0.1)
    graph = "(float[n, 1, 8, 8] x) => (float[n, 10] y) { c = Conv<kernel_shape = [3, 3]>(x, k, kb)"
    graph += "  r = Relu(c)  f = Flatten(r)  y = Gemm<transB = 1>(f, w, wb) }"
    proto = _model(graph, ["conv", "relu", "flatten", "dense"], k=kernel, kb=bias, w=weights, wb=offset)

    def compute(feeds: Feeds) -> Outputs:
        windows = sliding_window_view(feeds["x"][:, 0], (3, 3), axis=(1, 2))
        maps = np.einsum("nijab,cab->ncij", windows, kernel[:, 0]) + bias[None, :, None, None]
        return {"y": np.maximum(maps, 0.0).reshape(len(maps), -1) @ weights.T + offset}

    return Example("conv", proto, ("conv", "dense"), compute, lambda n, seed: {"x": _normal((n, 1, 8, 8), seed)})


def two_by_two() -> Example:
    """Two inputs and two outputs of different shapes."""
    weights = _normal((16, 12), 8, 0.25)
    graph = "(float[n, 16] a, float[n, 16] b) => (float[n, 12] wide, float[n, 16] narrow)"
    graph += "{ s = Add(a, b)  wide = MatMul(s, w)  narrow = Mul(a, b) }"
    proto = _model(graph, ["add", "product", "multiply"], w=weights)

    def compute(feeds: Feeds) -> Outputs:
        return {"wide": (feeds["a"] + feeds["b"]) @ weights, "narrow": feeds["a"] * feeds["b"]}

    def feeds(n: int, seed: int) -> Feeds:
        return {"a": _normal((n, 16), seed), "b": _normal((n, 16), seed + 100)}

    return Example("two_by_two", proto, ("product",), compute, feeds)


def tokens(length: int = 6) -> Example:
    """Token numbers (int64) of any length, embedded and projected; the feeds set `length`."""
    table, weights = _normal((20, 16), 9), _normal((16, 4), 10, 0.25)
    graph = "(int64[n, length] ids) => (float[n, length, 4] y) { e = Gather(table, ids)  y = MatMul(e, w) }"
    proto = _model(graph, ["embed", "project"], table=table, w=weights)

    def feeds(n: int, seed: int) -> Feeds:
        return {"ids": np.random.default_rng(seed).integers(0, 20, (n, length), dtype=np.int64)}

    shapes = (InputShapes("ids", (1, 1), (1, 6), (64, 16)),)
    return Example("tokens", proto, ("project",), lambda f: {"y": table[f["ids"]] @ weights}, feeds, shapes)


def passthrough() -> Example:
    """The input handed through, and an output that is constant: both tempt a runtime to lend its own memory."""
    constant = _normal((3,), 11)
    graph = "(float[n, 4] x) => (float[n, 4] y, float[3] c) { y = Flatten(x)  c = Identity(constant) }"
    proto = _model(graph, ["flatten", "lent"], constant=constant)

    def compute(feeds: Feeds) -> Outputs:
        return {"y": feeds["x"].copy(), "c": constant.copy()}

    return Example("passthrough", proto, (), compute, lambda n, seed: {"x": _normal((n, 4), seed)})


def unknown_operator() -> onnx.ModelProto:
    """A model with an operator that no runtime has."""
    proto = _model("(float[n, 4] x) => (float[n, 4] y) { y = test.nowhere.NoSuchOperator(x) }", ["strange"])
    proto.opset_import.append(onnx.helper.make_opsetid("test.nowhere", 1))
    return proto


def _model(graph: str, names: list[str], **weights: Floats) -> onnx.ModelProto:
    """Return the model of a graph in ONNX's textual syntax, which has no names of nodes in old versions."""
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> example ' + graph)
    for node, name in zip(proto.graph.node, names, strict=True):
        node.name = name
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return proto


def _normal(shape: tuple[int, ...], seed: int, scale: float = 1.0) -> Floats:
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def module_model(example: Example) -> Model:
    """Return the example as a module, with two samples, or as many as its batch size is fixed to.

    It has the same weights, and its layers are called as the nodes are.
    """
    import torch

    weights = {
        tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy())
        for tensor in example.proto.graph.initializer
    }
    # A class for each, since PyTorch's tracer and the names of inputs go by the class's own `forward`.
    module: Any = type(example.name, (torch.nn.Module,), {"forward": _FORWARDS[example.name]})()
    for name, layer in _layers(example.name, weights).items():
        if isinstance(layer, torch.nn.Module):
            setattr(module, name, layer)
        else:
            module.register_buffer(name, layer)
    sizes = [dim.dim_value for dim in example.proto.graph.input[0].type.tensor_type.shape.dim]
    inputs = tuple(torch.from_numpy(array) for array in example.feeds(sizes[0] or 2, 0).values())
    dynamic: bool | dict[str, tuple[int, ...]] = {"ids": (0, 1)} if example.name == "tokens" else sizes[0] == 0
    return Model.from_torch(module, inputs, dynamic=dynamic, name=example.name)


_FORWARDS: dict[str, Callable[..., dict[str, Any]]] = {
    "dense": lambda self, x: {"y": self.second(self.first(x).relu())},
    "conv": lambda self, x: {"y": self.dense(self.conv(x).relu().flatten(1))},
    "two_by_two": lambda self, a, b: {"wide": self.product(a + b), "narrow": a * b},
    "tokens": lambda self, ids: {"y": self.project(self.embed(ids))},
    "passthrough": lambda self, x: {"y": x.flatten(1), "c": self.constant},
}


def _layers(name: str, weights: dict[str, Any]) -> dict[str, Any]:
    from torch import nn

    def linear(weight: Any, bias: Any = None) -> nn.Linear:
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
        layer.load_state_dict({"weight": weight} if bias is None else {"weight": weight, "bias": bias})
        return layer

    if name == "dense":
        return {"first": linear(weights["w1"].T, weights["b"]), "second": linear(weights["w2"].T)}
    if name == "conv":
        layer = nn.Conv2d(1, 8, 3)
        layer.load_state_dict({"weight": weights["k"], "bias": weights["kb"]})
        return {"conv": layer, "dense": linear(weights["w"], weights["wb"])}
    if name == "two_by_two":
        return {"product": linear(weights["w"].T)}
    if name == "tokens":
        return {"embed": nn.Embedding.from_pretrained(weights["table"]), "project": linear(weights["w"].T)}
    return {"constant": weights["constant"]}


SEVERAL = 16
"""Samples in a batch where their number is not the point: what compiles for each number does so once."""


@dataclass(frozen=True, slots=True)
class Workbench:
    """A backend under test, and its engines of examples, each of which all tests of a class share.

    Attributes
    ----------
    folder : an existing folder, to which examples are written if the backend reads files.
    at_the_end : closes the engines after the last test of the class.
    """

    backend: Backend
    folder: Path
    at_the_end: ExitStack
    built: dict[tuple[object, ...], Engine] = field(default_factory=dict)

    def model(self, example: Example) -> Model:
        """Return an example as a model in the form that the backend reads."""
        return example.write(self.folder) if self.backend.offer.reads == "onnx" else module_model(example)

    def float_spec(self, example: Example) -> EngineSpec:
        """Return the spec of the FP32 reference."""
        return float_spec(self.backend, self.model(example))

    def specs(self, example: Example, *, exclude: tuple[str, ...] = ()) -> list[EngineSpec]:
        """Return one spec for each quantized precision and scheme that starts from a float model."""
        model, options = self.model(example), _options(self.backend)
        return [
            EngineSpec(self.backend.name, precision, scheme, model, exclude=exclude, options=options)
            for precision, schemes in self.backend.offer.precisions.items()
            for scheme in schemes
            if scheme not in (None, *ARRIVING)
        ]

    def float_engine(self, example: Example) -> Engine:
        """Return the FP32 engine of an example."""
        return self._engine(self.float_spec(example), example)

    def engines(self, example: Example, *, exclude: tuple[str, ...] = ()) -> list[Engine]:
        """Return the engine of each quantized precision and scheme."""
        return [self._engine(spec, example) for spec in self.specs(example, exclude=exclude)]

    def _engine(self, spec: EngineSpec, example: Example) -> Engine:
        ingredients = self.backend.ingredients(_add_shapes(self.backend, spec, example))
        key = (spec.id, spec.exclude, example.name, *sorted(ingredients.items()))
        if key not in self.built:
            self.built[key] = self.at_the_end.enter_context(open_example(self.backend, spec, example))
        return self.built[key]


def _options(backend: Backend) -> tuple[tuple[str, object], ...]:
    """Return the name of a GPU to build for, if `backend` takes a name and no GPU is here."""
    spec = EngineSpec(backend.name, "fp32", None, Model("any"))
    needed = TARGET in backend.offer.options and not backend.availability(spec).available
    return ((TARGET, "SM89"),) if needed else ()


def float_spec(backend: Backend, model: Model) -> EngineSpec:
    """Return the spec of the FP32 reference."""
    return EngineSpec(backend.name, "fp32", None, model, options=_options(backend))


@contextmanager
def open_example(backend: Backend, spec: EngineSpec, example: Example) -> Iterator[Engine]:
    """Build an engine and open it; it is closed at the end of the block. Parameters as in `build`."""
    spec = _add_shapes(backend, spec, example)
    with TemporaryDirectory() as folder, backend.open(spec, build(backend, spec, example, Path(folder))) as engine:
        yield engine


def _add_shapes(backend: Backend, spec: EngineSpec, example: Example) -> EngineSpec:
    """Return `spec` with the shapes of an example in place of data, if the backend builds for shapes."""
    return replace(spec, shapes=example.shapes) if backend.offer.fixed_shapes else spec


def build(backend: Backend, spec: EngineSpec, example: Example, folder: Path) -> Path:
    """Build an engine, calibrated if its scheme needs it, and return the folder that holds it.

    Parameters
    ----------
    backend, spec : what to build, and with what.
    example : gives the calibration samples and the shapes.
    folder : an empty folder, or a new one; ranges and engine each get a folder in it.
    """
    spec = _add_shapes(backend, spec, example)
    backend.check(spec)
    ranges, engine = folder / "ranges", folder / "engine"
    for each in (ranges, engine):
        each.mkdir(parents=True)
    static = backend.calibration_ingredients(spec) is not None
    if static:
        backend.calibrate(spec, lambda: (example.feeds(4, seed) for seed in range(20, 28)), ranges)
    backend.build(spec, ranges if static else None, engine)
    return engine


def sqnr_db(reference: Outputs, candidate: Outputs) -> float:
    """Return 20 log10(||r|| / ||r - c||) over all outputs; infinite when they are equal."""
    wanted = np.concatenate([array.ravel() for array in reference.values()]).astype(np.float64)
    values = np.concatenate([candidate[name].ravel() for name in reference]).astype(np.float64)
    error = np.linalg.norm(wanted - values)
    return float("inf") if error == 0 else float(20 * np.log10(np.linalg.norm(wanted) / error))
