"""``exclude`` means float: each product of five networks is excluded alone and read back, on every backend here.

A network is one torch module, exported for the backends that read files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")

from torch import Tensor, nn  # noqa: E402 - after the skip

from pytest_quant.backends import Backend, Engine, Feeds, get_backend, get_exporter  # noqa: E402
from pytest_quant.errors import BuildError  # noqa: E402
from pytest_quant.spec import EngineSpec, InputShapes, Model  # noqa: E402

OPERATORS = frozenset({"Conv", "Gemm", "MatMul"})
LAYERS = ("Conv2d", "Linear", "Product")
SAMPLES = 8
TARGET = (("compute_capability", "SM89"),)
SIMULATED = (("compiled", False),)


class Product(nn.Module):
    """A product of two activations, with a name to exclude it by."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply two stacks of matrices."""
        return a @ b


class Chain(nn.Module):
    """Convolutions that follow each other, without a head."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Map pictures to ten scores."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


class Mlp(nn.Module):
    """Dense layers (Gemm) between quantized tensors, behind a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv2d(1, 8, 3), nn.MaxPool2d(2)
        self.first, self.second, self.third = nn.Linear(72, 64), nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Map pictures to ten scores."""
        x = torch.relu(self.first(self.pool(torch.relu(self.conv(x))).flatten(1)))
        return self.third(torch.relu(self.second(x)))  # type: ignore[no-any-return]


class Attention(nn.Module):
    """One head over twelve tokens: both operands of two of its products are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 32, bias=False) for _ in range(3))
        self.scores, self.mixed = Product(), Product()
        self.out, self.head = nn.Linear(32, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens to ten scores each."""
        weights = torch.softmax(0.25 * self.scores(self.query(x), self.key(x).transpose(1, 2)), -1)
        return self.head(torch.relu(self.out(self.mixed(weights, self.value(x)))))  # type: ignore[no-any-return]


class Residual(nn.Module):
    """Two blocks whose outputs are added to their inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = _conv(3, 16), nn.Linear(16, 10)
        self.blocks = nn.ModuleList(nn.Sequential(_conv(16, 16), nn.ReLU(), _conv(16, 16)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Map pictures to ten scores."""
        x = torch.relu(self.stem(x))
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


def _conv(taken: int, given: int, size: int = 3, **how: int) -> nn.Module:
    return nn.Conv2d(taken, given, size, padding=size // 2, **how)  # type: ignore[arg-type]


def _depthwise() -> nn.Module:
    return Chain(
        _conv(3, 16), _conv(16, 16, groups=16), _conv(16, 32, 1), _conv(32, 32, groups=32, stride=2), _conv(32, 16, 1)
    )


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "chain": (lambda: Chain(_conv(3, 16), _conv(16, 16), _conv(16, 16)), (3, 16, 16)),
    "mlp": (Mlp, (1, 8, 8)),
    "attention": (Attention, (12, 32)),
    "depthwise": (_depthwise, (3, 16, 16)),
    "residual": (Residual, (3, 16, 16)),
}


@dataclass(frozen=True)
class Net:
    """One network in both forms, and the names of its products in each."""

    module: Model
    file: Model
    layers: tuple[str, ...]
    nodes: tuple[str, ...]
    shape: tuple[int, ...]

    def read_by(self, backend: Backend) -> tuple[Model, tuple[str, ...]]:
        """Return the form that `backend` reads, and the products to exclude."""
        return (self.file, self.nodes) if backend.offer.reads == "onnx" else (self.module, self.layers)


@pytest.fixture(scope="module", params=NETWORKS)
def net(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Net:
    """Export one network."""
    make, shape = NETWORKS[request.param]
    torch.manual_seed(1)
    network = make().eval()
    model = Model.from_torch(network, (torch.randn(SAMPLES, *shape),), name=request.param)
    file = get_exporter().export(model, tmp_path_factory.mktemp(request.param))
    nodes = tuple(node.name for node in onnx.load(file).graph.node if node.op_type in OPERATORS)
    layers = tuple(name for name, each in network.named_modules() if type(each).__name__ in LAYERS)
    assert len(nodes) == len(layers)
    return Net(model, Model.from_onnx(file, name=request.param), layers, nodes, shape)


@dataclass(frozen=True)
class Bench:
    """Builds engines of one network on one backend."""

    backend: Backend
    spec: EngineSpec
    net: Net
    folder: Path

    def feeds(self) -> Feeds:
        """Return one batch."""
        return {"x": np.random.default_rng(0).normal(size=(SAMPLES, *self.net.shape)).astype(np.float32)}

    def built(self, *exclude: str) -> Path:
        """Return the folder of an engine without the nodes `exclude`."""
        spec = replace(self.spec, exclude=exclude)
        ranges, engine = (self.folder / f"{what}-{len(list(self.folder.iterdir()))}" for what in ("ranges", "engine"))
        ranges.mkdir()
        engine.mkdir()
        self.backend.check(spec)
        self.backend.calibrate(spec, lambda: iter([self.feeds()] * 2), ranges)
        self.backend.build(spec, ranges, engine)
        return engine

    def opened(self, engine: Path, *exclude: str) -> Engine:
        """Open what was built."""
        return self.backend.open(replace(self.spec, exclude=exclude), engine)


def _bench(name: str, net: Net, folder: Path, options: tuple[tuple[str, object], ...] = ()) -> tuple[Bench, list[str]]:
    if name == "openvino":
        pytest.importorskip("nncf")
    backend = get_backend(name)
    availability = backend.availability(EngineSpec(name, "int8", "static", net.file, options=options))
    if not availability.available:
        pytest.skip(availability.reason)
    model, products = net.read_by(backend)
    spec = EngineSpec(name, "int8", "static", model, options=options)
    if backend.offer.fixed_shapes:
        shape = (SAMPLES, *net.shape)
        spec = replace(spec, shapes=(InputShapes("x", shape, shape, shape, None),))
    return Bench(backend, spec, net, folder), list(products)


def _named(engine: Any, names: tuple[str, ...]) -> list[str]:
    """Return the excluded nodes that are among `names` of a coverage."""
    return list(engine._excluded_among(names))


FILES = {"ort": (), "openvino": (), "ort-openvino": (), "trt-rtx": TARGET}
HIDDEN = {("ort-openvino", "attention"): {"node_matmul"}}
"""Products in a fused kernel that says nothing of its inside, which are called neither float nor quantized."""


@pytest.mark.parametrize("name", FILES)
def test_each_excluded_product_is_read_back_as_float(name: str, net: Net, tmp_path: Path) -> None:
    """Every one, alone between quantized neighbours, is named among the nodes that ran in float; a hidden one is not.

    Q/DQ pairs on both sides, as in the middle of a net, are what makes ONNX Runtime quantize a node again.
    """
    bench, products = _bench(name, net, tmp_path, FILES[name])
    read, hidden = [], set()
    for product in products:
        engine = bench.opened(bench.built(product), product)
        result = engine.coverage(bench.feeds())
        read += _named(engine, result.float_nodes)
        hidden |= {product} if result.opaque_nodes and not _named(engine, result.float_nodes) else set()
        engine.close()
    assert hidden == HIDDEN.get((name, net.file.name), set())
    assert read == [product for product in products if product not in hidden]


@pytest.mark.parametrize("name", FILES)
def test_excluded_products_that_ran_quantized_are_an_error(name: str, net: Net, tmp_path: Path) -> None:
    """An engine that was built without ``exclude`` is opened as one with all products in it: the error names them.

    Those that the backend leaves in float by itself are not among them.
    """
    bench, products = _bench(name, net, tmp_path, FILES[name])
    engine = bench.built()
    plain = bench.opened(engine)
    result = plain.coverage(bench.feeds())
    plain.close()
    assert result.asked_nodes
    wrong = bench.opened(engine, *products)
    in_float = _named(wrong, result.float_nodes)
    with pytest.raises(BuildError, match="quantizes what exclude names") as caught:
        wrong.coverage(bench.feeds())
    wrong.close()
    named = str(caught.value.value).removeprefix("read back in int8: ").split(", ")
    assert set(named) <= set(products).difference(in_float)
    assert len(products) - len(named) - len(in_float) <= result.opaque_nodes


def test_each_excluded_module_is_read_back_as_float(net: Net, tmp_path: Path) -> None:
    """The program says whose weights are integers, and what Inductor is given how many products run so.

    The program is read for each layer of each network, and every quantized layer beside it is an error by its name;
    products that run so are counted for one.
    """
    bench, layers = _bench("torch", net, tmp_path, SIMULATED)
    for layer in layers:
        opened = bench.opened(bench.built(layer), *layers)
        # The error names the others, and so this one is in float.
        with pytest.raises(BuildError, match="quantizes what exclude names") as caught:
            opened.coverage(bench.feeds())
        named = str(caught.value.value).removeprefix("read back in int8: ").split(", ")
        assert set(named) == {each for each in layers if each != layer and not _multiplies_activations(net, each)}
    if net.module.name != "mlp":
        return
    compiled = replace(bench, spec=replace(bench.spec, options=()))
    before, after = (
        compiled.opened(compiled.built(*exclude), *exclude).coverage(bench.feeds()) for exclude in ((), layers[1:2])
    )
    assert sum(row.quantized_nodes for row in after.by_op) == sum(row.quantized_nodes for row in before.by_op) - 1


def _multiplies_activations(net: Net, layer: str) -> bool:
    """Tell whether `layer` has no weights, so that PyTorch's quantizer leaves it in float."""
    network: Any = net.module.module
    return isinstance(network.get_submodule(layer), Product)
