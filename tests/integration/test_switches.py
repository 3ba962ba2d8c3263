"""The graph with switches of a real engine: off it is the float model, on it is the engine.

The expected values of a rounding come from NumPy, by the formula of QuantizeLinear and DequantizeLinear in the ONNX
standard.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from pytest_quant.backends import Feeds, Outputs, get_backend
from pytest_quant.backends.switchable import Range, SwitchableGraph
from pytest_quant.spec import EngineSpec, Model

onnxruntime = pytest.importorskip("onnxruntime")

PICTURES = """<ir_version: 8, opset_import: ["": 17]> pictures (float[n, 3, 16, 16] x) => (float[n, 5] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, first, bias)
    b = Relu(a)
    c = Conv <pads = [1, 1, 1, 1]> (b, second)
    d = Add(b, c)
    e = Clip(d, zero, six)
    f = MaxPool <kernel_shape = [4, 4], strides = [4, 4]> (e)
    g = Flatten(f)
    y = Gemm <transB = 1> (g, third, last)
}"""
TOKENS = """<ir_version: 8, opset_import: ["": 17]> tokens (float[n, t, 24] x) => (float[n, t, 8] y) {
    a = MatMul(x, first)
    b = Softmax <axis = -1> (a)
    y = MatMul(b, second)
}"""


def write(path: Path, text: str, **weights: np.ndarray) -> Path:
    """Write the model of a text with named nodes and these weights."""
    model = parser.parse_model(text)
    for node in model.graph.node:
        node.name = f"{node.op_type.lower()}_{node.output[0]}"
    for name, array in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float32), name))
    onnx.save(model, path)
    return path


def pictures(folder: Path) -> tuple[Path, Feeds]:
    """Return a network with a residual, a Clip and a Gemm whose weights lie turned, and samples."""
    random = np.random.default_rng(0)
    weights = {
        "first": random.normal(size=(8, 3, 3, 3)) / 4,
        "bias": random.normal(size=8),
        "second": random.normal(size=(8, 8, 3, 3)) / 8,
        "zero": np.array(0.0),
        "six": np.array(6.0),
        "third": random.normal(size=(5, 128)) / 9,
        "last": random.normal(size=5),
    }
    return write(folder / "pictures.onnx", PICTURES, **weights), {"x": draw(1, 32, 3, 16, 16)}


def tokens(folder: Path) -> tuple[Path, Feeds]:
    """Return two products of matrices, and samples."""
    random = np.random.default_rng(2)
    weights = {"first": random.normal(size=(24, 40)), "second": random.normal(size=(40, 8))}
    return write(folder / "tokens.onnx", TOKENS, **weights), {"x": draw(3, 32, 6, 24)}


def draw(seed: int, *shape: int) -> np.ndarray:
    """Return numbers of the normal law as float32."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


NETWORKS = {"pictures": pictures, "tokens": tokens}


def sqnr_db(reference: np.ndarray, other: np.ndarray) -> float:
    """Return 20 log10(||r|| / ||r - c||), infinity for equal ones."""
    noise = float(np.linalg.norm(reference.astype(float) - other))
    return 20.0 * float(np.log10(np.linalg.norm(reference.astype(float)) / noise)) if noise else np.inf


class Opened:
    """The graph of an engine with switches, the engine, the float model, and samples."""

    def __init__(self, network: str, folder: Path, **how: Any) -> None:
        path, self.feeds = NETWORKS[network](folder)
        backend = get_backend(how.pop("backend", "ort"))
        scheme = how.pop("scheme", "static")
        precision = "int4" if scheme == "weight-only" else "int8"
        self.spec = EngineSpec("ort", precision, scheme, Model.from_onnx(path), **how)
        calibration, engine, work = (folder / name for name in ("calibration", "engine", "work"))
        for each in (calibration, engine, work):
            each.mkdir()
        if self.spec.scheme == "static":
            backend.calibrate(self.spec, lambda: iter([self.feeds]), calibration)
        backend.build(self.spec, calibration, engine)
        model = onnx.load(path)
        names = [name for node in model.graph.node for name in node.output if name != "y"]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        self.plain = dict(zip(["y", *names], ReferenceEvaluator(model).run(None, self.feeds), strict=True)) | self.feeds
        with backend.open(self.spec, engine) as opened:
            self.engine: Outputs = opened.run(self.feeds)
        found = backend.switches(self.spec, engine, work)
        assert found is not None
        self.graph: SwitchableGraph = found

    def run(self, *off: int) -> np.ndarray:
        """Return the output with these sites in float."""
        return self.graph.run(self.feeds, off)["y"]

    @property
    def every(self) -> range:
        """The places of all sites."""
        return range(len(self.graph.sites))


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """The network of a parameter."""
    name, how = request.param if isinstance(request.param, tuple) else (request.param, {})
    held = Opened(name, tmp_path, **how)
    yield held
    held.graph.close()


@pytest.mark.parametrize("opened", NETWORKS, indirect=True)
def test_off_it_is_the_float_model_and_on_it_is_the_engine(opened: Opened) -> None:
    """What is left are float32's own roundings, and integers on the border between two."""
    plain, engine = opened.plain["y"], opened.engine["y"]
    assert sqnr_db(plain, opened.run(*opened.every)) > 110.0
    assert sqnr_db(engine, opened.run()) > sqnr_db(plain, engine) + 10.0
    assert 20.0 < sqnr_db(plain, engine) < 60.0
    assert opened.graph.unseen == ""


@pytest.mark.parametrize("opened", NETWORKS, indirect=True)
def test_each_switch_takes_one_rounding(opened: Opened) -> None:
    """No two sites are one, and no switch is without effect where the tensor loses."""
    with_one_off = [opened.run(place) for place in opened.every]
    for place, (real, rounded) in zip(opened.every, opened.graph.values(opened.feeds, opened.every), strict=True):
        alone = opened.run(*[each for each in opened.every if each != place])
        assert real.shape == rounded.shape
        assert np.array_equal(alone, opened.run(*opened.every)) is np.array_equal(real, rounded)
    assert len({each.tobytes() for each in with_one_off}) > len(with_one_off) // 2


@pytest.mark.parametrize("opened", ["pictures"], indirect=True)
def test_values_are_those_of_the_float_model_and_of_the_standards_formula(opened: Opened) -> None:
    """Behind the Relu and the Clip, which the quantizer took away; rounded to the range of the site."""
    places = [place for place, site in enumerate(opened.graph.sites) if site.range is not None]
    seen = set()
    for place, (real, rounded) in zip(places, opened.graph.values(opened.feeds, places), strict=True):
        low, high = opened.graph.sites[place].range or (0.0, 0.0)
        step = (high - low) / 255
        zero = np.rint(-low / step)
        expected = (np.clip(np.rint(real / np.float32(step)) + zero, 0, 255) - zero) * np.float32(step)
        assert np.mean(np.abs(rounded - expected) > 1e-4 * (high - low)) < 1e-3
        assert opened.graph.find_ranges(opened.feeds)[place] == pytest.approx((real.min(), real.max()))
        seen |= {
            name
            for name, each in opened.plain.items()
            if each.shape == real.shape and np.allclose(real, each, atol=1e-4)
        }
    assert seen == {"x", "b", "c", "g", "y"}


@pytest.mark.parametrize("opened", ["pictures"], indirect=True)
def test_another_range_is_what_the_engine_would_have_with_it(opened: Opened) -> None:
    """The output's rounding with half its range gives the same float output, cut at the half."""
    place = max(place for place, site in enumerate(opened.graph.sites) if site.range is not None)
    low, high = opened.graph.sites[place].range or (0.0, 0.0)
    others = [each for each in opened.every if each != place]
    whole = opened.graph.run(opened.feeds, opened.every)["y"]
    halved = opened.graph.run(opened.feeds, others, {place: Range(low / 2, high / 2)})
    assert np.abs(halved["y"] - np.clip(whole, low / 2, high / 2)).max() <= (high - low) / 2 / 255


@pytest.mark.parametrize("opened", ["pictures"], indirect=True)
def test_sites_are_named_by_the_products_beside_them(opened: Opened) -> None:
    """Those of the user's model, not the quantizer's names of them."""
    activations = [site.nodes for site in opened.graph.sites if not site.is_weight]
    assert activations[:3] == [("conv_a",), ("conv_a", "conv_c"), ("conv_c", "gemm_y")]
    assert {site.nodes for site in opened.graph.sites if site.is_weight} == {("conv_a",), ("conv_c",), ("gemm_y",)}


@pytest.mark.parametrize(
    "opened", [("pictures", {"scheme": "dynamic"}), ("tokens", {"scheme": "dynamic"})], indirect=True
)
def test_of_a_dynamic_engine_the_weights_have_switches(opened: Opened) -> None:
    """And what has none is said: the ranges of activations are those of a run."""
    assert {site.is_weight for site in opened.graph.sites} == {True}
    assert sqnr_db(opened.plain["y"], opened.run(*opened.every)) > 110.0
    assert sqnr_db(opened.plain["y"], opened.run()) > sqnr_db(opened.plain["y"], opened.engine["y"])
    assert "ranges each run finds" in opened.graph.unseen
    assert opened.graph.find_ranges(opened.feeds) == {}


@pytest.mark.parametrize(
    ("opened", "nodes"),
    [
        (("tokens", {"scheme": "weight-only"}), [("matmul_a",), ("matmul_y",)]),
        (("pictures", {"scheme": "weight-only"}), [("gemm_y",)]),
    ],
    indirect=["opened"],
)
def test_of_an_int4_engine_the_weights_are_all(opened: Opened, nodes: list[tuple[str, ...]]) -> None:
    """Four bits in blocks: the graph with all of them on is the engine. The weight of a Gemm lies turned."""
    assert [site.nodes for site in opened.graph.sites] == nodes
    assert sqnr_db(opened.engine["y"], opened.run()) > 80.0
    assert sqnr_db(opened.plain["y"], opened.run(*opened.every)) > 110.0
    assert opened.graph.unseen == ""


@pytest.mark.parametrize("opened", ["pictures"], indirect=True)
def test_a_file_that_came_quantized_is_as_one_that_was_built(opened: Opened, tmp_path: Path) -> None:
    """With the float model beside it: the same sites, by names of the file, and the same outputs."""
    spec = replace(opened.spec, scheme="qat", quantized=Model.from_onnx(tmp_path / "engine" / "model.onnx"))
    work = tmp_path / "other"
    work.mkdir()
    graph = get_backend("ort").switches(spec, tmp_path / "engine", work)
    assert graph is not None
    with graph:
        assert [site.range for site in graph.sites] == [site.range for site in opened.graph.sites]
        every = range(len(graph.sites))
        assert np.array_equal(graph.run(opened.feeds)["y"], opened.run())
        assert sqnr_db(opened.plain["y"], graph.run(opened.feeds, every)["y"]) > 110.0
