"""The graph with switches of the backend ``torch``: off it is the module, on it is the converted program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pytest_quant.backends import Feeds, get_backend
from pytest_quant.backends.feeds import Outputs
from pytest_quant.backends.switchable import Range, SwitchableGraph
from pytest_quant.backends.torch.program import PROGRAM_FILE, load_program
from pytest_quant.backends.torch.quantize import convert_qat, prepare_qat
from pytest_quant.diagnose.ladder import Finding, Ladder
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import sqnr_db

TORCH = get_backend("torch")
EAGER = (("compiled", False), ("reduce_range", False))
"""An engine that is its own graph, with eight bits on every processor."""


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return numbers of the normal law as float32."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def rows(seed: int) -> Feeds:
    """Sixteen samples of 24 values."""
    return {"x": normal(16, 24, seed=seed)}


def images(seed: int) -> Feeds:
    """Four images of three channels."""
    return {"x": normal(4, 3, 8, 8, seed=seed)}


def tokens(seed: int) -> Feeds:
    """Four sequences of six vectors."""
    return {"x": normal(4, 6, 24, seed=seed)}


class Dense(nn.Module):
    """Four products; between the second and the third, one channel is `large` times as large and read by none."""

    def __init__(self, large: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.third, self.last = (nn.Linear(24, width) for width in (24, 24, 24, 5))
        with torch.no_grad():
            if large != 1.0:
                self.second.weight[0] *= large
                self.third.weight[:, 0] = 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, 24) to (n, 5)."""
        between = torch.relu(self.second(torch.relu(self.first(x))))
        result: Tensor = self.last(torch.relu(self.third(between)))
        return result


class Residual(nn.Module):
    """Convolutions with batch norms, a shortcut around one of them, and a dense layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        start = nn.BatchNorm2d(8)
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), start, nn.ReLU())
        self.inner, self.norm = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.dense = nn.Linear(8, 8)
        for norm in (start, self.norm):
            norm.running_mean, norm.running_var = torch.rand(8), torch.rand(8) + 0.5

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Map (n, 3, 8, 8) to (n, 8), which is also given one step earlier."""
        first = self.stem(x)
        pooled = torch.relu(self.norm(self.inner(first)) + first).mean((2, 3))
        once = torch.relu(self.dense(pooled))
        return {"once": once, "twice": self.dense(once)}


class Attention(nn.Module):
    """One head, whose queries and keys have one weight, behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.query, self.value, self.out = (
            nn.LayerNorm(24),
            nn.Linear(24, 24),
            *(nn.Linear(24, 24) for _ in range(2)),
        )
        self.key = nn.Linear(24, 24)
        self.key.weight = self.query.weight

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, t, 24) to the same."""
        h = self.norm(x)
        shares = torch.softmax(self.query(h) @ self.key(h).transpose(1, 2) / 5.0, -1)
        result: Tensor = x + self.out(shares @ self.value(h))
        return result


@dataclass(frozen=True)
class Opened:
    """A graph with switches, its engine's file, and over one batch what the engine and the module give."""

    graph: SwitchableGraph
    feeds: Feeds
    engine: Outputs
    float: Outputs
    folder: Path

    @property
    def every(self) -> range:
        """The places of all sites."""
        return range(len(self.graph.sites))

    def alone(self, place: int) -> Outputs:
        """Return the outputs with one site rounded."""
        return self.graph.run(self.feeds, [each for each in self.every if each != place])

    def at(self, nodes: Sequence[str], *, is_weight: bool) -> int:
        """Return the place of the site at these products."""
        (place,) = (
            place
            for place, site in enumerate(self.graph.sites)
            if (site.nodes, site.is_weight) == (tuple(nodes), is_weight)
        )
        return place


def specify(module: nn.Module, feeds: Callable[[int], Feeds], scheme: str = "static", **how: Any) -> EngineSpec:
    """Return the spec of an engine of a module in eager mode."""
    model = Model.from_torch(module, tuple(torch.from_numpy(array) for array in feeds(0).values()))
    return EngineSpec("torch", "int8", scheme, model, **{"options": EAGER, **how})


@contextmanager
def opened(
    spec: EngineSpec,
    feeds: Callable[[int], Feeds],
    work: Path,
    *,
    scale: float = 1.0,
    change: Callable[[Any], None] | None = None,
) -> Iterator[Opened]:
    """Build an engine over four batches, multiplied by `scale`, `change` its graph, and open both over a fifth one."""
    ranges, folder = work / "ranges", work / "engine"
    ranges.mkdir()
    folder.mkdir()
    is_static = spec.scheme == "static"
    if is_static:
        given = ({name: scale * array for name, array in feeds(seed).items()} for seed in range(4))
        TORCH.calibrate(spec, lambda: given, ranges)
    TORCH.build(spec, ranges if is_static else None, folder)
    if change is not None:
        program = load_program(folder / PROGRAM_FILE)
        change(program.graph)
        torch.export.save(program, folder / PROGRAM_FILE)
    graph, batch = TORCH.switches(spec, folder, work), feeds(9)
    assert graph is not None
    with TORCH.open(spec, folder) as engine, graph, torch.no_grad():
        module: Any = spec.model.module
        given_back = module.eval()(*(torch.from_numpy(array) for array in batch.values()))
        floats = given_back if isinstance(given_back, dict) else {"output": given_back}
        yield Opened(graph, batch, engine.run(batch), {name: each.numpy() for name, each in floats.items()}, folder)


def climb(case: Opened, feeds: Callable[[int], Feeds], engine: Outputs | None = None) -> Finding:
    """Ask for the stage at which the engine, or one that gives `engine`, loses."""
    found = case.engine if engine is None else engine
    others = [feeds(seed) for seed in range(20, 30)]
    ladder = Ladder(case.graph, [case.feeds], others, (), tuple(found), [case.float], [found], lambda _: None)
    return ladder.climb()


def rounded(values: np.ndarray, known: Range) -> np.ndarray:
    """Round to 256 levels, the ends and 0 among them."""
    step = (known.high - known.low) / 255
    zero = np.rint(-known.low / step)
    return np.asarray((np.clip(np.rint(values / step) + zero, 0, 255) - zero) * step, np.float32)


def rounded_weight(weight: np.ndarray) -> np.ndarray:
    """Round to 256 levels around 0, one scale for each output."""
    step = np.abs(weight).max(axis=1) / np.float32(127.5)
    zeros = torch.zeros(len(weight), dtype=torch.int32)
    rounded = torch.fake_quantize_per_channel_affine(
        torch.from_numpy(weight), torch.from_numpy(step), zeros, 0, -128, 127
    )
    return rounded.numpy()


SEVEN = (("compiled", False), ("reduce_range", True))
NETWORKS = [
    pytest.param(Residual, images, {"options": SEVEN, "exclude": ("stem.0",)}, id="residual-in-part"),
    pytest.param(Residual, images, {"scheme": "dynamic"}, id="residual-dynamic"),
    pytest.param(Attention, tokens, {}, id="attention"),
]


@pytest.mark.parametrize(("network", "feeds", "how"), NETWORKS)
def test_from_the_module_to_the_engine(
    network: Callable[[], nn.Module], feeds: Callable[[int], Feeds], how: dict[str, Any], tmp_path: Path
) -> None:
    """All off is the module, whose batch norms are in the weights; all on the engine; each switch does something."""
    with opened(specify(network(), feeds, **how), feeds, tmp_path) as case:
        assert sqnr_db(case.float, case.graph.run(case.feeds, case.every)) > 110
        assert sqnr_db(case.engine, case.graph.run(case.feeds)) > 110
        assert 20 < sqnr_db(case.float, case.engine) < 60
        assert all(sqnr_db(case.float, case.alone(place)) < 100 for place in case.every)
        assert case.graph.unseen == ""
        assert len({site.tensor for site in case.graph.sites}) == len(case.graph.sites)
        assert case.graph.bits == (7 if how.get("options") else 8)
        named = {name for site in case.graph.sites if site.is_weight for name in site.nodes}
        assert named == {*TORCH.quantized_nodes(specify(network(), feeds, **{**how, "scheme": "static"}))}


def test_each_switch_by_itself(tmp_path: Path) -> None:
    """It changes the output by what another rounding of that tensor does; weights have a scale per channel."""
    layers = nn.Linear(24, 16, bias=False), nn.Linear(16, 5, bias=False)
    module = nn.Sequential(layers[0], nn.ReLU(), layers[1])
    first, last = (layer.weight.detach().numpy() for layer in layers)
    name = TORCH.signature(specify(module, rows).model).inputs[0].name

    def feeds(seed: int) -> Feeds:
        return {name: rows(seed)["x"]}

    with opened(specify(module, feeds), feeds, tmp_path) as case:
        x, hidden = case.feeds[name], np.maximum(case.feeds[name] @ first.T, 0)
        places = [case.at(nodes, is_weight=is_weight) for nodes, is_weight in (("0", True), ("2", True), ("0", False))]
        places.append(case.at(("0", "2"), is_weight=False))
        known = [case.graph.sites[place].range for place in places]
        assert known[0] is known[1] is None
        assert known[2] is not None
        assert known[3] is not None
        expected = [
            np.maximum(x @ rounded_weight(first).T, 0) @ last.T,
            hidden @ rounded_weight(last).T,
            np.maximum(rounded(x, known[2]) @ first.T, 0) @ last.T,
            rounded(hidden, known[3]) @ last.T,
        ]
        for place, output in zip(places, expected, strict=True):
            assert sqnr_db({"output": output}, case.alone(place)) > 80, case.graph.sites[place]
        found = case.graph.find_ranges(case.feeds)
        assert found == {
            places[2]: pytest.approx((x.min(), x.max())),
            places[3]: pytest.approx((hidden.min(), hidden.max()), rel=1e-5),
        }
        sides = case.graph.values(case.feeds, places)
        for (real, left), values in zip(sides, (first, last, x, hidden), strict=True):
            np.testing.assert_allclose(real, values, atol=1e-5)
            assert 30 < sqnr_db({"x": real}, {"x": left}) < 60
        # Another range is what an engine with that scale would have; a range of nothing is 0 and no NaN.
        off = [place for place in case.every if place != places[2]]
        halved = Range(known[2].low / 2, known[2].high / 2)
        given = case.graph.run(case.feeds, off, {places[2]: halved})
        output = np.maximum(rounded(x, halved) @ first.T, 0) @ last.T
        assert sqnr_db({"output": output}, given) > 60
        nothing = case.graph.run(case.feeds, off, {places[2]: Range(0.0, 0.0)})
        np.testing.assert_allclose(nothing["output"], 0.0, atol=1e-6)


def test_sites_of_a_shortcut(tmp_path: Path) -> None:
    """They are named by the products that make and read a tensor, through a shortcut too; a range is one of each."""
    with opened(specify(Residual(), images), images, tmp_path) as case:
        assert sqnr_db(case.float, case.graph.run(case.feeds, case.every)) > 110
        assert all((site.range is None) is site.is_weight for site in case.graph.sites)
        activations = [site.nodes for site in case.graph.sites if not site.is_weight]
    assert activations == [("stem.0",), ("stem.0", "inner"), ("inner", "dense"), ("dense",)]


def test_a_module_that_came_quantized(tmp_path: Path) -> None:
    """Its float weights are those of the float module; where these are others, the integers stay, and it is said."""
    module = Dense()
    prepared = prepare_qat(module, (torch.from_numpy(rows(0)["x"]),))
    for seed in range(4):
        prepared(torch.from_numpy(rows(seed)["x"]))
    converted = Model.from_torch(convert_qat(prepared), (torch.from_numpy(rows(0)["x"]),))
    spec = specify(module, rows, "qat", quantized=converted)
    folders = [tmp_path / name for name in ("same", "other")]
    for folder in folders:
        folder.mkdir()
    with opened(spec, rows, folders[0]) as case:
        assert sqnr_db(case.float, case.graph.run(case.feeds, case.every)) > 110
        assert (len(case.graph.sites), case.graph.unseen) == (8, "")
    with torch.no_grad():
        other = Dense()
        other.second.weight.normal_()
    with opened(replace(spec, model=specify(other, rows).model), rows, folders[1]) as case:
        assert len(case.graph.sites) == 7
        assert "which the float model does not have" in case.graph.unseen


def test_what_has_no_pairs_has_no_graph(tmp_path: Path) -> None:
    """Float, and weights that are kept in integers."""
    for scheme, precision in ((None, "fp32"), ("weight-only", "int8")):
        folder = tmp_path / precision
        folder.mkdir()
        spec = replace(specify(Dense(), rows), precision=precision, scheme=scheme, options=(("compiled", False),))
        TORCH.build(spec, None, folder)
        assert TORCH.switches(spec, folder, tmp_path) is None


def test_calibration_is_named(tmp_path: Path) -> None:
    """Samples a tenth as large: all ranges are off."""
    with opened(specify(Dense(), rows), rows, tmp_path, scale=0.1) as case:
        finding = climb(case, rows)
    assert finding.stage == "calibration"
    assert len(finding.ranges) == 4


def test_one_range_is_named(tmp_path: Path) -> None:
    """That of the values between the second and the third product, whose integers reach to a tenth of them."""

    def narrow(graph: Any) -> None:
        for node in graph.nodes:
            maker = node.args[0] if "quantize_per_tensor" in node.name else None
            maker = maker.args[0] if maker is not None and node.name.startswith("de") else maker
            if maker is not None and maker.name == "relu_1":
                node.args = (node.args[0], node.args[1] / 10, *node.args[2:])

    with opened(specify(Dense(), rows), rows, tmp_path, change=narrow) as case:
        finding = climb(case, rows)
        assert finding.stage == "range"
        assert {case.graph.sites[place].nodes for place in finding.sites} == {("second", "third")}


def test_a_layer_is_named(tmp_path: Path) -> None:
    """One channel that nothing reads takes all levels."""
    with opened(specify(Dense(large=1000.0), rows), rows, tmp_path) as case:
        finding = climb(case, rows)
        assert finding.stage == "layer"
        assert case.graph.sites[finding.sites[0]].nodes == ("second", "third")


def test_kernels_are_named(tmp_path: Path) -> None:
    """Of an engine whose sums are cut at half of what they reach, as 16 bits would; and of none that Inductor made."""
    with opened(specify(Dense(), rows, options=(("reduce_range", True),)), rows, tmp_path) as case:
        assert sqnr_db(case.engine, case.graph.run(case.feeds)) > sqnr_db(case.float, case.engine) + 10
        assert climb(case, rows).stage == "none"
        right = case.engine["output"]
        largest = np.abs(right).max()
        finding = climb(case, rows, {"output": np.clip(right, -largest / 2, largest / 2)})
    assert (finding.stage, finding.sites) == ("kernels", ())
